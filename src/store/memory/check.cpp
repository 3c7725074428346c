#include "store/memory/partition_data.h"
#include "store/rules.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace nimbus::store::memory {
namespace {

// Asks of each condition and operation whether it holds, in the partition as it was before the
// batch. All that an operation sees of those before it is what EraseSpace, RemoveRange and
// RemoveTerm take away: it finds that gone.
class Check {
 public:
  Check(const PartitionData& data, const Batch& batch, Timestamp now)
      : data_(data), batch_(batch), now_(now) {
    for (const Operation& operation : batch.operations) {
      if (const auto* erase = std::get_if<op::EraseSpace>(&operation)) {
        cleared_.emplace(erase->space, erase->last);
      }
    }
  }

  Result<> fence(const Fence& fence) const {
    const Lease* held = lease(fence.lease);
    // An expired lease still fences: until somebody else acquires it, nobody else has written.
    if (held == nullptr || held->token != fence.token) return fenced(fence.lease);
    return {};
  }

  Result<> condition(const Condition& condition) const {
    return std::visit([this](const auto& c) { return holds(c); }, condition);
  }

  Result<> operation(const Operation& operation) const {
    return std::visit([this](const auto& o) { return allowed(o); }, operation);
  }

 private:
  // ---- what was there before the batch

  const Lease* lease(const std::string& name) const {
    const LeaseState& state = orEmpty(data_.leases, name);
    return state.lease ? &*state.lease : nullptr;
  }
  const StoredRecord* record(const std::string& space, const std::string& key) const {
    if (cleared_.contains(space)) return nullptr;
    return orEmpty(data_.spaces, space).findLive(key, now_);
  }
  const Log& log(const std::string& name) const { return orEmpty(data_.logs, name); }
  const Queue& queue(const std::string& name) const { return orEmpty(data_.queues, name); }

  Result<> expected(const std::optional<Version>& expected, Version current) const {
    if (expected && *expected != current) return versionConflict(current);
    return {};
  }
  Result<> expected(const std::optional<Version>& wanted, const std::string& space,
                    const std::string& key) const {
    const StoredRecord* found = record(space, key);
    return expected(wanted, found != nullptr ? found->version : 0);
  }

  // ---- conditions

  Result<> holds(const require::RecordVersion& c) const {
    return expected(c.version, orEmpty(data_.spaces, c.space).liveVersion(c.key, now_));
  }
  Result<> holds(const require::SpaceWithin& c) const {
    const Usage before = orEmpty(data_.spaces, c.space).usage(now_);
    const Usage after = usageAfter(c.space, before);
    if (exceeds(c.max_records, before.records, after.records)) {
      return quotaExceeded("records", c.max_records);
    }
    if (exceeds(c.max_bytes, before.bytes, after.bytes)) {
      return quotaExceeded("bytes", c.max_bytes);
    }
    return {};
  }
  Result<> holds(const require::LogEndsAt& c) const {
    const LogInfo info = log(c.log).info();
    if (info.last_seq != c.last_seq) return logMoved(c.log, info);
    return {};
  }
  Result<> holds(const require::LogUnchanged& c) const {
    const LogInfo info = log(c.log).info();
    if (info.revision != c.revision) return logMoved(c.log, info);
    return {};
  }
  Result<> holds(const require::QueueWithin& c) const {
    const std::uint64_t before = queue(c.queue).part(QueuePart::Line).size();
    const std::uint64_t after = waitingAfter(c.queue, before);
    // Like a space, a line that is too long already may shrink or stay. 0 is a limit here.
    if (after <= c.max_waiting || after <= before) return {};
    return quotaExceeded("waiting items", c.max_waiting);
  }

  // ---- what will be there after the batch

  // The size of the record that an operation leaves behind; nothing if it leaves none that is live.
  // Operations that will be refused leave what they found.
  std::optional<std::uint64_t> sizeAfter(const op::Put& o, const StoredRecord* found) const {
    return liveSize(o.value.size(), expiryAfter(o.expiry, found));
  }
  std::optional<std::uint64_t> sizeAfter(const op::Add& o, const StoredRecord* found) const {
    const auto sum = addTo(textOf(found), o.delta);
    if (!sum) return sizeOf(found);
    return liveSize(std::to_string(*sum).size(), expiryAfter(o.expiry, found));
  }
  std::optional<std::uint64_t> sizeAfter(const op::Touch& o, const StoredRecord* found) const {
    if (found == nullptr) return std::nullopt;
    return liveSize(found->value.size(), o.expires_at);
  }
  std::optional<std::uint64_t> sizeAfter(const op::Erase&, const StoredRecord*) const {
    return std::nullopt;
  }

  std::optional<std::uint64_t> liveSize(std::uint64_t size,
                                        const std::optional<Timestamp>& expires_at) const {
    if (!isLive(expires_at, now_)) return std::nullopt;
    return size;
  }
  static std::optional<std::uint64_t> sizeOf(const StoredRecord* found) {
    if (found == nullptr) return std::nullopt;
    return found->value.size();
  }
  static std::optional<std::string_view> textOf(const StoredRecord* found) {
    if (found == nullptr) return std::nullopt;
    return found->value;
  }
  static std::optional<Timestamp> expiryAfter(const Expiry& expiry, const StoredRecord* found) {
    return found != nullptr ? expiryOf(expiry, {true, found->expires_at}) : expiryOf(expiry, {});
  }

  Usage usageAfter(const std::string& space, const Usage& before) const {
    Usage usage = cleared_.contains(space) ? Usage{} : before;
    const auto change = [&](const auto& o) {
      if constexpr (requires { sizeAfter(o, nullptr); }) {
        if (o.space != space) return;
        const StoredRecord* found = record(o.space, o.key);
        if (const auto size = sizeOf(found)) {
          --usage.records;
          usage.bytes -= *size;
        }
        if (const auto size = sizeAfter(o, found)) {
          ++usage.records;
          usage.bytes += *size;
        }
      }
    };
    for (const Operation& operation : batch_.operations) std::visit(change, operation);
    if (dropsPartition()) return {};
    return usage;
  }

  // How many more wait in the line for it: 1, 0 or -1.
  static int change(const Queue& queue, const op::Push& o) {
    return queue.find(o.id) == nullptr && !o.due_at ? 1 : 0;
  }
  static int change(const Queue& queue, const op::Join& o) {
    return queue.find(o.id, QueuePart::Scheduled) != nullptr ? 1 : 0;
  }
  static int change(const Queue& queue, const op::Revive& o) {
    return queue.find(o.id, QueuePart::Parked) != nullptr ? 1 : 0;
  }
  static int change(const Queue& queue, const op::Complete& o) {
    return queue.find(o.id, QueuePart::Line) != nullptr ? -1 : 0;
  }
  static int change(const Queue& queue, const op::Park& o) {
    return queue.find(o.id, QueuePart::Line) != nullptr ? -1 : 0;
  }

  std::uint64_t waitingAfter(const std::string& name, std::uint64_t before) const {
    if (dropsPartition()) return 0;
    auto waiting = static_cast<std::int64_t>(before);
    const auto count = [&](const auto& o) {
      if constexpr (requires { change(queue(name), o); }) {
        if (o.queue == name) waiting += change(queue(name), o);
      }
    };
    for (const Operation& operation : batch_.operations) std::visit(count, operation);
    return static_cast<std::uint64_t>(waiting);
  }

  bool dropsPartition() const {
    return batch_.operations.size() == 1 &&
           std::holds_alternative<op::DropPartition>(batch_.operations.front());
  }

  // ---- records

  // What a version given for the record must be above.
  Version highestBefore(const std::string& name, const std::string& key) const {
    const Space& space = orEmpty(data_.spaces, name);
    if (const auto cleared = cleared_.find(name); cleared != cleared_.end()) {
      return std::max(space.highestVersion(), cleared->second);
    }
    const auto found = space.records.find(key);
    return found != space.records.end() ? found->second.version : space.floor;
  }
  Result<> canTake(const std::optional<Version>& version, const std::string& space,
                   const std::string& key) const {
    if (!version) return {};
    const Version highest = highestBefore(space, key);
    if (*version <= highest) return versionTooLow(*version, highest);
    return {};
  }

  Result<> allowed(const op::Put& o) const {
    NIMBUS_CHECK(expected(o.expected, o.space, o.key));
    return canTake(o.version, o.space, o.key);
  }
  Result<> allowed(const op::Erase& o) const { return expected(o.expected, o.space, o.key); }
  Result<> allowed(const op::EraseSpace&) const { return {}; }
  Result<> allowed(const op::Add& o) const {
    NIMBUS_CHECK(expected(o.expected, o.space, o.key));
    NIMBUS_CHECK(addTo(textOf(record(o.space, o.key)), o.delta));
    return {};
  }
  Result<> allowed(const op::Touch& o) const {
    NIMBUS_CHECK(expected(o.expected, o.space, o.key));
    if (record(o.space, o.key) == nullptr) return notFound("record", o.key);
    return canTake(o.version, o.space, o.key);
  }

  // ---- log

  Result<> allowed(const op::Append& o) const {
    const Entry* entry = log(o.log).find(o.id);
    if (entry == nullptr || entry->fingerprint == o.fingerprint) return {};
    if (removedByBatch(o.log, *entry)) return {};
    return idTaken(o.id, entry->seq);
  }
  Result<> allowed(const op::Amend& o) const { return entry(o.log, o.id, o.expected); }
  Result<> allowed(const op::Remove& o) const { return entry(o.log, o.id, o.expected); }
  Result<> allowed(const op::RemoveRange&) const { return {}; }
  Result<> allowed(const op::RemoveTerm&) const { return {}; }
  Result<> allowed(const op::DropLog&) const { return {}; }

  Result<> entry(const std::string& name, const std::string& id,
                 const std::optional<Version>& wanted) const {
    const Entry* found = log(name).find(id);
    if (found == nullptr) return notFound("entry", id);
    return expected(wanted, found->version);
  }

  // What removes many at once comes before all appends to its log, so the order needs no look.
  bool removedByBatch(const std::string& log, const Entry& entry) const {
    return std::any_of(
        batch_.operations.begin(), batch_.operations.end(), [&](const Operation& operation) {
          if (const auto* range = std::get_if<op::RemoveRange>(&operation)) {
            return range->log == log && range->from <= entry.seq && entry.seq <= range->to;
          }
          if (const auto* term = std::get_if<op::RemoveTerm>(&operation)) {
            return term->log == log && std::find(entry.terms.begin(), entry.terms.end(),
                                                 term->term) != entry.terms.end();
          }
          return false;
        });
  }

  // ---- lease

  Result<> allowed(const op::Acquire& o) const {
    const Lease* held = lease(o.lease);
    if (held == nullptr || !isLive(held->expires_at, now_) || o.take_over == held->token) return {};
    return leaseHeld(o.lease, held->holder);
  }
  Result<> allowed(const op::Renew& o) const {
    NIMBUS_CHECK(fence({o.lease, o.token}));
    if (!isLive(lease(o.lease)->expires_at, now_)) return fenced(o.lease);
    return {};
  }
  Result<> allowed(const op::Release& o) const { return fence({o.lease, o.token}); }

  // ---- queue

  Result<> allowed(const op::Push&) const { return {}; }
  Result<> allowed(const op::Join& o) const { return item(o, QueuePart::Scheduled); }
  Result<> allowed(const op::Defer& o) const { return item(o, QueuePart::Line); }
  Result<> allowed(const op::Park& o) const { return item(o, QueuePart::Line); }
  Result<> allowed(const op::Revive& o) const { return item(o, QueuePart::Parked); }
  Result<> allowed(const op::Complete& o) const {
    if (queue(o.queue).find(o.id) == nullptr) return notFound("item", o.id);
    return {};
  }

  template <typename O>
  Result<> item(const O& o, QueuePart part) const {
    if (queue(o.queue).find(o.id, part) == nullptr) return notFound("item", o.id);
    return {};
  }

  // ---- limiter, partition

  Result<> allowed(const op::Take& o) const {
    NIMBUS_CHECK(gcra(o, orEmpty(data_.limiters, o.limiter), now_));
    return {};
  }
  Result<> allowed(const op::DropPartition&) const { return {}; }

  const PartitionData& data_;
  const Batch& batch_;
  const Timestamp now_;
  std::map<std::string, Version> cleared_;  // spaces that EraseSpace empties, and its `last`
};

}  // namespace

Result<> check(const PartitionData& data, const std::optional<Fence>& fence, const Batch& batch,
               Timestamp now) {
  const Check checks(data, batch, now);
  if (fence) NIMBUS_CHECK(checks.fence(*fence));
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    if (auto held = checks.condition(batch.conditions[i]); !held) {
      return std::move(held).error().with("condition", static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    if (auto allowed = checks.operation(batch.operations[i]); !allowed) {
      return std::move(allowed).error().with("operation", static_cast<std::int64_t>(i));
    }
  }
  return {};
}

}  // namespace nimbus::store::memory
