#include "state/stored.h"

#include "state/glob.h"

#include <algorithm>
#include <utility>

namespace nimbus::state {
namespace {

using Kind = Operation::Kind;

constexpr std::size_t kPage = 1000;

store::query::ScanRecords scanAfter(std::string after, store::Values values) {
  store::query::ScanRecords scan;
  scan.space = kSpace;
  scan.after = std::move(after);
  scan.limit = kPage;
  scan.values = values;
  return scan;
}

void loadPage(Space& space, store::RecordPage page) {
  for (store::Record& record : page.items) {
    Space::Entry entry;
    entry.value = std::move(record.value);
    entry.version = record.version;
    entry.expires_at = record.expires_at;
    entry.updated_at = record.updated_at;
    space.load(std::move(record.key), std::move(entry));
  }
}

store::op::Put putOf(std::string key, std::string value, std::optional<Timestamp> expires_at) {
  store::op::Put put;
  put.space = kSpace;
  put.key = std::move(key);
  put.value = std::move(value);
  put.expiry.at = expires_at;
  return put;
}

store::require::SpaceWithin limitsOf(const Rules& rules) {
  return {kSpace, rules.max_keys, rules.max_total_bytes};
}

// Whether any limit can refuse a write that adds to a space.
bool hasLimits(const Rules& rules) {
  return rules.max_keys != 0 || rules.max_total_bytes != 0;
}

// An operation of ours on a record, as the one operation of a batch.
Result<store::Batch> batchOf(const Operation& operation, const Rules& rules, Timestamp now) {
  store::Batch batch;
  switch (operation.kind) {
    case Kind::Set:
    case Kind::SetWithVersion:
    case Kind::SetMany: {
      NIMBUS_TRY(const auto expires_at, expiryOf(rules, operation.ttl, now));
      const bool many = operation.kind == Kind::SetMany;
      for (std::size_t i = 0; i < operation.values.size(); ++i) {
        const std::string& key = many ? operation.keys[i] : operation.key;
        NIMBUS_CHECK(checkValue(rules, key, operation.values[i]));
        store::op::Put put = putOf(key, operation.values[i], expires_at);
        // Before the limits: whoever has an old version should hear that first.
        if (operation.kind == Kind::SetWithVersion && operation.version) {
          batch.conditions.emplace_back(
              store::require::RecordVersion{kSpace, key, *operation.version});
        }
        batch.operations.emplace_back(std::move(put));
      }
      if (hasLimits(rules)) batch.conditions.emplace_back(limitsOf(rules));
      break;
    }
    case Kind::Incr:
    case Kind::Decr: {
      store::op::Add add;
      add.space = kSpace;
      add.key = operation.key;
      add.delta = operation.delta;
      if (operation.kind == Kind::Decr) {
        if (operation.delta == INT64_MIN) return overflows(operation.key);
        add.delta = -operation.delta;
      }
      if (rules.default_ttl) add.expiry.at = now + *rules.default_ttl;
      batch.operations.emplace_back(std::move(add));
      if (hasLimits(rules)) batch.conditions.emplace_back(limitsOf(rules));
      break;
    }
    case Kind::Delete:
      batch.operations.emplace_back(store::op::Erase{.space = kSpace, .key = operation.key});
      break;
    case Kind::Clear:
      batch.operations.emplace_back(store::op::EraseSpace{.space = kSpace});
      break;
    case Kind::Expire:
    case Kind::Persist: {
      store::op::Touch touch;
      touch.space = kSpace;
      touch.key = operation.key;
      if (operation.kind == Kind::Expire) {
        NIMBUS_TRY(touch.expires_at, expiryAfter(*operation.ttl, now));
      }
      batch.operations.emplace_back(std::move(touch));
      break;
    }
    default:
      break;
  }
  return batch;
}

Answer answerOf(const Operation& operation, const store::Applied& applied) {
  Answer answer;
  switch (operation.kind) {
    case Kind::Incr:
    case Kind::Decr:
      answer.number = applied.get<store::Added>(0).value;
      answer.version = applied.get<store::Added>(0).version;
      break;
    case Kind::Delete:
    case Kind::Clear:
      answer.number = static_cast<std::int64_t>(applied.get<store::Removed>(0).count);
      answer.flag = answer.number != 0;
      break;
    default:
      for (std::size_t i = 0; i < applied.results.size(); ++i) {
        answer.versions.push_back(applied.get<store::RecordWritten>(i).version);
      }
      if (!answer.versions.empty()) answer.version = answer.versions.back();
      break;
  }
  return answer;
}

// The store speaks of records and operations; users know keys.
Error inOurWords(const Operation& operation, Error error) {
  switch (error.code()) {
    case Code::NotFound:
      return missing(operation.key);
    case Code::VersionConflict:
      return Error(Code::VersionConflict, "\"" + operation.key + "\" has another version")
          .with("current_version", error.field("current_version", 0));
    case Code::QuotaExceeded:
      return Error(Code::QuotaExceeded, "no more keys or bytes are allowed")
          .with("limit", error.field("limit", 0));
    case Code::InvalidArgument:
      return noInteger(operation.key);
    default:
      return error;
  }
}

Task<Result<Answer>> write(store::Store& store, store::Partition partition, Operation operation,
                           Rules rules) {
  NIMBUS_CO_TRY(store::Batch batch, batchOf(operation, rules, store.now()));
  if (batch.operations.empty()) co_return Answer();
  store::PendingCommit commit = store.commit(std::move(partition), std::nullopt, std::move(batch));
  const Result<store::Applied> applied = co_await commit.done();
  if (!applied) co_return inOurWords(operation, applied.error());
  co_return answerOf(operation, *applied);
}

Task<Result<Answer>> listKeys(store::Store& store, store::Partition partition,
                              std::string pattern) {
  Answer answer;
  std::string after;
  bool more = true;
  while (more) {
    NIMBUS_CO_TRY(const store::RecordPage page,
                  co_await store::ask<store::RecordPage>(store, partition,
                                                         scanAfter(after, store::Values::Omit)));
    for (const store::Record& record : page.items) {
      if (matches(pattern, record.key)) answer.keys.push_back(record.key);
    }
    more = page.more;
    if (more) after = page.items.back().key;
  }
  co_return answer;
}

Task<Result<Answer>> read(store::Store& store, store::Partition partition, Operation operation) {
  std::vector<std::string> keys = operation.kind == Kind::GetMany
                                      ? std::move(operation.keys)
                                      : std::vector<std::string>{operation.key};
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  std::vector<store::Query> queries;
  for (const std::string& key : keys) queries.emplace_back(store::query::GetRecord{kSpace, key});
  if (queries.empty()) co_return Answer();
  NIMBUS_CO_TRY(auto records, co_await store.read(std::move(partition), std::move(queries)));
  Answer answer;
  for (store::Answer& one : records) {
    auto record = std::get<std::optional<store::Record>>(std::move(one));
    if (!record) continue;
    answer.flag = true;
    answer.version = record->version;
    if (record->expires_at) {
      const auto left = std::max(Millis(0), *record->expires_at - store.now());
      answer.ttl = static_cast<double>(left.count()) / 1000;
    }
    answer.found.push_back({std::move(record->key), std::move(record->value), record->version});
  }
  if (operation.kind == Kind::Ttl && answer.found.empty()) co_return missing(operation.key);
  co_return answer;
}

}  // namespace

void appendTo(store::Batch& batch, Changes changes, const Space& space) {
  for (Changes::Write& write : changes.writes) {
    store::op::Put put = putOf(std::move(write.key), std::move(write.value), write.expires_at);
    put.version = write.version;
    batch.operations.emplace_back(std::move(put));
  }
  // With its value: by the time of the commit the old expiry may be over.
  for (const Changes::Touch& touch : changes.touches) {
    store::op::Put put =
        putOf(touch.key, space.entries().find(touch.key)->second.value, touch.expires_at);
    put.version = touch.version;
    batch.operations.emplace_back(std::move(put));
  }
  for (const Changes::Removal& removal : changes.removals) {
    store::op::Erase erase;
    erase.space = kSpace;
    erase.key = removal.key;
    erase.last = removal.last;
    batch.operations.emplace_back(std::move(erase));
  }
}

std::vector<store::Query> loadQueries() {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetUsage{kSpace});
  queries.emplace_back(scanAfter("", store::Values::Include));
  return queries;
}

Task<Result<Space>> loadSpace(store::Store& store, store::Partition partition,
                              std::vector<store::Answer> answers) {
  Space space(std::get<store::Usage>(answers.at(0)).floor);
  auto page = std::get<store::RecordPage>(std::move(answers.at(1)));
  while (true) {
    const bool more = page.more;
    const std::string last = page.items.empty() ? std::string() : page.items.back().key;
    loadPage(space, std::move(page));
    if (!more) co_return space;
    NIMBUS_CO_TRY(page, co_await store::ask<store::RecordPage>(
                            store, partition, scanAfter(last, store::Values::Include)));
  }
}

Task<Result<Answer>> applyInStore(store::Store& store, store::Partition partition,
                                  Operation operation, Rules rules) {
  if (!rules.enabled) co_return disabled();
  NIMBUS_CO_CHECK(checkForm(operation));
  switch (operation.kind) {
    case Kind::Keys:
      co_return co_await listKeys(store, std::move(partition), std::move(operation.pattern));
    case Kind::Get:
    case Kind::GetWithVersion:
    case Kind::GetMany:
    case Kind::Exists:
    case Kind::Ttl:
      co_return co_await read(store, std::move(partition), std::move(operation));
    default:
      co_return co_await write(store, std::move(partition), std::move(operation), std::move(rules));
  }
}

}  // namespace nimbus::state
