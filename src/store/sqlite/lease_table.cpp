#include "store/sqlite/lease_table.h"

#include "store/rules.h"

namespace nimbus::store::sqlite {

LeaseTable::LeaseTable(Connection& connection)
    : load_(connection,
            "SELECT holder, epoch, nonce, expires_at FROM lease WHERE partition=?1 AND name=?2"),
      grant_(connection,
             "INSERT INTO lease(partition, name, holder, epoch, nonce, expires_at)"
             " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET"
             " holder=?3, epoch=?4, nonce=?5, expires_at=?6"),
      renew_(connection, "UPDATE lease SET expires_at=?3 WHERE partition=?1 AND name=?2"),
      release_(connection,
               "UPDATE lease SET holder=x'', expires_at=NULL WHERE partition=?1 AND name=?2"),
      drop_(connection, "DELETE FROM lease WHERE partition=?1") {}

void LeaseTable::begin(std::string_view partition, Timestamp now) {
  partition_ = Text{partition};
  now_ = now;
}

Result<LeaseBefore> LeaseTable::load(std::string_view lease) {
  LeaseBefore before;
  auto rows = load_.query(partition_, lease);
  NIMBUS_TRY(before.present, rows.next());
  if (!before.present) return before;
  before.holder = rows.bytes(0);
  before.token = {rows.unsignedInteger(1), rows.unsignedInteger(2)};
  before.expires_at = rows.optionalTime(3);
  return before;
}

Result<> LeaseTable::checkFence(const Fence& fence) {
  NIMBUS_TRY(const LeaseBefore before, load(fence.lease));
  // An expired lease that nobody took since still fences: its holder is the last one.
  if (before.isHeldWith(fence.token)) return {};
  return fenced(fence.lease);
}

Result<> LeaseTable::check(const op::Acquire& op, const LeaseBefore& before) const {
  const bool free = before.holder.empty() || !isLive(before.expires_at, now_);
  const bool taken_over = op.take_over && before.isHeldWith(*op.take_over);
  if (free || taken_over) return {};
  return leaseHeld(op.lease, before.holder);
}

Result<> LeaseTable::check(const op::Renew& op, const LeaseBefore& before) const {
  if (before.isHeldWith(op.token) && isLive(before.expires_at, now_)) return {};
  return fenced(op.lease);
}

Result<> LeaseTable::check(const op::Release& op, const LeaseBefore& before) {
  if (before.isHeldWith(op.token)) return {};
  return fenced(op.lease);
}

std::optional<Timestamp> LeaseTable::expiry(const std::optional<Millis>& ttl) const {
  return ttl ? std::optional(now_ + *ttl) : std::nullopt;
}

Result<LeaseGranted> LeaseTable::acquire(const op::Acquire& op, const LeaseBefore& before) {
  const Token token{before.token.epoch + 1, op.nonce};
  const auto expires_at = expiry(op.ttl);
  NIMBUS_CHECK(grant_.run(partition_, op.lease, op.holder, token.epoch, token.nonce, expires_at));
  return LeaseGranted{token, expires_at};
}

Result<LeaseGranted> LeaseTable::renew(const op::Renew& op) {
  const auto expires_at = expiry(op.ttl);
  NIMBUS_CHECK(renew_.run(partition_, op.lease, expires_at));
  return LeaseGranted{op.token, expires_at};
}

Result<> LeaseTable::release(const op::Release& op) {
  NIMBUS_CHECK(release_.run(partition_, op.lease));
  return {};
}

Result<> LeaseTable::dropPartition(std::string_view partition) {
  NIMBUS_CHECK(drop_.run(Text{partition}));
  return {};
}

}  // namespace nimbus::store::sqlite
