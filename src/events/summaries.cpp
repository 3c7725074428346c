#include "events/summaries.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "events/open_session.h"

#include <fmt/format.h>

#include <utility>

namespace nimbus::events {
namespace {

constexpr std::uint64_t kMaxSummaries = 100;  // per session

// Keys are not empty, filter keys may be.
std::string recordKey(const std::string& filter_key) {
  return "=" + filter_key;
}

store::Query summaryQuery(const std::string& filter_key) {
  return store::query::GetRecord{kSummarySpace, recordKey(filter_key)};
}

Result<Summary> parseSummary(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  Summary summary;
  const auto text = root.string("text");
  const auto event = root.string("last_event_id");
  if (!text || !event) {
    return Error(Code::InvalidArgument, "a summary has a text and the last_event_id it knows of");
  }
  summary.text = std::string(*text);
  summary.last_event_id = std::string(*event);
  summary.filter_key = std::string(root.string("filter_key").value_or(""));
  if (!summary.filter_key.empty()) NIMBUS_CHECK(checkText("filter_key", summary.filter_key));
  return summary;
}

Result<Summary> fromRecord(const store::Record& record) {
  NIMBUS_TRY(Summary summary, parseSummary(record.value));
  NIMBUS_TRY(const JsonValue root, parseJson(record.value));
  summary.last_seq = static_cast<store::Seq>(root.integer("last_seq").value_or(0));
  summary.updated_at = record.updated_at;
  return summary;
}

}  // namespace

std::string Summary::toJson() const {
  std::string json = R"({"text":)";
  appendJsonString(json, text);
  json += R"(,"last_event_id":)";
  appendJsonString(json, last_event_id);
  fmt::format_to(std::back_inserter(json), R"(,"last_seq":{},"filter_key":)", last_seq);
  if (filter_key.empty()) {
    json += "null";
  } else {
    appendJsonString(json, filter_key);
  }
  json += R"(,"updated_at":)";
  appendJsonString(json, timeText(updated_at));
  json += '}';
  return json;
}

Task<Result<Summary>> putSummary(store::Store& store, Turns& turns, SessionName name,
                                 std::string json) {
  NIMBUS_CO_TRY(Summary summary, parseSummary(json));
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns.take(name.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, name.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<store::Query> queries;
    queries.emplace_back(summaryQuery(summary.filter_key));
    queries.emplace_back(store::query::GetEntry{kEventLog, summary.last_event_id});
    NIMBUS_CO_TRY(const Opened opened, co_await openSession(store, name, std::move(queries)));
    const auto& entry = opened.get<std::optional<store::Entry>>(1);
    if (!entry) {
      co_return Error(Code::NotFound,
                      fmt::format("there is no event \"{}\"", printable(summary.last_event_id)));
    }
    summary.last_seq = entry->seq;
    const auto& record = opened.get<std::optional<store::Record>>(0);
    if (record) {
      NIMBUS_CO_TRY(Summary before, fromRecord(*record));
      if (before.last_seq >= summary.last_seq) {
        if (before.last_seq == summary.last_seq && before.text == summary.text) co_return before;
        co_return Error(Code::Conflict,
                        fmt::format("there is a summary up to seq {} already", before.last_seq))
            .with("last_seq", static_cast<std::int64_t>(before.last_seq));
      }
    }
    const Timestamp now = turns.stamp(store.now(), opened.session.updated_at);
    summary.updated_at = now;
    store::Batch batch = changeOf(opened.session, settings, now);
    store::op::Put put;
    put.space = kSummarySpace;
    put.key = recordKey(summary.filter_key);
    put.value = summary.toJson();
    batch.conditions.emplace_back(
        store::require::RecordVersion{kSummarySpace, put.key, record ? record->version : 0});
    batch.conditions.emplace_back(store::require::SpaceWithin{kSummarySpace, kMaxSummaries, 0});
    batch.operations.emplace_back(std::move(put));
    auto pending = store.commit(name.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return summary;
    if (!isOvertaken(done.error())) co_return done.error();
  }
  co_return tooContended();
}

Task<Result<Summary>> getSummary(store::Store& store, SessionName name, std::string filter_key) {
  std::vector<store::Query> queries;
  queries.emplace_back(summaryQuery(filter_key));
  NIMBUS_CO_TRY(const Opened opened,
                co_await openSession(store, std::move(name), std::move(queries)));
  const auto& record = opened.get<std::optional<store::Record>>(0);
  if (record) co_return fromRecord(*record);
  co_return Error(Code::NotFound, "the session has no such summary");
}

}  // namespace nimbus::events
