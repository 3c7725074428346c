#include "gateway/key_ring.h"

#include "base/log.h"
#include "gateway/device.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <utility>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;

constexpr const char* kKeys = "keys";
constexpr const char* kChanges = "changes";
constexpr const char* kChange = "change";

// Whoever shows unknown keys makes us look at the store no more often than this.
constexpr Millis kBetweenReads{20};

Task<> pause(Millis time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

Error noKey(std::string_view id) {
  return {Code::NotFound, fmt::format("there is no key {}", withoutSecrets(id))};
}

}  // namespace

store::Partition KeyRing::partition() {
  return {"keys", {}};
}

Task<> KeyRing::noticed() {
  return pause(kNoticedAfter);
}

void KeyRing::addTo(Metrics& metrics) {
  metrics.onScrape(Metrics::Kind::Gauge, "nimbus_auth_keys",
                   "API keys and tokens of devices that this server knows.",
                   [this] { return static_cast<double>(read().keys->size()); });
  reads_ = metrics.counter("nimbus_auth_key_reads_total",
                           "Times the store was asked whether keys have changed.");
}

KeyRing::KeyPtr KeyRing::known(std::string_view id) const {
  const SteadyTime now = clock_.now();
  const std::lock_guard lock(mutex_);
  if (!known_.as_of || now - *known_.as_of >= kKnownFor) return nullptr;
  const auto found = known_.keys->find(id);
  return found != known_.keys->end() ? found->second : nullptr;
}

KeyRing::Known KeyRing::read() const {
  const std::lock_guard lock(mutex_);
  return known_;
}

Task<Result<KeyRing::KeyPtr>> KeyRing::find(std::string id) {
  const SteadyTime asked = clock_.now();
  const function::Turns::Turn turn = co_await turns_.take();
  // Whoever had the turn before may have read it.
  if (KeyPtr key = known(id)) co_return key;
  const std::optional<SteadyTime> as_of = read().as_of;
  if (!as_of || *as_of < asked) {
    if (as_of && clock_.now() - *as_of < kBetweenReads) co_await pause(kBetweenReads);
    NIMBUS_CO_CHECK(co_await readAnew(clock_.now()));
  }
  const Known now = read();
  const auto found = now.keys->find(id);
  co_return found != now.keys->end() ? found->second : nullptr;
}

Task<Result<>> KeyRing::readAnew(SteadyTime begun) {
  if (reads_) reads_->increment();
  NIMBUS_CO_TRY(const auto change,
                co_await store::getRecord(store_, partition(), kChanges, kChange));
  const store::Version version = change ? change->version : 0;
  Known now = read();
  // All that was changed before `begun` is in what is read after it; what is changed while it is
  // read has a later version, so the next time finds a difference.
  if (version != now.change) {
    NIMBUS_CO_TRY(now.keys, co_await readAll());
    now.change = version;
  }
  now.as_of = begun;
  const std::lock_guard lock(mutex_);
  std::swap(known_, now);  // the old keys are destroyed after the lock
  co_return Result<>();
}

Task<Result<std::shared_ptr<const KeyRing::Map>>> KeyRing::readAll() {
  auto keys = std::make_shared<Map>();
  std::string after;
  while (true) {
    NIMBUS_CO_TRY(const KeyPage page, co_await list(after, 1000));
    for (const ApiKey& key : page.items) {
      keys->emplace(key.id(), std::make_shared<const ApiKey>(key));
    }
    after = page.last;
    if (!page.more) break;
  }
  NIMBUS_CO_CHECK(co_await addDevices(*keys));
  co_return std::shared_ptr<const Map>(std::move(keys));
}

Task<Result<>> KeyRing::addDevices(Map& map) {
  std::string after;
  while (true) {
    store::query::ScanRecords scan;
    scan.space = kDevices;
    scan.after = after;
    scan.limit = 1000;
    NIMBUS_CO_TRY(const auto page,
                  co_await store::ask<store::RecordPage>(store_, partition(), std::move(scan)));
    for (const store::Record& record : page.items) {
      after = record.key;
      const auto device = parseDeviceRecord(record.key, record.value);
      if (!device) continue;  // one that cannot be read is not let in
      auto credential = credentialOf(*device, default_limit_);
      if (credential) {
        map.emplace(record.key, std::make_shared<const ApiKey>(*std::move(credential)));
      }
    }
    if (!page.more) co_return Result<>();
  }
}

Task<Result<>> KeyRing::change(store::Batch batch) {
  // The version of this record tells whoever looks that something is different.
  batch.operations.emplace_back(store::op::Put{kChanges, kChange, "", {}, std::nullopt});
  store::PendingCommit commit = store_.commit(partition(), std::nullopt, std::move(batch));
  const auto done = co_await commit.done();
  if (!done) co_return done.error();
  co_return Result<>();
}

Task<Result<>> KeyRing::add(ApiKey key) {
  store::Batch batch;
  batch.conditions.emplace_back(store::require::SpaceWithin{kKeys, kMostKeys, 0});
  batch.operations.emplace_back(store::op::Put{kKeys, key.id(), keyRecord(key), {}, 0});
  auto changed = co_await change(std::move(batch));
  if (!changed && changed.error().code() == Code::QuotaExceeded) {
    co_return Error(
        Code::QuotaExceeded,
        fmt::format("there are {} keys already; delete some that nobody uses", kMostKeys))
        .with("limit", static_cast<std::int64_t>(kMostKeys));
  }
  co_return changed;
}

Task<Result<>> KeyRing::remove(std::string id) {
  NIMBUS_CO_CHECK(co_await show(id));
  store::Batch batch;
  batch.operations.emplace_back(store::op::Erase{kKeys, id, std::nullopt});
  NIMBUS_CO_CHECK(co_await change(std::move(batch)));
  co_await noticed();
  co_return Result<>();
}

Task<Result<KeyRing::KeyPage>> KeyRing::list(std::string after, std::size_t limit) {
  store::query::ScanRecords scan;
  scan.space = kKeys;
  scan.after = std::move(after);
  scan.limit = limit;
  NIMBUS_CO_TRY(const auto found,
                co_await store::ask<store::RecordPage>(store_, partition(), std::move(scan)));
  KeyPage page;
  page.more = found.more;
  if (!found.items.empty()) page.last = found.items.back().key;
  for (const store::Record& record : found.items) {
    auto key = parseKeyRecord(record.key, record.value, default_limit_);
    if (key) {
      page.items.push_back(*std::move(key));
    } else {  // one that cannot be read opens nothing, and must not close the others
      log::error("a key cannot be read and is ignored",
                 {{"key_id", record.key}, {"reason", key.error().message()}});
    }
  }
  co_return page;
}

Task<Result<ApiKey>> KeyRing::show(std::string id) {
  NIMBUS_CO_TRY(const auto record, co_await store::getRecord(store_, partition(), kKeys, id));
  if (!record) co_return noKey(id);
  co_return parseKeyRecord(std::move(id), record->value, default_limit_);
}

}  // namespace nimbus::gateway
