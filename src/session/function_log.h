#pragma once
// The newest lines of a function's log.

#include "base/clock.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::session {

struct LogLine {
  std::uint64_t number = 0;  // counts the lines of the function
  Timestamp time;
  std::string stream;  // "stdout", "stderr"
  std::string line;
  std::string request_id;  // empty: not known
};

// Any thread may use any member.
class FunctionLog {
 public:
  // Whoever wants to know when there is more. Ends with this object.
  class Follower {
   public:
    // `wake` is called on the thread that writes, must not block, and must not call the log.
    Follower(std::shared_ptr<FunctionLog> log, std::function<void()> wake);
    ~Follower();
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

    // Has `wake` called once, when there is a line after `after` or the log is closed; false if
    // that is so already. Those who do not ask cost whoever writes nothing.
    bool wait(std::uint64_t after);

   private:
    friend class FunctionLog;
    const std::shared_ptr<FunctionLog> log_;
    const std::function<void()> wake_;
    bool is_waiting_ = false;  // guarded by the log's mutex
  };

  // `text` is one or more lines.
  void add(Timestamp time, std::string_view stream, std::string_view text,
           std::string_view request_id);

  // Newest first, at most `limit`, of those before `before` (0: of all).
  std::vector<LogLine> newest(std::size_t limit, std::uint64_t before = 0) const;
  // Oldest first, those after `after`.
  std::vector<LogLine> after(std::uint64_t after, std::size_t limit) const;
  // Of the newest line there has been.
  std::uint64_t lastNumber() const;

  // The function is gone: nothing is added any more.
  void close();
  bool isClosed() const;

 private:
  void wakeFollowers();
  static constexpr std::size_t kLines = 2000;
  static constexpr std::size_t kBytes = 1024UL * 1024;
  static constexpr std::size_t kLineBytes = 16UL * 1024;

  mutable std::mutex mutex_;
  std::deque<LogLine> lines_;
  std::size_t bytes_ = 0;
  std::uint64_t next_ = 1;
  bool is_closed_ = false;
  std::vector<Follower*> followers_;
};

}  // namespace nimbus::session
