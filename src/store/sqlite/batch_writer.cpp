#include "store/sqlite/batch_writer.h"

#include "store/rules.h"

#include <algorithm>
#include <string>

namespace nimbus::store::sqlite {
namespace {

// Points out which of the batch's operations or conditions an error is about.
Error at(std::string_view what, std::size_t index, Error error) {
  return std::move(error).with(what, static_cast<std::int64_t>(index));
}

Result<std::int64_t> sumOf(const op::Add& add, const RecordBefore& before) {
  const auto text = before.live ? std::optional<std::string_view>(before.value) : std::nullopt;
  return addTo(text, add.delta);
}

// A batch that changes nothing but small records.
RecordTable::Way wayOf(const Batch& batch) {
  const auto is_small_put = [](const Operation& operation) {
    const auto* const put = std::get_if<op::Put>(&operation);
    return put != nullptr && put->value.size() <= RecordTable::kMaxDeferredValue;
  };
  const bool deferrable =
      batch.listings.empty() &&
      std::all_of(batch.operations.begin(), batch.operations.end(), is_small_put);
  return deferrable ? RecordTable::Way::Deferrable : RecordTable::Way::Direct;
}

}  // namespace

// Each visitor below handles every operation; a new kind of operation does not compile until all
// of them know it.

struct BatchWriter::Load {
  BatchWriter& writer;

  using Loaded = Result<Before>;

  using After = RecordTable::After;

  Loaded operator()(const op::Put& o) const {
    NIMBUS_TRY(RecordBefore before, writer.records_.loadForChange(o.space, o.key, Values::Omit));
    const auto expires_at = expiryOf(o.expiry, {before.live, before.expires_at});
    writer.records_.plan(o.space, before, After{o.value.size(), expires_at});
    return Before(std::move(before));
  }
  Loaded operator()(const op::Erase& o) const {
    NIMBUS_TRY(RecordBefore before, writer.records_.loadForChange(o.space, o.key, Values::Omit));
    writer.records_.plan(o.space, before, std::nullopt);
    return Before(std::move(before));
  }
  Loaded operator()(const op::EraseSpace& o) const {
    NIMBUS_CHECK(writer.records_.loadCleared(o));
    return Before();
  }
  Loaded operator()(const op::Add& o) const {
    NIMBUS_TRY(RecordBefore before, writer.records_.loadForChange(o.space, o.key, Values::Include));
    // What cannot be added will be refused; it changes nothing.
    if (const auto sum = sumOf(o, before); sum) {
      const auto expires_at = expiryOf(o.expiry, {before.live, before.expires_at});
      writer.records_.plan(o.space, before, After{std::to_string(*sum).size(), expires_at});
    }
    return Before(std::move(before));
  }
  Loaded operator()(const op::Touch& o) const {
    NIMBUS_TRY(RecordBefore before, writer.records_.loadForChange(o.space, o.key, Values::Omit));
    if (before.live) writer.records_.plan(o.space, before, After{before.size, o.expires_at});
    return Before(std::move(before));
  }

  Loaded entry(const std::string& log, const std::string& id) const {
    NIMBUS_TRY(EntryBefore before, writer.logs_.load(log, id));
    return Before(std::move(before));
  }
  Loaded operator()(const op::Append& o) const { return entry(o.log, o.id); }
  Loaded operator()(const op::Amend& o) const { return entry(o.log, o.id); }
  Loaded operator()(const op::Remove& o) const { return entry(o.log, o.id); }
  Loaded operator()(const op::RemoveRange& o) const {
    NIMBUS_CHECK(writer.logs_.plan(o));
    return Before();
  }
  Loaded operator()(const op::RemoveTerm& o) const {
    NIMBUS_CHECK(writer.logs_.plan(o));
    return Before();
  }
  Loaded operator()(const op::DropLog&) const { return Before(); }

  Loaded lease(const std::string& name) const {
    NIMBUS_TRY(LeaseBefore before, writer.leases_.load(name));
    return Before(std::move(before));
  }
  Loaded operator()(const op::Acquire& o) const { return lease(o.lease); }
  Loaded operator()(const op::Renew& o) const { return lease(o.lease); }
  Loaded operator()(const op::Release& o) const { return lease(o.lease); }

  // `waiting`: how the line grows if the item is where the operation wants it.
  Loaded item(const std::string& queue, const std::string& id, QueuePart wanted,
              int waiting) const {
    NIMBUS_TRY(const ItemBefore before, writer.queues_.load(queue, id));
    if (before.isIn(wanted)) NIMBUS_CHECK(writer.queues_.plan(queue, waiting));
    return Before(before);
  }
  Loaded operator()(const op::Push& o) const {
    NIMBUS_TRY(const ItemBefore before, writer.queues_.load(o.queue, o.id));
    const bool joins = !before.present && !o.due_at;
    if (joins) NIMBUS_CHECK(writer.queues_.plan(o.queue, 1));
    return Before(before);
  }
  Loaded operator()(const op::Join& o) const {
    return item(o.queue, o.id, QueuePart::Scheduled, 1);
  }
  Loaded operator()(const op::Defer& o) const { return item(o.queue, o.id, QueuePart::Line, 0); }
  Loaded operator()(const op::Complete& o) const {
    return item(o.queue, o.id, QueuePart::Line, -1);
  }
  Loaded operator()(const op::Park& o) const { return item(o.queue, o.id, QueuePart::Line, -1); }
  Loaded operator()(const op::Revive& o) const { return item(o.queue, o.id, QueuePart::Parked, 1); }

  Loaded operator()(const op::Take& o) const {
    NIMBUS_TRY(const std::int64_t arrival_us, writer.limiters_.load(writer.partition_, o.limiter));
    return Before(arrival_us);
  }
  Loaded operator()(const op::DropPartition&) const { return Before(); }
};

struct BatchWriter::CheckCondition {
  BatchWriter& writer;

  Result<> operator()(const require::RecordVersion& c) const {
    NIMBUS_TRY(const RecordBefore before, writer.records_.load(c.space, c.key, Values::Omit));
    if (before.meets(c.version)) return {};
    return versionConflict(before.currentVersion());
  }
  Result<> operator()(const require::SpaceWithin& c) const {
    return writer.records_.checkWithin(c);
  }
  Result<> operator()(const require::LogEndsAt& c) const {
    NIMBUS_TRY(const LogInfo info, writer.logs_.info(c.log));
    if (info.last_seq == c.last_seq) return {};
    return logMoved(c.log, info);
  }
  Result<> operator()(const require::LogUnchanged& c) const {
    NIMBUS_TRY(const LogInfo info, writer.logs_.info(c.log));
    if (info.revision == c.revision) return {};
    return logMoved(c.log, info);
  }
  Result<> operator()(const require::QueueWithin& c) const { return writer.queues_.checkWithin(c); }
};

struct BatchWriter::CheckOperation {
  BatchWriter& writer;
  const Before& before;

  Result<> version(const std::optional<Version>& expected) const {
    const auto& record = std::get<RecordBefore>(before);
    if (record.meets(expected)) return {};
    return versionConflict(record.currentVersion());
  }
  Result<> operator()(const op::Put& o) const {
    NIMBUS_CHECK(version(o.expected));
    return writer.records_.checkVersion(o.space, std::get<RecordBefore>(before), o.version);
  }
  Result<> operator()(const op::Erase& o) const { return version(o.expected); }
  Result<> operator()(const op::EraseSpace&) const { return {}; }
  Result<> operator()(const op::Add& o) const {
    NIMBUS_CHECK(version(o.expected));
    NIMBUS_CHECK(sumOf(o, std::get<RecordBefore>(before)));
    return {};
  }
  Result<> operator()(const op::Touch& o) const {
    NIMBUS_CHECK(version(o.expected));
    const auto& record = std::get<RecordBefore>(before);
    if (!record.live) return notFound("record", o.key);
    return writer.records_.checkVersion(o.space, record, o.version);
  }

  Result<> operator()(const op::Append& o) const {
    const auto& entry = std::get<EntryBefore>(before);
    if (!entry.present || entry.fingerprint == o.fingerprint) return {};
    return idTaken(o.id, entry.seq);
  }
  Result<> entry(const std::string& id, const std::optional<Version>& expected) const {
    const auto& entry = std::get<EntryBefore>(before);
    if (!entry.present) return notFound("entry", id);
    if (expected && *expected != entry.version) return versionConflict(entry.version);
    return {};
  }
  Result<> operator()(const op::Amend& o) const { return entry(o.id, o.expected); }
  Result<> operator()(const op::Remove& o) const { return entry(o.id, o.expected); }
  Result<> operator()(const op::RemoveRange&) const { return {}; }
  Result<> operator()(const op::RemoveTerm&) const { return {}; }
  Result<> operator()(const op::DropLog&) const { return {}; }

  Result<> operator()(const op::Acquire& o) const {
    return writer.leases_.check(o, std::get<LeaseBefore>(before));
  }
  Result<> operator()(const op::Renew& o) const {
    return writer.leases_.check(o, std::get<LeaseBefore>(before));
  }
  Result<> operator()(const op::Release& o) const {
    return LeaseTable::check(o, std::get<LeaseBefore>(before));
  }

  Result<> item(QueuePart part, const std::string& id) const {
    if (std::get<ItemBefore>(before).isIn(part)) return {};
    return notFound("item", id);
  }
  Result<> operator()(const op::Push&) const { return {}; }
  Result<> operator()(const op::Join& o) const { return item(QueuePart::Scheduled, o.id); }
  Result<> operator()(const op::Defer& o) const { return item(QueuePart::Line, o.id); }
  Result<> operator()(const op::Complete& o) const {
    if (std::get<ItemBefore>(before).present) return {};
    return notFound("item", o.id);
  }
  Result<> operator()(const op::Park& o) const { return item(QueuePart::Line, o.id); }
  Result<> operator()(const op::Revive& o) const { return item(QueuePart::Parked, o.id); }

  Result<> operator()(const op::Take& o) const {
    NIMBUS_CHECK(gcra(o, std::get<std::int64_t>(before), writer.now_));
    return {};
  }
  Result<> operator()(const op::DropPartition&) const { return {}; }
};

struct BatchWriter::Write {
  BatchWriter& writer;
  const Before& before;

  using Written = Result<OperationResult>;

  const RecordBefore& record() const { return std::get<RecordBefore>(before); }

  template <typename T>
  static Written answer(Result<T> result) {
    NIMBUS_TRY(T value, std::move(result));
    return OperationResult(std::move(value));
  }
  static Written answer(const Result<>& result) {
    if (!result) return result.error();
    return OperationResult(Done{});
  }

  Written operator()(const op::Put& o) const {
    const auto expires_at = expiryOf(o.expiry, {record().live, record().expires_at});
    return answer(writer.records_.write(o.space, o.key, record(), o.value, expires_at, o.version));
  }
  Written operator()(const op::Erase& o) const {
    return answer(writer.records_.erase(o.space, o.key, record(), o.last));
  }
  Written operator()(const op::EraseSpace& o) const {
    return answer(writer.records_.clear(o.space));
  }
  Written operator()(const op::Add& o) const {
    NIMBUS_TRY(const std::int64_t sum, sumOf(o, record()));
    const auto expires_at = expiryOf(o.expiry, {record().live, record().expires_at});
    NIMBUS_TRY(
        const RecordWritten written,
        writer.records_.write(o.space, o.key, record(), writer.records_.keep(std::to_string(sum)),
                              expires_at, std::nullopt));
    return OperationResult(Added{sum, written.version, written.expires_at});
  }
  Written operator()(const op::Touch& o) const {
    return answer(writer.records_.touch(o, record()));
  }

  Written operator()(const op::Append& o) const {
    return answer(writer.logs_.append(o, std::get<EntryBefore>(before)));
  }
  Written operator()(const op::Amend& o) const {
    return answer(writer.logs_.amend(o, std::get<EntryBefore>(before)));
  }
  Written operator()(const op::Remove& o) const {
    return answer(writer.logs_.remove(o, std::get<EntryBefore>(before)));
  }
  Written operator()(const op::RemoveRange& o) const { return answer(writer.logs_.removeRange(o)); }
  Written operator()(const op::RemoveTerm& o) const { return answer(writer.logs_.removeTerm(o)); }
  Written operator()(const op::DropLog& o) const { return answer(writer.logs_.drop(o.log)); }

  Written operator()(const op::Acquire& o) const {
    return answer(writer.leases_.acquire(o, std::get<LeaseBefore>(before)));
  }
  Written operator()(const op::Renew& o) const { return answer(writer.leases_.renew(o)); }
  Written operator()(const op::Release& o) const { return answer(writer.leases_.release(o)); }

  Written operator()(const op::Push& o) const {
    return answer(writer.queues_.push(o, std::get<ItemBefore>(before)));
  }
  Written operator()(const op::Join& o) const {
    return answer(writer.queues_.moveToLine(o.queue, o.id, std::get<ItemBefore>(before)));
  }
  Written operator()(const op::Defer& o) const { return answer(writer.queues_.defer(o)); }
  Written operator()(const op::Complete& o) const {
    return answer(writer.queues_.complete(o, std::get<ItemBefore>(before)));
  }
  Written operator()(const op::Park& o) const { return answer(writer.queues_.park(o)); }
  Written operator()(const op::Revive& o) const {
    return answer(writer.queues_.moveToLine(o.queue, o.id, std::get<ItemBefore>(before)));
  }

  Written operator()(const op::Take& o) const {
    NIMBUS_TRY(const GcraStep step, gcra(o, std::get<std::int64_t>(before), writer.now_));
    NIMBUS_CHECK(writer.limiters_.save(writer.partition_, o.limiter, step.arrival_us));
    return OperationResult(step.taken);
  }
  Written operator()(const op::DropPartition&) const { return answer(writer.dropPartition()); }
};

BatchWriter::BatchWriter(Connection& connection, RecordTable::Options options,
                         DeferredPartitions& deferred)
    : records_(connection, options, deferred),
      logs_(connection),
      leases_(connection),
      queues_(connection),
      limiters_(connection),
      list_(connection,
            "INSERT INTO directory(name, key, value) VALUES(?1, ?2, ?3)"
            " ON CONFLICT DO UPDATE SET value=?3"),
      unlist_(connection, "DELETE FROM directory WHERE name=?1 AND key=?2") {}

Result<Applied> BatchWriter::apply(const Partition& partition, const std::optional<Fence>& fence,
                                   const Batch& batch, Timestamp now) {
  partition_ = partition.name();
  now_ = now;
  NIMBUS_CHECK(records_.begin(partition_, now, wayOf(batch)));
  logs_.begin(partition_);
  leases_.begin(partition_, now);
  queues_.begin(partition_);

  if (fence) NIMBUS_CHECK(leases_.checkFence(*fence));

  before_.clear();
  for (const Operation& operation : batch.operations) {
    NIMBUS_TRY(Before before, std::visit(Load{*this}, operation));
    before_.push_back(std::move(before));
  }
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    auto met = std::visit(CheckCondition{*this}, batch.conditions[i]);
    if (!met) return at("condition", i, std::move(met).error());
  }
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    auto possible = std::visit(CheckOperation{*this, before_[i]}, batch.operations[i]);
    if (!possible) return at("operation", i, std::move(possible).error());
  }
  return write(batch);
}

Result<Applied> BatchWriter::write(const Batch& batch) {
  Applied applied;
  applied.results.reserve(batch.operations.size());
  NIMBUS_CHECK(writeListings(batch.listings));
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    NIMBUS_TRY(const OperationResult result,
               std::visit(Write{*this, before_[i]}, batch.operations[i]));
    applied.results.push_back(result);
  }
  NIMBUS_CHECK(records_.finish());
  NIMBUS_CHECK(logs_.finish());
  NIMBUS_CHECK(queues_.finish());
  return applied;
}

Result<> BatchWriter::writeListings(const std::vector<Listing>& listings) {
  for (const Listing& listing : listings) {
    if (listing.value) {
      NIMBUS_CHECK(list_.run(Text{listing.directory}, listing.key, *listing.value));
    } else {
      NIMBUS_CHECK(unlist_.run(Text{listing.directory}, listing.key));
    }
  }
  return {};
}

Result<> BatchWriter::dropPartition() {
  NIMBUS_CHECK(records_.dropPartition(partition_));
  NIMBUS_CHECK(logs_.dropPartition(partition_));
  NIMBUS_CHECK(leases_.dropPartition(partition_));
  NIMBUS_CHECK(queues_.dropPartition(partition_));
  NIMBUS_CHECK(limiters_.dropPartition(partition_));
  return {};
}

Result<BatchWriter::SweepStep> BatchWriter::sweep(Timestamp now, std::uint64_t limit) {
  NIMBUS_TRY(const std::uint64_t records, records_.sweep(now, limit));
  NIMBUS_TRY(const LimiterTable::Step limiters, limiters_.sweep(now, limit));
  return SweepStep{records + limiters.removed, records == limit || !limiters.all_round};
}

}  // namespace nimbus::store::sqlite
