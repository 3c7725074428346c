#include "events/names.h"

#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

namespace nimbus::events {

store::Partition SessionName::partition() const {
  if (user == kFunctionUser) return {"session", {app, id}};
  return {"session", {app, user, id}};
}

const std::string& SessionName::owner() const {
  return user == kFunctionUser ? id : user;
}

store::Partition appPartition(std::string_view app) {
  return {"app", {app}};
}

store::Partition userPartition(std::string_view app, std::string_view user) {
  return {"app-user", {app, user}};
}

std::string sessionDirectory(std::string_view app) {
  return "event-sessions:" + store::encodePart(app);
}

std::string sessionDirectory(std::string_view app, std::string_view user) {
  return sessionDirectory(app) + ':' + store::encodePart(user);
}

std::string listedAt(Timestamp time) {
  return fmt::format("{:016x}", INT64_MAX - time.time_since_epoch().count());
}

std::string listingKey(const SessionName& session, Timestamp updated_at) {
  return listedAt(updated_at) + store::encodePart(session.user) + ':' +
         store::encodePart(session.id);
}

std::string nameText(const SessionName& session) {
  std::string text = "[";
  appendJsonString(text, session.user);
  text += ',';
  appendJsonString(text, session.id);
  text += ']';
  return text;
}

std::optional<SessionName> nameOf(std::string_view app, std::string_view text) {
  const auto parsed = parseJson(text);
  if (!parsed) return std::nullopt;
  const std::vector<JsonValue> parts = parsed->elements();
  if (parts.size() != 2 || !parts[0].string() || !parts[1].string()) return std::nullopt;
  return SessionName{std::string(app), std::string(*parts[0].string()),
                     std::string(*parts[1].string())};
}

std::vector<store::Listing> moved(const SessionName& session, std::optional<Timestamp> from,
                                  std::optional<Timestamp> to) {
  std::vector<store::Listing> listings;
  if (from == to) return listings;
  for (const std::string& directory :
       {sessionDirectory(session.app), sessionDirectory(session.app, session.user)}) {
    if (to) listings.push_back({directory, listingKey(session, *to), nameText(session)});
    if (from) listings.push_back({directory, listingKey(session, *from), std::nullopt});
  }
  return listings;
}

}  // namespace nimbus::events
