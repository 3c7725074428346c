#pragma once
// Counts, in the background and a little at a time, what functions keep in the store (kept.h).

#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "base/task_group.h"
#include "session/function_metrics.h"
#include "store/store.h"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace nimbus::session {

// What there is of one session. A session that is over is none, but what it has in its state is
// there until it expires itself.
Task<Result<KeptTotals>> countSession(store::Store& store, std::string function_id,
                                      std::string session_key);

// Single-threaded: every member is called on the executor.
class Census {
 public:
  struct Options {
    // Functions that were never counted are looked for this often; all are counted anew that often.
    std::chrono::milliseconds look_every{1'000};
    std::chrono::milliseconds count_every{60'000};
    // After each page it rests for so many times as long as the page took: the store has others to
    // serve. The first count of a function is more urgent.
    int rest = 20;
    int first_rest = 1;
  };

  // Everything must outlive this, which counts the functions of `table`.
  Census(store::Store& store, const SteadyClock& clock, const FunctionMetricsTable& table,
         const boost::asio::any_io_executor& executor, Options options);

  void start();
  // Returns when nothing is under way any more.
  Task<> stop();

  // Counts one function. An error leaves what was counted before.
  Task<Result<>> count(std::string function_id, std::shared_ptr<FunctionMetrics> metrics);

 private:
  Task<> countForEver();
  Task<> pause(std::chrono::nanoseconds time);
  Task<Result<>> countSessions(std::string function_id, std::shared_ptr<FunctionMetrics> metrics);

  store::Store& store_;
  const SteadyClock& clock_;
  const FunctionMetricsTable& table_;
  const boost::asio::any_io_executor executor_;
  const Options options_;
  TaskGroup group_;
};

}  // namespace nimbus::session
