#include "events/states.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "events/open_session.h"
#include "events/shared_state.h"

#include <utility>

namespace nimbus::events {
namespace {

// Prefixes have no meaning where the state is named by the path.
Result<std::vector<Change>> parseChanges(std::string_view json) {
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  std::vector<Change> changes;
  for (const RawMember& member : members) {
    NIMBUS_CHECK(checkText("state key", member.name));
    Change change{member.name, std::nullopt};
    if (member.value != "null") change.value = std::string(member.value);
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace

Task<Result<StateMembers>> readState(store::Store& store, store::Partition partition) {
  store::query::ScanRecords scan;
  scan.space = kStateSpace;
  scan.limit = store::kMaxPage;
  NIMBUS_CO_TRY(store::RecordPage page, co_await store::ask<store::RecordPage>(
                                            store, std::move(partition), std::move(scan)));
  StateMembers members;
  for (store::Record& record : page.items) {
    members.emplace_back(std::move(record.key), std::move(record.value));
  }
  co_return members;
}

std::string stateText(const StateMembers& members) {
  std::string text = "{";
  for (const auto& [key, value] : members) {
    if (text.size() > 1) text += ',';
    appendJsonString(text, key);
    text += ':';
    text += value;
  }
  text += '}';
  return text;
}

Task<Result<StateMembers>> patchSessionState(store::Store& store, Turns& turns, SessionName name,
                                             std::string json) {
  NIMBUS_CO_TRY(const StateDelta delta, parseDelta(json));
  if (delta.isShared()) {
    co_return Error(Code::InvalidArgument,
                    "app: and user: keys are changed at the app's and the user's own state");
  }
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns.take(name.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, name.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(const Opened opened,
                  co_await openSession(store, name, std::vector<store::Query>()));
    const Timestamp now = turns.stamp(store.now(), opened.session.updated_at);
    store::Batch batch = changeOf(opened.session, settings, now);
    batch.conditions.emplace_back(stateWithin());
    std::vector<store::Operation> changes = operationsOf(delta.session);
    std::move(changes.begin(), changes.end(), std::back_inserter(batch.operations));
    auto pending = store.commit(name.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return co_await readState(store, name.partition());
    if (!isGone(done.error())) co_return done.error();
  }
  co_return tooContended();
}

Task<Result<StateMembers>> patchSharedState(store::Store& store, store::Partition partition,
                                            std::string json) {
  NIMBUS_CO_TRY(const std::vector<Change> changes, parseChanges(json));
  store::Batch batch;
  batch.conditions.emplace_back(stateWithin());
  batch.operations = operationsOf(changes);
  auto pending = store.commit(partition, std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return co_await readState(store, std::move(partition));
}

}  // namespace nimbus::events
