#include "generator.h"

#include "builders.h"

#include <algorithm>
#include <array>

namespace nimbus::store::conformance {
namespace {

using namespace std::chrono_literals;

const std::vector<std::string> kSpaces = {"s", "t"};
const std::vector<std::string> kKeys = {"a", "ab", "b"};
const std::vector<std::string> kValues = {"", "1", "-7", "text", "9223372036854775807", "12345"};
const std::vector<std::string> kLogs = {"l", "m"};
const std::vector<std::string> kIds = {"1", "2", "3", "4", "5"};
const std::vector<std::string> kIndexes = {"i", "j"};
const std::vector<std::string> kTerms = {"", "x", "xy", "y"};
const std::vector<std::string> kLeases = {"owner", "other"};
const std::vector<std::string> kQueues = {"q", "r"};
const std::vector<std::string> kItems = {"1", "2", "3"};
const std::vector<std::string> kLimiters = {"limit"};

constexpr Millis kLongTtl = 1h;

template <typename T>
T orNone(const std::map<std::string, T>& map, const std::string& name) {
  const auto found = map.find(name);
  return found != map.end() ? found->second : T();
}

}  // namespace

Batch Generator::everyName() {
  Batch all;
  for (const std::string& space : kSpaces) all.operations.emplace_back(put(space, "a"));
  for (const std::string& log : kLogs) {
    for (const std::string& index : kIndexes) {
      all.operations.emplace_back(append(log, "1", {{index, "x"}}));
    }
  }
  for (const std::string& lease : kLeases) all.operations.emplace_back(acquire(lease, "me"));
  for (const std::string& queue : kQueues) all.operations.emplace_back(push(queue, "1"));
  return all;
}

Batch Generator::batch(const ModelPartition& data, Timestamp now) {
  for (;;) {
    Batch batch;
    if (chance(1)) {
      batch.operations.emplace_back(op::DropPartition{});
    } else {
      for (std::uint64_t left = 1 + below(5); left > 0; --left) {
        batch.operations.push_back(operation(data, now));
      }
    }
    while (chance(30)) batch.conditions.push_back(condition(data));
    if (chance(15)) {
      const std::string key = names_ + "-" + std::to_string(below(3));
      batch.listings.push_back(chance(60) ? list("d", key, pick(kValues)) : unlist("d", key));
    }
    // With so few names most batches would touch something twice; a few of those are enough.
    if (validate(batch) || chance(3)) return batch;
  }
}

std::optional<Fence> Generator::fence(const ModelPartition& data) {
  if (!chance(15)) return std::nullopt;
  const std::string lease = pick(kLeases);
  return Fence{lease, token(data, lease)};
}

Operation Generator::operation(const ModelPartition& data, Timestamp now) {
  switch (below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return recordOperation(data, now);
    case 4:
    case 5:
    case 6:
      return logOperation(data);
    case 7:
      return leaseOperation(data);
    case 8:
      return queueOperation(data, now);
    default:
      return chance(30)
                 ? Operation(take(pick(kLimiters), std::chrono::microseconds(1500), 4, below(6)))
                 : queueOperation(data, now);
  }
}

Operation Generator::recordOperation(const ModelPartition& data, Timestamp now) {
  const std::string space = pick(kSpaces);
  const std::string key = pick(kKeys);
  const ModelRecord* live = data.live(space, key, now);
  const Version current = live != nullptr ? live->version : 0;
  switch (below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return op::Put{
          space, key, pick(kValues), expiry(now), expected(current), given(data, {space, key})};
    case 4:
    case 5:
      return op::Erase{space, key, expected(current), last(data, {space, key})};
    case 6:
      return op::EraseSpace{space, last(data, {space, key})};
    case 7:
    case 8:
    case 9: {
      const auto delta = static_cast<std::int64_t>(below(5)) - 2;
      return op::Add{space, key, delta, expiry(now), expected(current)};
    }
    default:
      return op::Touch{space, key, soon(now), expected(current), given(data, {space, key})};
  }
}

Operation Generator::logOperation(const ModelPartition& data) {
  const std::string log = pick(kLogs);
  const std::string id = pick(kIds);
  Version current = 0;
  const ModelLog known = orNone(data.logs, log);
  for (const Entry& entry : known.entries) {
    if (entry.id == id) current = entry.version;
  }
  switch (below(14)) {
    case 0:
    case 1:
      return op::Amend{log, id, pick(kValues), terms(), expected(current)};
    case 2:
    case 3:
      return op::Remove{log, id, expected(current)};
    case 4: {
      const Seq from = known.last_seq - std::min<Seq>(known.last_seq, below(4));
      return op::RemoveRange{log, from, chance(20) ? UINT64_MAX : from + below(3)};
    }
    case 5:
    case 6:
      return op::RemoveTerm{log, {pick(kIndexes), pick(kTerms)}};
    case 7:
      return chance(30) ? Operation(op::DropLog{log}) : Operation(append(log, id, terms()));
    default:
      return op::Append{log, id, pick(kValues), terms(), chance(85) ? "same" : "another"};
  }
}

Operation Generator::leaseOperation(const ModelPartition& data) {
  const std::string lease = pick(kLeases);
  switch (below(6)) {
    case 0:
      return op::Release{lease, token(data, lease)};
    case 1:
    case 2:
      return op::Renew{lease, token(data, lease), ttl()};
    default: {
      op::Acquire acquire{lease, "holder-" + std::to_string(below(3)), below(1000), ttl(), {}};
      if (chance(30)) acquire.take_over = token(data, lease);
      return acquire;
    }
  }
}

Operation Generator::queueOperation(const ModelPartition& data, Timestamp now) {
  const std::string queue = pick(kQueues);
  const std::string id = pick(kItems);
  std::optional<QueuePart> part;
  for (const QueueItem& item : orNone(data.queues, queue).items) {
    if (item.id == id) part = item.part;
  }
  // Mostly what can be done to the item where it is, or a long life would be rare.
  if (chance(25)) part = static_cast<QueuePart>(below(3));
  if (!part || chance(10)) {
    return chance(70) ? push(queue, id, pick(kValues))
                      : schedule(queue, id, now + Millis(below(3)));
  }
  if (chance(20)) return complete(queue, id);
  switch (*part) {
    case QueuePart::Scheduled:
      return join(queue, id);
    case QueuePart::Parked:
      return revive(queue, id);
    case QueuePart::Line:
      break;
  }
  return chance(50) ? Operation(defer(queue, id, now + Millis(below(3))))
                    : Operation(park(queue, id, pick(kValues)));
}

Condition Generator::condition(const ModelPartition& data) {
  const std::string log = pick(kLogs);
  const ModelLog known = orNone(data.logs, log);
  switch (below(6)) {
    case 0: {
      const std::string space = pick(kSpaces);
      const std::string key = pick(kKeys);
      const auto found = data.records.find({space, key});
      const Version version = found != data.records.end() ? found->second.version : 0;
      return require::RecordVersion{space, key, chance(70) ? version : below(5)};
    }
    case 1:
      return require::LogEndsAt{log, chance(70) ? known.last_seq : below(6)};
    case 2:
      return require::LogUnchanged{log, chance(80) ? known.seen_revision : below(9)};
    case 3:
      return require::QueueWithin{pick(kQueues), below(4)};
    default:
      return require::SpaceWithin{pick(kSpaces), below(4), chance(50) ? 0 : below(12)};
  }
}

std::optional<Version> Generator::expected(Version current) {
  if (chance(60)) return std::nullopt;
  if (chance(70)) return current;
  return chance(50) ? 0 : current + 1 - below(3);
}

// Around the versions that it may have to be above: the record's own, the floor, and what the floor
// perhaps is.
std::optional<Version> Generator::given(const ModelPartition& data,
                                        const ModelPartition::Key& key) {
  if (chance(60)) return std::nullopt;
  if (chance(2)) return chance(50) ? 0 : kMaxVersion + 1;
  const auto found = data.records.find(key);
  const Version own = found != data.records.end() ? found->second.version : 0;
  const Version erased = orNone(data.erased, key.first);
  const Version expired = orNone(data.expired, key.first);
  if (chance(70)) return std::max({own, erased, expired}) + 1 + below(3);
  const std::array<Version, 3> around = {own, erased, expired};
  return around.at(below(around.size())) + below(3);
}

Version Generator::last(const ModelPartition& data, const ModelPartition::Key& key) {
  if (chance(60)) return 0;
  if (chance(1)) return kMaxVersion + 1;
  const auto found = data.records.find(key);
  const Version own = found != data.records.end() ? found->second.version : 0;
  const Version around = chance(70) ? own : orNone(data.erased, key.first);
  return around - std::min(around, below(3)) + below(3);
}

std::optional<Timestamp> Generator::soon(Timestamp now) {
  if (chance(35)) return std::nullopt;
  return now + Millis(below(5)) - 1ms;
}

Expiry Generator::expiry(Timestamp now) {
  return {.at = soon(now), .keep_existing = chance(40)};
}

std::vector<Term> Generator::terms() {
  std::vector<Term> terms;
  while (chance(50)) terms.push_back({pick(kIndexes), pick(kTerms)});
  return terms;
}

Token Generator::token(const ModelPartition& data, const std::string& lease) {
  Token token = orNone(data.leases, lease).token;
  if (chance(15)) token.nonce += 1;
  if (chance(15)) token.epoch -= std::min<std::uint64_t>(token.epoch, 1);
  return token;
}

std::optional<Millis> Generator::ttl() {
  if (chance(20)) return std::nullopt;
  return chance(30) ? kLongTtl : Millis(below(4));
}

Query Generator::query(const ModelPartition& data, Timestamp now) {
  const std::string log = pick(kLogs);
  const Seq last = orNone(data.logs, log).last_seq;
  const Order order = chance(50) ? Order::Ascending : Order::Descending;
  const std::size_t limit = 1 + below(3);
  switch (below(9)) {
    case 0:
      return query::GetRecord{pick(kSpaces), pick(kKeys)};
    case 1:
      return query::GetEntry{log, pick(kIds)};
    case 2:
      return query::GetItem{pick(kQueues), pick(kItems)};
    case 3:
      return query::ScanLog{log, last - std::min<Seq>(last, below(4)),
                            chance(50) ? UINT64_MAX : last, order, limit};
    case 4:
    case 5: {
      query::ScanIndex scan{log, pick(kIndexes), pick(kTerms), pick(kTerms), {}, order, limit};
      if (chance(50)) scan.after = {pick(kTerms), below(last + 1)};
      return scan;
    }
    case 6: {
      query::ScanQueue scan{pick(kQueues), static_cast<QueuePart>(below(3)), {}, limit};
      if (chance(50)) scan.after = {now + Millis(below(3)) - 1ms, below(8)};
      return scan;
    }
    default: {
      query::ScanRecords scan{
          pick(kSpaces), {}, {}, limit, chance(50) ? Values::Include : Values::Omit};
      if (chance(50)) scan.after = pick(kKeys);
      if (chance(50)) scan.prefix = pick(kKeys);
      return scan;
    }
  }
}

}  // namespace nimbus::store::conformance
