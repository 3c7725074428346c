#include "store/memory/partition_data.h"
#include "store/rules.h"

#include <algorithm>

namespace nimbus::store::memory {
namespace {

class Apply {
 public:
  Apply(PartitionData& data, Timestamp now) : data_(data), now_(now) {}

  // ---- records

  OperationResult operator()(const op::Put& o) const {
    StoredRecord& record = write(o.space, o.key, o.expiry);
    record.value = o.value;
    if (o.version) record.version = *o.version;
    return RecordWritten{record.version, record.expires_at};
  }
  OperationResult operator()(const op::Add& o) const {
    const StoredRecord* found = orEmpty(data_.spaces, o.space).findLive(o.key, now_);
    const auto text =
        found != nullptr ? std::optional<std::string_view>(found->value) : std::nullopt;
    const std::int64_t sum = *addTo(text, o.delta);
    StoredRecord& record = write(o.space, o.key, o.expiry);
    record.value = std::to_string(sum);
    return Added{sum, record.version, record.expires_at};
  }
  OperationResult operator()(const op::Touch& o) const {
    StoredRecord& record = data_.spaces.at(o.space).records.at(o.key);
    record.version = o.version.value_or(record.version + 1);
    record.expires_at = o.expires_at;
    return RecordWritten{record.version, record.expires_at};
  }
  OperationResult operator()(const op::Erase& o) const {
    Space& space = data_.spaces[o.space];
    space.floor = std::max(space.floor, o.last);
    const auto found = space.records.find(o.key);
    if (found == space.records.end()) return Removed{0};
    return Removed{eraseRecord(space, found)};
  }
  OperationResult operator()(const op::EraseSpace& o) const {
    Space& space = data_.spaces[o.space];
    space.floor = std::max(space.floor, o.last);
    std::uint64_t count = 0;
    while (!space.records.empty()) count += eraseRecord(space, space.records.begin());
    return Removed{count};
  }

  // ---- log

  OperationResult operator()(const op::Append& o) const {
    Log& log = data_.logs[o.log];
    if (const Entry* first = log.find(o.id)) return Appended{first->seq, 1, true};
    const Seq seq = ++log.last_seq;
    ++log.revision;
    log.entries[seq] = Entry{seq, o.id, 1, o.value, o.fingerprint, o.terms};
    log.by_id[o.id] = seq;
    addToIndex(log, seq, o.terms);
    return Appended{seq, 1, false};
  }
  OperationResult operator()(const op::Amend& o) const {
    Log& log = data_.logs.at(o.log);
    Entry& entry = log.entries.at(log.by_id.at(o.id));
    ++log.revision;
    ++entry.version;
    removeFromIndex(log, entry);
    entry.value = o.value;
    entry.terms = o.terms;
    addToIndex(log, entry.seq, entry.terms);
    return Appended{entry.seq, entry.version, false};
  }
  OperationResult operator()(const op::Remove& o) const {
    Log& log = data_.logs.at(o.log);
    return Removed{removeEntries(log, {log.by_id.at(o.id)})};
  }
  OperationResult operator()(const op::RemoveRange& o) const {
    if (!data_.logs.contains(o.log)) return Removed{0};
    Log& log = data_.logs.at(o.log);
    std::vector<Seq> seqs;
    for (auto entry = log.entries.lower_bound(o.from);
         entry != log.entries.end() && entry->first <= o.to; ++entry) {
      seqs.push_back(entry->first);
    }
    return Removed{removeEntries(log, seqs)};
  }
  OperationResult operator()(const op::RemoveTerm& o) const {
    if (!data_.logs.contains(o.log)) return Removed{0};
    Log& log = data_.logs.at(o.log);
    std::vector<Seq> seqs;
    for (const auto& [index, term, seq] : log.index) {
      if (index == o.term.index && term == o.term.value) seqs.push_back(seq);
    }
    return Removed{removeEntries(log, seqs)};
  }
  OperationResult operator()(const op::DropLog& o) const {
    const std::uint64_t count = orEmpty(data_.logs, o.log).entries.size();
    data_.logs.erase(o.log);
    return Removed{count};
  }

  // ---- lease

  OperationResult operator()(const op::Acquire& o) const {
    LeaseState& state = data_.leases[o.lease];
    const Token token{++state.epoch, o.nonce};
    state.lease = Lease{o.holder, token, after(o.ttl)};
    return LeaseGranted{token, state.lease->expires_at};
  }
  OperationResult operator()(const op::Renew& o) const {
    Lease& lease = *data_.leases.at(o.lease).lease;
    lease.expires_at = after(o.ttl);
    return LeaseGranted{lease.token, lease.expires_at};
  }
  OperationResult operator()(const op::Release& o) const {
    data_.leases.at(o.lease).lease.reset();
    return Done{};
  }

  // ---- queue

  OperationResult operator()(const op::Push& o) const {
    Queue& queue = data_.queues[o.queue];
    if (const QueueItem* first = queue.find(o.id)) return Queued{first->position, true};
    QueueItem item{.id = o.id,
                   .part = o.due_at ? QueuePart::Scheduled : QueuePart::Line,
                   .position = ++queue.last_position,
                   .payload = o.payload,
                   .due_at = o.due_at.value_or(Timestamp{}),
                   .not_before = {},
                   .attempts = 0,
                   .reason = {}};
    return insert(queue, std::move(item));
  }
  OperationResult operator()(const op::Join& o) const {
    Queue& queue = data_.queues.at(o.queue);
    return insert(queue, atTheEnd(queue, take(queue, o.id)));
  }
  OperationResult operator()(const op::Revive& o) const {
    Queue& queue = data_.queues.at(o.queue);
    return insert(queue, atTheEnd(queue, take(queue, o.id)));
  }
  OperationResult operator()(const op::Defer& o) const {
    QueueItem& item = data_.queues.at(o.queue).items.at(o.id);
    ++item.attempts;
    item.not_before = o.not_before;
    return Done{};
  }
  OperationResult operator()(const op::Park& o) const {
    Queue& queue = data_.queues.at(o.queue);
    QueueItem item = take(queue, o.id);
    item.part = QueuePart::Parked;  // keeps its position: parked items stay in the line's order
    item.not_before = {};
    item.reason = o.reason;
    insert(queue, std::move(item));
    return Done{};
  }
  OperationResult operator()(const op::Complete& o) const {
    take(data_.queues.at(o.queue), o.id);
    return Removed{1};
  }

  // ---- limiter, partition

  OperationResult operator()(const op::Take& o) const {
    std::int64_t& arrival_us = data_.limiters[o.limiter];
    const GcraStep step = *gcra(o, arrival_us, now_);
    arrival_us = step.arrival_us;
    return step.taken;
  }
  OperationResult operator()(const op::DropPartition&) const {
    data_ = PartitionData{};
    return Done{};
  }

 private:
  std::optional<Timestamp> after(const std::optional<Millis>& ttl) const {
    if (!ttl) return std::nullopt;
    return now_ + *ttl;
  }

  // The record with all but its value written. A record that has expired but is still here goes on
  // with its own versions, which are above all that this key ever had.
  StoredRecord& write(const std::string& name, const std::string& key, const Expiry& expiry) const {
    Space& space = data_.spaces[name];
    const auto [place, created] = space.records.try_emplace(key);
    StoredRecord& record = place->second;
    const bool exists = !created && isLive(record.expires_at, now_);
    record.version = (created ? space.floor : record.version) + 1;
    record.expires_at = expiryOf(expiry, {exists, record.expires_at});
    record.updated_at = now_;
    return record;
  }

  // How many records a reader will miss: none if it had expired.
  std::uint64_t eraseRecord(Space& space,
                            std::map<std::string, StoredRecord>::iterator place) const {
    const bool live = isLive(place->second.expires_at, now_);
    space.floor = std::max(space.floor, place->second.version);
    space.records.erase(place);
    return live ? 1 : 0;
  }

  static void addToIndex(Log& log, Seq seq, const std::vector<Term>& terms) {
    for (const Term& term : terms) log.index.emplace(term.index, term.value, seq);
  }
  static void removeFromIndex(Log& log, const Entry& entry) {
    for (const Term& term : entry.terms) log.index.erase({term.index, term.value, entry.seq});
  }
  static std::uint64_t removeEntries(Log& log, const std::vector<Seq>& seqs) {
    for (const Seq seq : seqs) {
      const auto entry = log.entries.find(seq);
      removeFromIndex(log, entry->second);
      log.by_id.erase(entry->second.id);
      log.entries.erase(entry);
    }
    if (!seqs.empty()) ++log.revision;
    return seqs.size();
  }

  static Queue::Place placeOf(const QueueItem& item) { return {item.due_at, item.position}; }

  static Queued insert(Queue& queue, QueueItem item) {
    const Seq position = item.position;
    queue.part(item.part).emplace(placeOf(item), item.id);
    std::string id = item.id;
    queue.items.emplace(std::move(id), std::move(item));
    return Queued{position, false};
  }
  static QueueItem take(Queue& queue, const std::string& id) {
    QueueItem item = std::move(queue.items.extract(id).mapped());
    queue.part(item.part).erase(placeOf(item));
    return item;
  }
  static QueueItem atTheEnd(Queue& queue, QueueItem item) {
    return {.id = std::move(item.id),
            .part = QueuePart::Line,
            .position = ++queue.last_position,
            .payload = std::move(item.payload),
            .due_at = {},
            .not_before = {},
            .attempts = 0,
            .reason = {}};
  }

  PartitionData& data_;
  const Timestamp now_;
};

}  // namespace

Applied apply(PartitionData& data, const Batch& batch, Timestamp now) {
  const Apply apply(data, now);
  Applied applied;
  applied.results.reserve(batch.operations.size());
  for (const Operation& operation : batch.operations) {
    applied.results.push_back(std::visit(apply, operation));
  }
  return applied;
}

}  // namespace nimbus::store::memory
