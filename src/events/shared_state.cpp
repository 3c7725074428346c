#include "events/shared_state.h"

#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace nimbus::events {
namespace {

constexpr const char* kMarkSpace = "events-applied";
// Longer than an intent can lie about before somebody carries it out.
constexpr std::chrono::hours kMarkKept{24 * 30};

void appendChanges(std::string& json, std::string_view name, const std::vector<Change>& changes) {
  appendJsonString(json, name);
  json += ":{";
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i != 0) json += ',';
    appendJsonString(json, changes[i].key);
    json += ':';
    json += changes[i].value.value_or("null");
  }
  json += '}';
}

Result<std::vector<Change>> changesOf(std::string_view json) {
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  std::vector<Change> changes;
  for (const RawMember& member : members) {
    Change change{member.name, std::nullopt};
    if (member.value != "null") change.value = std::string(member.value);
    changes.push_back(std::move(change));
  }
  return changes;
}

std::string listedIntentText(const SessionName& session, const std::string& intent) {
  std::string text = "[";
  for (const std::string* part : {&session.app, &session.user, &session.id}) {
    appendJsonString(text, *part);
    text += ',';
  }
  appendJsonString(text, intent);
  text += ']';
  return text;
}

Task<Result<>> carryOutIn(store::Store& store, store::Partition partition,
                          const std::string& intent, const std::vector<Change>& changes) {
  if (changes.empty()) co_return Result<>();
  store::Batch batch;
  batch.operations = operationsOf(changes);
  store::op::Put mark;
  mark.space = kMarkSpace;
  mark.key = intent;
  mark.expiry.at = store.now() + kMarkKept;
  mark.expected = 0;
  const auto mark_index = static_cast<std::int64_t>(batch.operations.size());
  batch.operations.emplace_back(std::move(mark));
  auto pending = store.commit(std::move(partition), std::nullopt, std::move(batch));
  const auto done = co_await pending.done();
  if (done) co_return Result<>();
  const bool was_done = done.error().code() == Code::VersionConflict &&
                        done.error().field("operation", -1) == mark_index;
  if (was_done) co_return Result<>();
  co_return done.error();
}

Task<Result<>> checkRoomIn(store::Store& store, store::Partition partition,
                           const std::vector<Change>& changes) {
  if (changes.empty()) co_return Result<>();
  store::query::GetUsage get{kStateSpace};
  NIMBUS_CO_TRY(const store::Usage usage,
                co_await store::ask<store::Usage>(store, std::move(partition), std::move(get)));
  std::uint64_t bytes = usage.bytes;
  std::uint64_t keys = usage.records;
  for (const Change& change : changes) {
    if (!change.value) continue;
    bytes += change.value->size();
    ++keys;
  }
  if (keys <= kMaxStateKeys && bytes <= kMaxStateBytes) co_return Result<>();
  const bool by_keys = keys > kMaxStateKeys;
  co_return Error(Code::QuotaExceeded, "the app's or user's state would become too large")
      .with("limit", static_cast<std::int64_t>(by_keys ? kMaxStateKeys : kMaxStateBytes));
}

}  // namespace

std::vector<store::Operation> operationsOf(const std::vector<Change>& changes) {
  std::map<std::string_view, const Change*> last;
  for (const Change& change : changes) last[change.key] = &change;
  std::vector<store::Operation> operations;
  for (const auto& [key, change] : last) {
    if (change->value) {
      store::op::Put put;
      put.space = kStateSpace;
      put.key = change->key;
      put.value = *change->value;
      operations.emplace_back(std::move(put));
    } else {
      store::op::Erase erase;
      erase.space = kStateSpace;
      erase.key = change->key;
      operations.emplace_back(std::move(erase));
    }
  }
  return operations;
}

store::Condition stateWithin() {
  return store::require::SpaceWithin{kStateSpace, kMaxStateKeys, kMaxStateBytes};
}

std::string Intent::toJson() const {
  std::string json = "{";
  appendChanges(json, "app", delta.app);
  json += ',';
  appendChanges(json, "user", delta.user);
  json += '}';
  return json;
}

Result<Intent> Intent::parse(std::string id, std::string_view json) {
  Intent intent;
  intent.id = std::move(id);
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    NIMBUS_TRY(auto changes, changesOf(member.value));
    (member.name == "app" ? intent.delta.app : intent.delta.user) = std::move(changes);
  }
  return intent;
}

std::string makeIntentId(Timestamp now, Random& random) {
  return fmt::format("{:016x}-{}", now.time_since_epoch().count(), random.base36(20));
}

std::string intentKeyBefore(Timestamp time) {
  return fmt::format("{:016x}", time.time_since_epoch().count());
}

std::optional<ListedIntent> listedIntentOf(std::string_view text) {
  const auto parsed = parseJson(text);
  if (!parsed) return std::nullopt;
  std::vector<std::string> parts;
  for (const JsonValue& part : parsed->elements()) parts.emplace_back(part.string().value_or(""));
  if (parts.size() != 4) return std::nullopt;
  return ListedIntent{{parts[0], parts[1], parts[2]}, parts[3]};
}

void addIntent(store::Batch& batch, const SessionName& session, const Intent& intent) {
  store::op::Put put;
  put.space = kIntentSpace;
  put.key = intent.id;
  put.value = intent.toJson();
  batch.operations.emplace_back(std::move(put));
  batch.listings.push_back({kIntentDirectory, intent.id, listedIntentText(session, intent.id)});
}

Task<Result<>> checkRoom(store::Store& store, SessionName session, StateDelta delta) {
  NIMBUS_CO_CHECK(co_await checkRoomIn(store, appPartition(session.app), delta.app));
  co_return co_await checkRoomIn(store, userPartition(session.app, session.user), delta.user);
}

Task<Result<>> carryOut(store::Store& store, SessionName session, Intent intent) {
  NIMBUS_CO_CHECK(
      co_await carryOutIn(store, appPartition(session.app), intent.id, intent.delta.app));
  NIMBUS_CO_CHECK(co_await carryOutIn(store, userPartition(session.app, session.user), intent.id,
                                      intent.delta.user));
  store::Batch batch;
  store::op::Erase erase;
  erase.space = kIntentSpace;
  erase.key = intent.id;
  batch.operations.emplace_back(std::move(erase));
  batch.listings.push_back({kIntentDirectory, intent.id, std::nullopt});
  auto pending = store.commit(session.partition(), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return Result<>();
}

Result<std::vector<Intent>> intentsOf(const store::RecordPage& page) {
  std::vector<Intent> intents;
  for (const store::Record& record : page.items) {
    NIMBUS_TRY(Intent intent, Intent::parse(record.key, record.value));
    intents.push_back(std::move(intent));
  }
  return intents;
}

store::Query scanIntents() {
  store::query::ScanRecords scan;
  scan.space = kIntentSpace;
  scan.limit = 100;
  return scan;
}

}  // namespace nimbus::events
