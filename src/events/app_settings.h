#pragma once
// What an app says about its sessions.

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "base/task.h"
#include "events/event.h"
#include "store/store.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

// How long a log may grow; then its oldest conversations go.
struct Retention {
  std::uint64_t max_events = 0;  // 0: unlimited
  std::uint64_t batch = 10;      // after an eviction at most max_events - batch are left

  bool operator==(const Retention&) const = default;
};
// InvalidArgument if nothing would be left, or no room would be made.
Result<> checkRetention(const Retention& retention, std::string_view field);

// Seconds as they are given, 0 for never. InvalidArgument names the field.
Result<std::optional<Millis>> parseTtl(const RawMember& member);
double secondsOf(const std::optional<Millis>& ttl);

struct AppSettings {
  Retention retention;
  std::optional<Millis> session_ttl;  // after its last change a session is gone; absent: never
  std::vector<std::string> indexes{kIndexes.begin(), kIndexes.end()};

  std::string toJson(std::string_view app) const;
  // `json` over what was set before: what it does not name stays. InvalidArgument names the field.
  static Result<AppSettings> parse(std::string_view json, AppSettings before);

  bool operator==(const AppSettings&) const = default;
};

Task<Result<AppSettings>> readSettings(store::Store& store, std::string app);
// Returns what then holds.
Task<Result<AppSettings>> changeSettings(store::Store& store, std::string app, std::string json);

}  // namespace nimbus::events
