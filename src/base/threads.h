#pragma once
// The server's threads: each runs one io_context of its own and nothing else runs it, so whatever
// lives on one of them is single-threaded code.

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace nimbus {

class Threads {
 public:
  // Starts `count` threads; 0 means one for every two processors: functions and the store need the
  // others.
  explicit Threads(std::size_t count = 0);

  // Stops.
  ~Threads();

  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::size_t size() const { return threads_.size(); }
  boost::asio::io_context& context(std::size_t index);
  boost::asio::any_io_executor executor(std::size_t index);

  // Ends every thread after the handler it is running. What still waits on a context is not resumed
  // again; it is destroyed with the Threads. Not to be called on one of the threads.
  void stop();

 private:
  struct Thread;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace nimbus
