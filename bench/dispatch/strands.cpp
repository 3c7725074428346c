// A strand per session on a thread pool.

#include "contender.h"

#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <unordered_map>

namespace nimbus::bench {
namespace {

namespace asio = boost::asio;

class Strands final : public Contender {
 public:
  Strands(unsigned workers, const Names& names, Counter& counter)
      : counter_(counter), pool_(workers) {
    for (const std::string& name : names) strands_.try_emplace(name, pool_.get_executor());
  }
  ~Strands() override { pool_.join(); }
  Strands(const Strands&) = delete;
  Strands& operator=(const Strands&) = delete;

  void submit(const std::string& session) override {
    asio::post(strands_.find(session)->second,
               [this] { counter_.done.fetch_add(1, std::memory_order_relaxed); });
  }

 private:
  Counter& counter_;
  asio::thread_pool pool_;
  std::unordered_map<std::string, asio::strand<asio::thread_pool::executor_type>> strands_;
};

}  // namespace

std::unique_ptr<Contender> makeStrands(unsigned workers, const Names& names, Counter& counter) {
  return std::make_unique<Strands>(workers, names, counter);
}

}  // namespace nimbus::bench
