#include "events/app_settings.h"

#include "base/json.h"
#include "base/json_text.h"
#include "events/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::events {
namespace {

constexpr const char* kSettingsSpace = "events";
constexpr const char* kSettings = "settings";
constexpr int kAttempts = 10;
constexpr double kMaxSeconds = 1e9;

Error badField(std::string_view name, std::string_view why) {
  return Error(Code::InvalidArgument, fmt::format("{}: {}", name, why))
      .with("field", std::string(name));
}

Result<std::uint64_t> countOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  const auto number = value.integer();
  if (!number || *number < 0)
    return badField(member.name, "this must be a whole number, 0 or more");
  return static_cast<std::uint64_t>(*number);
}

Result<std::vector<std::string>> indexesOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  if (!value.isArray()) return badField(member.name, "this must be an array");
  std::vector<std::string> indexes;
  for (const JsonValue& element : value.elements()) {
    const std::string_view name = element.string().value_or("");
    if (std::find(kIndexes.begin(), kIndexes.end(), name) == kIndexes.end()) {
      return badField(member.name, fmt::format("an index is one of {}", fmt::join(kIndexes, ", ")));
    }
    if (std::find(indexes.begin(), indexes.end(), name) == indexes.end()) {
      indexes.emplace_back(name);
    }
  }
  return indexes;
}

}  // namespace

Result<> checkRetention(const Retention& retention, std::string_view field) {
  if (retention.batch < 1) return badField(field, "this must be at least 1");
  if (retention.max_events > 0 && retention.batch >= retention.max_events) {
    return badField(
        field, fmt::format("an eviction of {} leaves nothing of at most {} events; choose less",
                           retention.batch, retention.max_events));
  }
  return {};
}

Result<std::optional<Millis>> parseTtl(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  const auto seconds = value.number();
  if (!seconds || *seconds < 0 || *seconds > kMaxSeconds) {
    return badField(member.name, "this must be seconds; 0 means for ever");
  }
  if (*seconds == 0) return std::optional<Millis>();
  return std::optional(std::max(Millis(1), Millis(static_cast<std::int64_t>(*seconds * 1000))));
}

double secondsOf(const std::optional<Millis>& ttl) {
  return ttl ? static_cast<double>(ttl->count()) / 1000 : 0;
}

std::string AppSettings::toJson(std::string_view app) const {
  std::string json = R"({"app_name":)";
  appendJsonString(json, app);
  fmt::format_to(
      std::back_inserter(json),
      R"(,"max_events_per_session":{},"eviction_batch_size":{},"session_ttl":{},"indexes":[)",
      retention.max_events, retention.batch, secondsOf(session_ttl));
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    if (i != 0) json += ',';
    appendJsonString(json, indexes[i]);
  }
  json += "]}";
  return json;
}

Result<AppSettings> AppSettings::parse(std::string_view json, AppSettings before) {
  AppSettings settings = std::move(before);
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.name == "max_events_per_session") {
      NIMBUS_TRY(settings.retention.max_events, countOf(member));
    } else if (member.name == "eviction_batch_size") {
      NIMBUS_TRY(settings.retention.batch, countOf(member));
    } else if (member.name == "session_ttl") {
      NIMBUS_TRY(settings.session_ttl, parseTtl(member));
    } else if (member.name == "indexes") {
      NIMBUS_TRY(settings.indexes, indexesOf(member));
    } else if (member.name != "app_name") {
      return badField(member.name, "an app has no such setting");
    }
  }
  NIMBUS_CHECK(checkRetention(settings.retention, "eviction_batch_size"));
  return settings;
}

Task<Result<AppSettings>> readSettings(store::Store& store, std::string app) {
  NIMBUS_CO_TRY(const auto record,
                co_await store::getRecord(store, appPartition(app), kSettingsSpace, kSettings));
  if (!record) co_return AppSettings();
  co_return AppSettings::parse(record->value, AppSettings());
}

Task<Result<AppSettings>> changeSettings(store::Store& store, std::string app, std::string json) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(const auto record,
                  co_await store::getRecord(store, appPartition(app), kSettingsSpace, kSettings));
    AppSettings before;
    if (record) {
      NIMBUS_CO_TRY(before, AppSettings::parse(record->value, AppSettings()));
    }
    NIMBUS_CO_TRY(const AppSettings after, AppSettings::parse(json, std::move(before)));
    store::Batch batch;
    store::op::Put put;
    put.space = kSettingsSpace;
    put.key = kSettings;
    put.value = after.toJson(app);
    put.expected = record ? record->version : 0;
    batch.operations.emplace_back(std::move(put));
    batch.listings.push_back({kAppDirectory, app, ""});
    auto pending = store.commit(appPartition(app), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return after;
    if (done.error().code() != Code::VersionConflict) co_return done.error();
  }
  co_return Error(Code::Conflict, "others are changing this app's settings; try again");
}

}  // namespace nimbus::events
