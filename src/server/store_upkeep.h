#pragma once
// What a store needs while the server runs: to be swept of what has expired, and to be asked now
// and then whether it still answers.

#include "base/task_group.h"
#include "gateway/health.h"
#include "store/store.h"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <mutex>
#include <optional>

namespace nimbus::server {

// Health checks are answered from the last probe: anybody may ask, as often as they like, and the
// store does not notice.
class StoreUpkeep final : public gateway::StoreHealth {
 public:
  struct Options {
    Millis probe_every{1000};
    // A probe without an answer for this long means that the store is away.
    Millis probe_patience{2000};
    Millis sweep_every{5000};
    // At most this share of the time between two sweeps is spent sweeping.
    Millis sweep_budget{50};
  };

  // Works on `executor`. `store` must outlive it.
  StoreUpkeep(store::Store& store, boost::asio::any_io_executor executor, Options options);

  // Fails if the store does not answer now. A full disk is no failure: it makes it not ready.
  Task<Result<>> start();
  // Returns when nothing is under way any more.
  Task<> stop();

  Task<Result<gateway::StoreStatus>> check() override;

 private:
  using Steady = std::chrono::steady_clock;

  Task<> probe();
  Task<> sweep();
  Task<> pause(Millis time);

  store::Store& store_;
  const boost::asio::any_io_executor executor_;
  const Options options_;
  TaskGroup tasks_;

  std::mutex mutex_;
  std::optional<Error> last_error_;                // guarded by mutex_
  std::optional<Steady::time_point> asked_since_;  // guarded by mutex_; set while a probe runs
};

}  // namespace nimbus::server
