#include "events/open_session.h"

#include "base/json.h"
#include "base/json_text.h"
#include "store/rules.h"

#include <fmt/format.h>

#include <utility>

namespace nimbus::events {
namespace {

// The queries that tell what a session is, before those of the caller.
constexpr std::size_t kOwnQueries = 4;

std::optional<Session> sessionOf(SessionName name, const std::vector<store::Answer>& answers) {
  const auto& identity = std::get<std::optional<store::Record>>(answers[0]);
  const auto& clock = std::get<std::optional<store::Record>>(answers[1]);
  if (!identity || !clock) return std::nullopt;
  Session session;
  session.name = std::move(name);
  session.generation = identity->version;
  session.clock = clock->version;
  session.updated_at = Timestamp(Millis(store::parseInteger(clock->value).value_or(0)));
  if (const auto& evicted = std::get<std::optional<store::Record>>(answers[2])) {
    session.evicted_count =
        static_cast<std::uint64_t>(store::parseInteger(evicted->value).value_or(0));
  }
  const auto& info = std::get<store::LogInfo>(answers[3]);
  session.event_count = info.entries;
  session.last_seq = info.last_seq;
  if (const auto root = parseJson(identity->value)) {
    session.created_at = Timestamp(Millis(root->integer("created_at").value_or(0)));
    session.title = std::string(root->string("title").value_or(""));
  }
  return session;
}

}  // namespace

Error noSession(const SessionName& name) {
  return {Code::NotFound, fmt::format("there is no session \"{}\" of user \"{}\" in app {}",
                                      printable(name.id), printable(name.user), name.app)};
}

Task<Result<Opened>> openSession(store::Store& store, SessionName name,
                                 std::vector<store::Query> queries) {
  std::vector<store::Query> all;
  all.reserve(queries.size() + kOwnQueries);
  all.emplace_back(store::query::GetRecord{kSpace, kIdentity});
  all.emplace_back(store::query::GetRecord{kSpace, kClock});
  all.emplace_back(store::query::GetRecord{kSpace, kEvicted});
  all.emplace_back(store::query::GetLogInfo{kEventLog});
  std::move(queries.begin(), queries.end(), std::back_inserter(all));
  NIMBUS_CO_TRY(auto answers, co_await store.read(name.partition(), std::move(all)));
  auto session = sessionOf(name, answers);
  if (!session) co_return noSession(name);
  answers.erase(answers.begin(), answers.begin() + kOwnQueries);
  co_return Opened{*std::move(session), std::move(answers)};
}

Task<Result<std::optional<Session>>> findSession(store::Store& store, SessionName name) {
  auto opened = co_await openSession(store, std::move(name), std::vector<store::Query>());
  if (opened) co_return std::optional(std::move(opened->session));
  if (opened.error().code() == Code::NotFound) co_return std::optional<Session>();
  co_return std::move(opened).error();
}

// Versions of a space only grow, and so do generations, whatever was removed in between.
std::uint64_t newGeneration(Timestamp now, Random& random) {
  constexpr unsigned kRandomBits = 12;
  const auto time = static_cast<std::uint64_t>(now.time_since_epoch().count());
  return ((time << kRandomBits) | random.below(1U << kRandomBits)) & store::kMaxVersion;
}

store::op::Put identityPut(const Session& session) {
  store::op::Put put;
  put.space = kSpace;
  put.key = kIdentity;
  put.value = fmt::format(R"({{"created_at":{})", session.created_at.time_since_epoch().count());
  if (!session.title.empty()) {
    put.value += R"(,"title":)";
    appendJsonString(put.value, session.title);
  }
  put.value += '}';
  put.version = session.generation;
  return put;
}

store::op::Put identityPut(const SessionName& name, Timestamp now, Random& random) {
  Session session;
  session.name = name;
  session.created_at = now;
  session.generation = newGeneration(now, random);
  return identityPut(session);
}

store::Expiry clockExpiry(const AppSettings& settings, Timestamp now) {
  store::Expiry expiry;
  if (settings.session_ttl) expiry.at = now + *settings.session_ttl;
  return expiry;
}

store::op::Put clockPut(const AppSettings& settings, Timestamp now) {
  store::op::Put put;
  put.space = kSpace;
  put.key = kClock;
  put.value = std::to_string(now.time_since_epoch().count());
  put.expiry = clockExpiry(settings, now);
  return put;
}

store::op::Add countEvicted(std::uint64_t count) {
  store::op::Add add;
  add.space = kSpace;
  add.key = kEvicted;
  add.delta = static_cast<std::int64_t>(count);
  return add;
}

store::Batch changeOf(const Session& session, const AppSettings& settings, Timestamp now) {
  store::Batch batch;
  batch.conditions.emplace_back(
      store::require::RecordVersion{kSpace, kIdentity, session.generation});
  batch.operations.emplace_back(clockPut(settings, now));
  batch.listings = moved(session.name, session.updated_at, now);
  return batch;
}

bool isGone(const Error& refused) {
  return refused.code() == Code::VersionConflict && refused.field("condition", -1) == 0;
}

bool isOvertaken(const Error& refused) {
  const bool moved = refused.code() == Code::VersionConflict || refused.code() == Code::Conflict;
  return moved && refused.field("condition", -1) >= 0;
}

Error tooContended() {
  return Error(Code::Unavailable, "others are changing this session all the time; try again")
      .with("retry_after_ms", std::int64_t{100});
}

}  // namespace nimbus::events
