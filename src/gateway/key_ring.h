#pragma once
// The API keys, and the tokens of devices, as this process knows them, and how old that knowledge
// is.
//
// A key that was deleted must not be let in by any process once the deletion is answered. So what
// is known is believed for kKnownFor only, counted from before it was read, and a deletion is
// answered no sooner than that after it is durable: by then nobody believes in anything older. In
// between, requests ask memory. docs/adr/0010-keys.md has the argument.

#include "base/metrics.h"
#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "function/turns.h"
#include "gateway/api_key.h"
#include "store/store.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nimbus::gateway {

// Any thread. Everything it is given must outlive it.
class KeyRing {
 public:
  using KeyPtr = std::shared_ptr<const ApiKey>;

  // All processes that share a store must agree on it.
  static constexpr Millis kKnownFor{250};
  // After this long everybody has noticed a change that is durable. The rest is for clocks that do
  // not run equally fast.
  static constexpr Millis kNoticedAfter{300};
  // Keys there may be: every process has all of them in memory.
  static constexpr std::size_t kMostKeys = 10'000;

  KeyRing(store::Store& store, const SteadyClock& clock, RateLimit default_limit)
      : store_(store), clock_(clock), default_limit_(default_limit) {}

  void addTo(Metrics& metrics);

  // The key of that id if what is known is new enough to be believed and has it; nothing says
  // nothing. Never waits.
  KeyPtr known(std::string_view id) const;
  // The key, however new; null if there was none when this was called. Those who ask at once share
  // one look at the store, and for what is not there it is taken only so often: guessing keys is
  // slow and costs others nothing.
  Task<Result<KeyPtr>> find(std::string id);

  // Durable when it returns. QuotaExceeded if there are too many.
  Task<Result<>> add(ApiKey key);
  // No process accepts the key for a request that is sent after this has returned. NotFound if
  // there is no such key.
  Task<Result<>> remove(std::string id);

  // The partition of keys and devices: what changes together with what is known of them.
  static store::Partition partition();
  // Devices are records of this space.
  static constexpr const char* kDevices = "devices";
  // Carries out a change of that partition which concerns who is let in. Durable when it returns.
  Task<Result<>> change(store::Batch batch);
  // Returns when every process must have noticed what was durable before.
  static Task<> noticed();

  // Straight from the store, by id.
  struct KeyPage {
    std::vector<ApiKey> items;
    std::string last;  // where the next page goes on
    bool more = false;
  };
  Task<Result<KeyPage>> list(std::string after, std::size_t limit);
  Task<Result<ApiKey>> show(std::string id);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view id) const { return std::hash<std::string_view>()(id); }
  };
  using Map = std::unordered_map<std::string, KeyPtr, Hash, std::equal_to<>>;

  // What was read, or was found unchanged, at a moment.
  struct Known {
    std::shared_ptr<const Map> keys = std::make_shared<const Map>();
    store::Version change = 0;  // of the record that every change writes
    std::optional<SteadyTime> as_of;
  };

  Known read() const;
  Task<Result<>> readAnew(SteadyTime begun);
  Task<Result<std::shared_ptr<const Map>>> readAll();
  Task<Result<>> addDevices(Map& map);

  store::Store& store_;
  const SteadyClock& clock_;
  const RateLimit default_limit_;
  std::optional<Counter> reads_;
  function::Turns turns_;  // of reading
  mutable std::mutex mutex_;
  Known known_;  // guarded by mutex_
};

}  // namespace nimbus::gateway
