#pragma once
// How often somebody may ask, counted over all processes that share the store.
//
// Each limit is a limiter of the store: one atomic step takes a unit or refuses, whichever process
// asks, so what is let in is exact to the request. A request waits until its unit is applied, not
// until that is durable: a power cut gives back at most what was under way. Whoever has no limit
// costs nothing, and whoever is over it costs the store nothing until a unit can be there again:
// others can only have made that later.

#include "base/metrics.h"
#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "gateway/principal.h"
#include "http/request.h"
#include "store/store.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nimbus::gateway {

// Any thread. Everything it is given must outlive it.
class RateLimits {
 public:
  enum class Per : std::uint8_t { Key, Address, Function, Pairing };

  struct Options {
    // For everybody, whatever the key. `requests` 0: none.
    RateLimit per_address;
    RateLimit per_function;
    // Requests to be paired, from one address: anybody may make them.
    RateLimit per_pairing = RateLimit::perMinute(30);
  };

  RateLimits(store::Store& store, const SteadyClock& clock, Options options)
      : store_(store), clock_(clock), options_(options) {}

  void addTo(Metrics& metrics);

  // Before anything of the request is believed.
  bool limitsAddresses() const { return options_.per_address.requests != 0; }
  Task<Result<>> takeForAddress(http::Request& request);
  Task<Result<>> takeForPairing(http::Request& request);

  // For a request that is otherwise allowed. `function_id` is empty if it calls none.
  bool limits(const Principal& principal, std::string_view function_id) const {
    return principal.rate_limit.requests != 0 ||
           (!function_id.empty() && options_.per_function.requests != 0);
  }
  // RateLimited, with the field `retry_after_ms`. Either way the answer will tell, in its
  // RateLimit fields, of the limit that is nearest. `principal` lives until the task ends.
  Task<Result<>> take(const Principal& principal, std::string function_id, http::Request& request);

 private:
  // How a limit stands after a unit was taken, or refused.
  struct Standing {
    std::uint64_t limit = 0;
    std::uint64_t remaining = 0;
    Millis reset_after{};
  };
  struct Who {
    Per per;
    std::string id;
  };

  Task<Result<Standing>> takeOne(Who who, RateLimit limit, http::Request& request);
  // RateLimited if it is known to be empty.
  Result<> checkEmpty(const std::string& name);
  void rememberEmpty(std::string name, SteadyTime until, Millis reset_after);
  Error refuse(Per per, Error error, RateLimit limit, http::Request& request);
  static void tell(http::Request& request, const Standing& standing);

  struct Empty {
    SteadyTime until;    // no unit can be there before
    SteadyTime full_at;  // nor all of them before this
  };

  store::Store& store_;
  const SteadyClock& clock_;
  const Options options_;
  std::array<std::optional<Counter>, 4> taken_;
  std::array<std::optional<Counter>, 4> refused_;
  std::mutex mutex_;
  std::unordered_map<std::string, Empty> empty_;  // guarded by mutex_
};

}  // namespace nimbus::gateway
