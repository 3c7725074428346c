#include "events/sessions.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "events/shared_state.h"
#include "events/tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::events {
namespace {

constexpr std::size_t kMaxTitle = 1'000;
Result<std::string> titleOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  if (value.kind() == JsonValue::Kind::Null) return std::string();
  const auto text = value.string();
  if (text && text->size() <= kMaxTitle) return std::string(*text);
  return Error(Code::InvalidArgument,
               fmt::format("title: this must be a text of at most {} bytes", kMaxTitle))
      .with("field", "title");
}

}  // namespace

store::Batch ifThereIsNone() {
  store::Batch batch;
  batch.conditions.emplace_back(store::require::RecordVersion{kSpace, kIdentity, 0});
  return batch;
}

Error sessionExists(const SessionName& name) {
  return {Code::Conflict, fmt::format("there is a session \"{}\" already", printable(name.id))};
}

Result<NewSession> parseSession(std::string_view json) {
  NewSession session;
  if (trimJson(json).empty()) return session;
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.value == "null") continue;
    if (member.name == "id") {
      NIMBUS_TRY(const JsonValue value, parseJson(member.value));
      session.id = std::string(value.string().value_or(""));
      NIMBUS_CHECK(checkText("session id", session.id));
    } else if (member.name == "title") {
      NIMBUS_TRY(session.title, titleOf(member));
    } else if (member.name == "created_at") {
      NIMBUS_TRY(const JsonValue value, parseJson(member.value));
      const auto time = parseTime(value.string().value_or(""));
      if (!time || *time < Timestamp()) {
        return Error(Code::InvalidArgument,
                     "created_at: this must be a time such as 2026-01-31T09:08:07.006Z")
            .with("field", "created_at");
      }
      session.created_at = *time;
    } else if (member.name == "state") {
      NIMBUS_TRY(session.state, parseDelta(member.value));
    } else {
      return Error(Code::InvalidArgument,
                   fmt::format("{}: a session has no such field", printable(member.name)))
          .with("field", member.name);
    }
  }
  return session;
}

Task<Result<Session>> Sessions::create(std::string app, std::string user, NewSession session) {
  SessionName name{std::move(app), std::move(user), session.id};
  if (name.id.empty()) name.id = "ses_" + random_.base36(20);
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(name.partition().name()));
  co_return co_await make(std::move(name), std::move(session), std::nullopt, true);
}

// What removes all that is left of a session that is none; with the condition that it stays none.
Task<Result<store::Batch>> Sessions::clearing(SessionName name) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kSpace, kIdentity});
  queries.emplace_back(store::query::GetRecord{kSpace, kClock});
  queries.emplace_back(store::query::GetLogInfo{kEventLog});
  queries.emplace_back(scanIntents());
  store::query::ScanRecords scan;
  scan.space = kTrackSpace;
  scan.limit = kMaxTracks;
  scan.values = store::Values::Omit;
  queries.emplace_back(std::move(scan));
  NIMBUS_CO_TRY(const auto answers, co_await store_.read(name.partition(), std::move(queries)));
  const auto& identity = std::get<std::optional<store::Record>>(answers[0]);
  if (identity && std::get<std::optional<store::Record>>(answers[1])) co_return sessionExists(name);
  NIMBUS_CO_TRY(std::vector<Intent> intents, intentsOf(std::get<store::RecordPage>(answers[3])));
  for (Intent& intent : intents) {
    NIMBUS_CO_CHECK(co_await carryOut(store_, name, std::move(intent)));
  }
  store::Batch batch;
  batch.conditions.emplace_back(
      store::require::RecordVersion{kSpace, kIdentity, identity ? identity->version : 0});
  batch.conditions.emplace_back(store::require::RecordVersion{kSpace, kClock, 0});
  const bool is_untouched = !identity && std::get<store::LogInfo>(answers[2]).revision == 0;
  if (is_untouched) co_return batch;
  for (const char* space : {kSpace, kStateSpace, kTrackSpace, kTrackClockSpace, kSummarySpace}) {
    batch.operations.emplace_back(store::op::EraseSpace{space});
  }
  batch.operations.emplace_back(store::op::DropLog{kEventLog});
  for (const store::Record& track : std::get<store::RecordPage>(answers[4]).items) {
    batch.operations.emplace_back(store::op::DropLog{LogName{name, track.key}.log()});
  }
  co_return batch;
}

Task<Result<Session>> Sessions::make(SessionName name, NewSession given,
                                     std::optional<store::Fence> fence, bool clear_first) {
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store_, name.app));
  if (given.state.isShared()) NIMBUS_CO_CHECK(co_await checkRoom(store_, name, given.state));
  store::Batch batch = ifThereIsNone();
  if (clear_first) {
    NIMBUS_CO_TRY(batch, co_await clearing(name));
  }
  Session session;
  session.name = name;
  session.title = given.title;
  session.updated_at = turns_.stamp(store_.now(), Timestamp());
  session.created_at = std::min(given.created_at.value_or(session.updated_at), session.updated_at);
  session.generation = newGeneration(session.updated_at, random_);
  batch.operations.emplace_back(identityPut(session));
  batch.operations.emplace_back(clockPut(settings, session.updated_at));
  batch.conditions.emplace_back(stateWithin());
  std::vector<store::Operation> changes = operationsOf(given.state.session);
  std::move(changes.begin(), changes.end(), std::back_inserter(batch.operations));
  batch.listings = moved(name, std::nullopt, session.updated_at);
  batch.listings.push_back({kAppDirectory, name.app, ""});
  if (fence) batch.operations.emplace_back(store::op::Release{fence->lease, fence->token});
  Intent intent;
  if (given.state.isShared()) {
    intent = Intent{makeIntentId(session.updated_at, random_), given.state};
    addIntent(batch, name, intent);
  }
  auto pending = store_.commit(name.partition(), fence, std::move(batch));
  const auto done = co_await pending.done();
  if (!done) co_return isOvertaken(done.error()) ? sessionExists(name) : done.error();
  if (!intent.id.empty()) NIMBUS_CO_CHECK(co_await carryOut(store_, name, std::move(intent)));
  co_return session;
}

Task<Result<Session>> Sessions::get(SessionName name) {
  NIMBUS_CO_TRY(Opened opened,
                co_await openSession(store_, std::move(name), std::vector<store::Query>()));
  co_return std::move(opened.session);
}

Task<Result<>> Sessions::removeExpired(SessionName name) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(name.partition().name()));
  auto batch = co_await clearing(name);
  if (!batch) {
    if (batch.error().code() == Code::Conflict) co_return Result<>();  // it lives
    co_return std::move(batch).error();
  }
  if (batch->operations.empty()) co_return Result<>();
  auto pending = store_.commit(name.partition(), std::nullopt, *std::move(batch));
  const auto done = co_await pending.done();
  if (!done && !isOvertaken(done.error())) co_return done.error();
  co_return Result<>();
}

Task<Result<>> Sessions::remove(SessionName name) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(name.partition().name()));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<store::Query> queries;
    queries.emplace_back(scanIntents());
    store::query::ScanRecords scan;
    scan.space = kTrackSpace;
    scan.limit = kMaxTracks;
    queries.emplace_back(std::move(scan));
    NIMBUS_CO_TRY(const Opened opened, co_await openSession(store_, name, std::move(queries)));
    NIMBUS_CO_TRY(std::vector<Intent> intents, intentsOf(opened.get<store::RecordPage>(0)));
    for (Intent& intent : intents) {
      NIMBUS_CO_CHECK(co_await carryOut(store_, name, std::move(intent)));
    }
    store::Batch batch;
    batch.conditions.emplace_back(
        store::require::RecordVersion{kSpace, kIdentity, opened.session.generation});
    batch.listings = moved(name, opened.session.updated_at, std::nullopt);
    if (name.user != kFunctionUser) {
      batch.operations.emplace_back(store::op::DropPartition());
    } else {
      for (const char* space :
           {kSpace, kStateSpace, kTrackSpace, kTrackClockSpace, kSummarySpace, kIntentSpace}) {
        batch.operations.emplace_back(store::op::EraseSpace{space});
      }
      batch.operations.emplace_back(store::op::DropLog{kEventLog});
      for (const store::Record& track : opened.get<store::RecordPage>(1).items) {
        batch.operations.emplace_back(store::op::DropLog{LogName{name, track.key}.log()});
      }
    }
    auto pending = store_.commit(name.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return Result<>();
    if (!isOvertaken(done.error())) co_return done.error();
  }
  co_return tooContended();
}

}  // namespace nimbus::events
