#include "model.h"

#include "store/rules.h"
#include "text.h"

#include <algorithm>

namespace nimbus::store::conformance {
namespace {

bool gone(const std::optional<Timestamp>& expires_at, Timestamp now) {
  return expires_at.has_value() && *expires_at <= now;
}

Usage usageOf(const ModelPartition& data, const std::string& space, Timestamp now) {
  Usage usage;
  for (const auto& [key, record] : data.records) {
    if (key.first != space || gone(record.expires_at, now)) continue;
    usage.records += 1;
    usage.bytes += record.value.size();
  }
  return usage;
}

std::uint64_t waitingIn(const ModelPartition& data, const std::string& name) {
  const auto queue = data.queues.find(name);
  if (queue == data.queues.end()) return 0;
  return static_cast<std::uint64_t>(
      std::count_if(queue->second.items.begin(), queue->second.items.end(),
                    [](const QueueItem& item) { return item.part == QueuePart::Line; }));
}

// Refusals as the port words them in codes and fields.
Error refused(Code code) {
  return {code, "model"};
}
Error conflictingVersion(Version current) {
  return refused(Code::VersionConflict).with("current_version", static_cast<std::int64_t>(current));
}
Error tooMuch(std::uint64_t limit) {
  return refused(Code::QuotaExceeded).with("limit", static_cast<std::int64_t>(limit));
}

// What the store said of one operation, as far as it is known.
struct Said {
  const OperationResult* result = nullptr;
  const Error* refusal = nullptr;
};

// Runs one operation on `data`. Versions that are given are held against `found`: the partition
// before the batch, without what EraseSpace has removed.
class Step {
 public:
  enum class Versions { Heeded, Ignored };

  Step(ModelPartition& data, const ModelPartition& found, Timestamp now, Versions versions,
       Said said)
      : data_(data),
        found_(found),
        now_(now),
        heeded_(versions == Versions::Heeded),
        answered_(said.result),
        refusal_(said.refusal) {}

  using Answered = Result<OperationResult>;

  // ---- records

  Answered operator()(const op::Put& o) {
    NIMBUS_CHECK(expect(o.space, o.key, o.expected));
    NIMBUS_CHECK(take(o.space, o.key, o.version));
    ModelRecord& record = write(o.space, o.key, o.value, o.expiry);
    if (o.version) record.version = *o.version;
    return OperationResult(RecordWritten{record.version, record.expires_at});
  }
  Answered operator()(const op::Erase& o) {
    NIMBUS_CHECK(expect(o.space, o.key, o.expected));
    remember(o.space, o.last);
    return OperationResult(Removed{
        forget([&](const auto& key) { return key.first == o.space && key.second == o.key; })});
  }
  Answered operator()(const op::EraseSpace& o) {
    remember(o.space, o.last);
    return OperationResult(Removed{forget([&](const auto& key) { return key.first == o.space; })});
  }
  Answered operator()(const op::Add& o) {
    NIMBUS_CHECK(expect(o.space, o.key, o.expected));
    const ModelRecord* found = data_.live(o.space, o.key, now_);
    const auto number = found != nullptr ? parseInteger(found->value) : 0;
    if (!number) return refused(Code::InvalidArgument);
    std::int64_t sum = 0;
    if (__builtin_add_overflow(*number, o.delta, &sum)) return refused(Code::InvalidArgument);
    const ModelRecord& record = write(o.space, o.key, std::to_string(sum), o.expiry);
    return OperationResult(Added{sum, record.version, record.expires_at});
  }
  Answered operator()(const op::Touch& o) {
    NIMBUS_CHECK(expect(o.space, o.key, o.expected));
    if (data_.live(o.space, o.key, now_) == nullptr) return refused(Code::NotFound);
    NIMBUS_CHECK(take(o.space, o.key, o.version));
    ModelRecord& record = data_.records[{o.space, o.key}];
    record.version = o.version ? *o.version : record.version + 1;
    record.expires_at = o.expires_at;
    return OperationResult(RecordWritten{record.version, record.expires_at});
  }

  // ---- log

  Answered operator()(const op::Append& o) {
    ModelLog& log = data_.logs[o.log];
    if (const Entry* entry = find(log, o.id)) {
      if (entry->fingerprint == o.fingerprint) {
        return OperationResult(Appended{entry->seq, 1, true});
      }
      return refused(Code::Conflict).with("seq", static_cast<std::int64_t>(entry->seq));
    }
    log.changes += 1;
    log.last_seq += 1;
    log.entries.push_back({log.last_seq, o.id, 1, o.value, o.fingerprint, o.terms});
    return OperationResult(Appended{log.last_seq, 1, false});
  }
  Answered operator()(const op::Amend& o) {
    ModelLog& log = data_.logs[o.log];
    Entry* entry = find(log, o.id);
    NIMBUS_CHECK(expect(entry, o.expected));
    log.changes += 1;
    entry->version += 1;
    entry->value = o.value;
    entry->terms = o.terms;
    return OperationResult(Appended{entry->seq, entry->version, false});
  }
  Answered operator()(const op::Remove& o) {
    NIMBUS_CHECK(expect(find(data_.logs[o.log], o.id), o.expected));
    return removeIf(o.log, [&](const Entry& entry) { return entry.id == o.id; });
  }
  Answered operator()(const op::RemoveRange& o) {
    return removeIf(o.log, [&](const Entry& e) { return o.from <= e.seq && e.seq <= o.to; });
  }
  Answered operator()(const op::RemoveTerm& o) {
    return removeIf(o.log, [&](const Entry& entry) {
      return std::count(entry.terms.begin(), entry.terms.end(), o.term) > 0;
    });
  }
  Answered operator()(const op::DropLog& o) {
    const std::uint64_t count = data_.logs[o.log].entries.size();
    data_.logs.erase(o.log);
    return OperationResult(Removed{count});
  }

  // ---- lease

  Answered operator()(const op::Acquire& o) {
    const auto held = data_.leases.find(o.lease);
    if (held != data_.leases.end() && !gone(held->second.expires_at, now_) &&
        !(o.take_over && *o.take_over == held->second.token)) {
      return refused(Code::Conflict).with("holder", held->second.holder);
    }
    std::uint64_t& epoch = data_.epochs[o.lease];
    epoch = atLeast(epoch + 1, [](const LeaseGranted& g) { return g.token.epoch; });
    const auto expires_at = o.ttl ? std::optional(now_ + *o.ttl) : std::nullopt;
    data_.leases[o.lease] = {o.holder, {epoch, o.nonce}, expires_at};
    return OperationResult(LeaseGranted{{epoch, o.nonce}, expires_at});
  }
  Answered operator()(const op::Renew& o) {
    const auto held = data_.leases.find(o.lease);
    if (held == data_.leases.end() || held->second.token != o.token ||
        gone(held->second.expires_at, now_)) {
      return refused(Code::Fenced);
    }
    held->second.expires_at = o.ttl ? std::optional(now_ + *o.ttl) : std::nullopt;
    return OperationResult(LeaseGranted{o.token, held->second.expires_at});
  }
  Answered operator()(const op::Release& o) {
    const auto held = data_.leases.find(o.lease);
    if (held == data_.leases.end() || held->second.token != o.token) return refused(Code::Fenced);
    data_.leases.erase(held);
    return OperationResult(Done{});
  }

  // ---- queue

  Answered operator()(const op::Push& o) {
    ModelQueue& queue = data_.queues[o.queue];
    if (const QueueItem* item = find(queue, o.id)) {
      return OperationResult(Queued{item->position, true});
    }
    QueueItem item;
    item.id = o.id;
    item.payload = o.payload;
    item.part = o.due_at ? QueuePart::Scheduled : QueuePart::Line;
    if (o.due_at) item.due_at = *o.due_at;
    item.position = nextPlace(queue);
    queue.items.push_back(item);
    return OperationResult(Queued{item.position, false});
  }
  Answered operator()(const op::Join& o) { return toTheEnd(o.queue, o.id, QueuePart::Scheduled); }
  Answered operator()(const op::Revive& o) { return toTheEnd(o.queue, o.id, QueuePart::Parked); }
  Answered operator()(const op::Defer& o) {
    QueueItem* item = find(data_.queues[o.queue], o.id);
    if (item == nullptr || item->part != QueuePart::Line) return refused(Code::NotFound);
    item->attempts += 1;
    item->not_before = o.not_before;
    return OperationResult(Done{});
  }
  Answered operator()(const op::Park& o) {
    QueueItem* item = find(data_.queues[o.queue], o.id);
    if (item == nullptr || item->part != QueuePart::Line) return refused(Code::NotFound);
    item->part = QueuePart::Parked;
    item->reason = o.reason;
    return OperationResult(Done{});
  }
  Answered operator()(const op::Complete& o) {
    ModelQueue& queue = data_.queues[o.queue];
    if (find(queue, o.id) == nullptr) return refused(Code::NotFound);
    std::erase_if(queue.items, [&](const QueueItem& item) { return item.id == o.id; });
    return OperationResult(Removed{1});
  }

  // ---- limiter, partition

  Answered operator()(const op::Take& o) {
    auto step = gcra(o, data_.limiters[o.limiter], now_);
    if (!step) return step.error();
    data_.limiters[o.limiter] = step->arrival_us;
    return OperationResult(step->taken);
  }
  Answered operator()(const op::DropPartition&) {
    data_ = ModelPartition();
    return OperationResult(Done{});
  }

 private:
  // What the store answered, if it may answer that; else the least it may answer.
  template <typename Member>
  std::uint64_t atLeast(std::uint64_t least, Member member) {
    return between(least, UINT64_MAX, member);
  }
  template <typename Member>
  std::uint64_t between(std::uint64_t least, std::uint64_t most, Member member) {
    const auto read = [&](const auto& result) -> std::uint64_t {
      if constexpr (requires { member(result); }) return member(result);
      return 0;
    };
    const std::uint64_t seen = answered_ != nullptr ? std::visit(read, *answered_) : 0;
    return least <= seen && seen <= most ? seen : least;
  }

  Result<> expect(const std::string& space, const std::string& key,
                  const std::optional<Version>& expected) const {
    if (!heeded_ || !expected) return {};
    const ModelRecord* found = data_.live(space, key, now_);
    const Version current = found != nullptr ? found->version : 0;
    if (current != *expected) return conflictingVersion(current);
    return {};
  }
  Result<> expect(const Entry* entry, const std::optional<Version>& expected) const {
    if (entry == nullptr) return refused(Code::NotFound);
    if (heeded_ && expected && *expected != entry->version) {
      return conflictingVersion(entry->version);
    }
    return {};
  }

  // Whether the record can take a version that is given.
  Result<> take(const std::string& space, const std::string& key,
                const std::optional<Version>& version) const {
    if (!heeded_ || !version) return {};
    const auto before = found_.records.find({space, key});
    const auto floor = found_.erased.find(space);
    const auto expired = found_.expired.find(space);
    // Where it must be above the floor, or perhaps must, what expired may have raised that.
    Version least = floor != found_.erased.end() ? floor->second : 0;
    Version most = std::max(least, expired != found_.expired.end() ? expired->second : 0);
    if (before != found_.records.end()) {
      least = before->second.version;
      if (found_.live(space, key, now_) != nullptr) most = least;
    }
    Version highest = least;
    if (refusal_ != nullptr && refusal_->code() == Code::Conflict) {
      const auto said = static_cast<Version>(refusal_->field("current_version", 0));
      if (least <= said && said <= most && *version <= said) highest = said;
    }
    if (*version > highest) return {};
    return refused(Code::Conflict).with("current_version", static_cast<std::int64_t>(highest));
  }

  ModelRecord& write(const std::string& space, const std::string& key, const std::string& value,
                     const Expiry& expiry) {
    const auto before = data_.records.find({space, key});
    const ModelRecord* live = data_.live(space, key, now_);
    // Whatever expired may have been swept, and then counts as removed.
    const Version removed = data_.erased[space];
    const Version perhaps = std::max(removed, data_.expired[space]);
    Version least = 0;
    Version most = 0;
    if (live != nullptr) {
      least = most = live->version + 1;
    } else if (before != data_.records.end()) {
      least = before->second.version + 1;
      most = perhaps + 1;
    } else {
      least = removed + 1;
      most = perhaps + 1;
    }
    const auto expires_at = live != nullptr && expiry.keep_existing ? live->expires_at : expiry.at;
    const auto version = [](const auto& result) -> std::uint64_t
      requires requires { result.version; }
    {
      return result.version;
    };
    ModelRecord& record = data_.records[{space, key}];
    record = {value, between(least, most, version), expires_at, now_};
    return record;
  }

  // Removes records, and tells how many of them were live.
  template <typename Which>
  std::uint64_t forget(Which which) {
    std::uint64_t live = 0;
    std::erase_if(data_.records, [&](const auto& entry) {
      const auto& [key, record] = entry;
      if (!which(key)) return false;
      if (!gone(record.expires_at, now_)) ++live;
      remember(key.first, record.version);
      return true;
    });
    return live;
  }
  // Notes that a version was removed.
  void remember(const std::string& space, Version version) {
    Version& erased = data_.erased[space];
    erased = std::max(erased, version);
  }

  template <typename Which>
  Answered removeIf(const std::string& name, Which which) {
    ModelLog& log = data_.logs[name];
    const auto count = std::erase_if(log.entries, which);
    if (count > 0) log.changes += 1;
    return OperationResult(Removed{count});
  }

  Answered toTheEnd(const std::string& name, const std::string& id, QueuePart from) {
    ModelQueue& queue = data_.queues[name];
    QueueItem* item = find(queue, id);
    if (item == nullptr || item->part != from) return refused(Code::NotFound);
    item->part = QueuePart::Line;
    item->attempts = 0;
    item->not_before = Timestamp();
    item->position = nextPlace(queue);
    return OperationResult(Queued{item->position, false});
  }

  Seq nextPlace(ModelQueue& queue) {
    queue.last_position =
        atLeast(queue.last_position + 1, [](const Queued& queued) { return queued.position; });
    return queue.last_position;
  }

  static Entry* find(ModelLog& log, const std::string& id) {
    for (Entry& entry : log.entries) {
      if (entry.id == id) return &entry;
    }
    return nullptr;
  }
  static QueueItem* find(ModelQueue& queue, const std::string& id) {
    for (QueueItem& item : queue.items) {
      if (item.id == id) return &item;
    }
    return nullptr;
  }

  ModelPartition& data_;
  const ModelPartition& found_;
  const Timestamp now_;
  const bool heeded_;
  const OperationResult* const answered_;
  const Error* const refusal_;
};

// Whether a condition holds between the partition before the batch and after it.
class Holds {
 public:
  Holds(const ModelPartition& before, const ModelPartition& after, Timestamp now, bool refused_here)
      : before_(before), after_(after), now_(now), refused_here_(refused_here) {}

  Result<> operator()(const require::RecordVersion& c) const {
    const ModelRecord* found = before_.live(c.space, c.key, now_);
    const Version current = found != nullptr ? found->version : 0;
    if (current != c.version) return conflictingVersion(current);
    return {};
  }
  Result<> operator()(const require::SpaceWithin& c) const {
    const Usage before = usageOf(before_, c.space, now_);
    const Usage after = usageOf(after_, c.space, now_);
    if (c.max_records != 0 && after.records > c.max_records && after.records > before.records) {
      return tooMuch(c.max_records);
    }
    if (c.max_bytes != 0 && after.bytes > c.max_bytes && after.bytes > before.bytes) {
      return tooMuch(c.max_bytes);
    }
    return {};
  }
  Result<> operator()(const require::QueueWithin& c) const {
    const std::uint64_t before = waitingIn(before_, c.queue);
    const std::uint64_t after = waitingIn(after_, c.queue);
    if (after > c.max_waiting && after > before) return tooMuch(c.max_waiting);
    return {};
  }
  Result<> operator()(const require::LogEndsAt& c) const {
    if (log(c.log).last_seq != c.last_seq) return moved(log(c.log));
    return {};
  }
  Result<> operator()(const require::LogUnchanged& c) const {
    const ModelLog& log = this->log(c.log);
    if (log.changes == log.seen_changes) {
      if (c.revision != log.seen_revision) return moved(log);
      return {};
    }
    // It has grown since, by how much is the store's affair.
    if (c.revision <= log.seen_revision || refused_here_) return moved(log);
    return {};
  }

 private:
  const ModelLog& log(const std::string& name) const {
    static const ModelLog kNever;
    const auto found = before_.logs.find(name);
    return found != before_.logs.end() ? found->second : kNever;
  }
  static Error moved(const ModelLog& log) {
    return refused(Code::Conflict).with("last_seq", static_cast<std::int64_t>(log.last_seq));
  }

  const ModelPartition& before_;
  const ModelPartition& after_;
  const Timestamp now_;
  const bool refused_here_;
};

// As text, without the one field whose value is the store's affair.
std::string comparable(const Error& error) {
  Error copy(error.code(), error.message());
  for (const Error::Field& field : error.fields()) {
    if (field.name == "revision") continue;
    copy = std::visit([&](const auto& value) { return std::move(copy).with(field.name, value); },
                      field.value);
  }
  return text(copy);
}

Result<Applied> predict(ModelPartition& data, const std::optional<Fence>& fence, const Batch& batch,
                        Timestamp now, const Result<Applied>& answered) {
  NIMBUS_CHECK(validate(batch));
  if (fence) {
    const auto held = data.leases.find(fence->lease);
    if (held == data.leases.end() || held->second.token != fence->token) {
      return refused(Code::Fenced);
    }
  }
  for (const auto& [key, record] : data.records) {
    Version& expired = data.expired[key.first];
    if (gone(record.expires_at, now)) expired = std::max(expired, record.version);
  }

  // What would be there after the batch, if no operation minded the version it found.
  ModelPartition after = data;
  for (const Operation& operation : batch.operations) {
    static_cast<void>(std::visit(Step(after, data, now, Step::Versions::Ignored, {}), operation));
  }
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const bool refused_here = !answered && answered.error().field("condition", -1) == index;
    auto held = std::visit(Holds(data, after, now, refused_here), batch.conditions[i]);
    if (!held) return std::move(held).error().with("condition", index);
  }

  ModelPartition next = data;
  ModelPartition found = data;
  Applied applied;
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    Said said;
    if (answered && i < answered->results.size()) said.result = &answered->results[i];
    if (!answered && answered.error().field("operation", -1) == index) {
      said.refusal = &answered.error();
    }
    auto done =
        std::visit(Step(next, found, now, Step::Versions::Heeded, said), batch.operations[i]);
    if (!done) return std::move(done).error().with("operation", index);
    applied.results.push_back(*std::move(done));
    if (const auto* erase = std::get_if<op::EraseSpace>(&batch.operations[i])) {
      static_cast<void>(Step(found, found, now, Step::Versions::Ignored, {})(*erase));
    }
  }
  data = std::move(next);
  return applied;
}

}  // namespace

const ModelRecord* ModelPartition::live(const std::string& space, const std::string& key,
                                        Timestamp now) const {
  const auto found = records.find({space, key});
  if (found == records.end() || gone(found->second.expires_at, now)) return nullptr;
  return &found->second;
}

Version ModelPartition::lapsed(const std::string& space, Timestamp now) const {
  Version highest = 0;
  for (const auto& [key, record] : records) {
    if (key.first != space || !gone(record.expires_at, now)) continue;
    highest = std::max(highest, record.version);
  }
  return highest;
}

std::string Model::commit(const Partition& partition, const std::optional<Fence>& fence,
                          const Batch& batch, Timestamp now, const Result<Applied>& answered) {
  const Result<Applied> predicted = predict(partitions_[partition], fence, batch, now, answered);
  if (validate(batch)) list(batch.listings, predicted.has_value());

  const auto show = [](const Result<Applied>& result) {
    if (!result) return comparable(result.error());
    std::string out = "applied";
    for (const OperationResult& one : result->results) out += "\n  " + text(one);
    return out;
  };
  if (show(predicted) != show(answered)) {
    return "predicted: " + show(predicted) + "\nanswered: " + show(answered);
  }
  if (!answered && answered.error().outcome() != Outcome::NotApplied) return "not NotApplied";
  return {};
}

void Model::list(const std::vector<Listing>& listings, bool applied) {
  for (const Listing& listing : listings) {
    auto& entry = directories_[listing.directory][listing.key];
    if (applied) {
      entry = {listing.value, std::nullopt};
    } else if (listing.value) {
      entry.maybe = listing.value;
    }
  }
}

std::string Model::readDirectory(const std::string& directory, const std::string& after,
                                 const std::string& prefix, std::size_t limit,
                                 const Result<DirectoryPage>& answered) {
  if (!answered) return "not read: " + answered.error().message();
  std::map<std::string, std::string> shown;
  for (const DirectoryEntry& entry : answered->items) shown[entry.key] = entry.value;
  DirectoryPage page;
  for (auto& [key, listed] : directories_[directory]) {
    if (key <= after || !key.starts_with(prefix)) continue;
    const auto found = shown.find(key);
    if (listed.maybe && found != shown.end() && found->second == *listed.maybe) {
      listed.value = listed.maybe;
    }
    listed.maybe.reset();
    if (!listed.value) continue;
    page.more = page.items.size() == limit;
    if (page.more) break;
    page.items.push_back({key, *listed.value});
  }
  if (page == *answered) return {};
  return "the directory differs";
}

}  // namespace nimbus::store::conformance
