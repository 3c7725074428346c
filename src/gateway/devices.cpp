#include "gateway/devices.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "gateway/list_text.h"
#include "http/router.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace nimbus::gateway {
namespace {

using http::Method;

// Those that nobody has approved yet are kept apart: anybody may add to them.
constexpr const char* kPairing = "pairing";
constexpr std::size_t kMostPairing = 1000;
constexpr std::size_t kMostDevices = 10'000;
constexpr std::chrono::minutes kPairingTime{10};
constexpr std::chrono::hours kPairingKept{24};
constexpr std::chrono::hours kRevokedKept{30 * 24};
constexpr std::size_t kListed = 100;
constexpr std::size_t kLargestEvent = 64UL * 1024;
constexpr std::size_t kLargestInfo = 4UL * 1024;
constexpr std::int64_t kLongestWaitMs = 60'000;

Error wrong(std::string_view member, std::string_view what) {
  return Error(Code::InvalidArgument, fmt::format("\"{}\" {}", printable(member), what))
      .with("field", std::string(member));
}

Result<std::string> textOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  const auto text = value.string();
  if (!text) return wrong(member.name, "must be text");
  NIMBUS_CHECK(checkText(member.name, *text));
  return std::string(*text);
}

Result<std::set<std::string, std::less<>>> scopesOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  if (!value.isArray()) return wrong(member.name, "must be a list of scopes");
  std::set<std::string, std::less<>> scopes;
  for (const JsonValue& element : value.elements()) {
    const auto scope = element.string();
    if (!scope) return wrong(member.name, "must be a list of scopes");
    NIMBUS_CHECK(checkScope(*scope));
    scopes.emplace(*scope);
  }
  return scopes;
}

// The scopes that a body gives; nothing if it gives none.
Result<std::optional<std::set<std::string, std::less<>>>> readScopes(std::string_view body) {
  std::optional<std::set<std::string, std::less<>>> scopes;
  if (trimJson(body).empty()) return scopes;
  NIMBUS_TRY(const auto members, splitObject(body));
  for (const RawMember& member : members) {
    if (member.name != "scopes") return wrong(member.name, "is not known here, only \"scopes\"");
    NIMBUS_TRY(scopes, scopesOf(member));
  }
  return scopes;
}

Error notNow(const Device& device, Timestamp now, std::string_view command) {
  return Error(Code::Conflict,
               fmt::format("the device is {} and cannot be {}", device.statusName(now), command))
      .with("from", std::string(device.statusName(now)));
}

std::string idOf(const http::Request& request) {
  return std::string(request.parameters["id"]);
}

http::Route routeOf(Method method, std::string pattern, std::string operation_id,
                    std::string summary, std::string scope) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.operation_id = std::move(operation_id);
  route.summary = std::move(summary);
  route.tag = "Devices";
  route.scope = std::move(scope);
  route.answers = {{200, "The device.", R"({"type":"object"})"}};
  return route;
}

}  // namespace

Task<Result<Devices::Found>> Devices::find(std::string id) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{KeyRing::kDevices, id});
  queries.emplace_back(store::query::GetRecord{kPairing, id});
  NIMBUS_CO_TRY(const auto answers,
                co_await parts_.store.read(KeyRing::partition(), std::move(queries)));
  const auto& known = std::get<std::optional<store::Record>>(answers[0]);
  const auto& pairing = std::get<std::optional<store::Record>>(answers[1]);
  const auto& record = known ? known : pairing;
  if (!record) {
    co_return Error(Code::NotFound, fmt::format("there is no device {}", printable(id)));
  }
  Found found;
  NIMBUS_CO_TRY(found.device, parseDeviceRecord(std::move(id), record->value));
  found.space = known ? KeyRing::kDevices : kPairing;
  found.version = record->version;
  co_return found;
}

Task<Result<Devices::Found>> Devices::findApproved(std::string id) {
  NIMBUS_CO_TRY(Found found, co_await find(std::move(id)));
  if (found.device.status == Device::Status::Approved) co_return found;
  co_return notNow(found.device, parts_.store.now(), "used");
}

Task<Result<>> Devices::replace(Found found) {
  const Device& device = found.device;
  const bool is_approved = device.status == Device::Status::Approved;
  const char* const space =
      is_approved || found.space == KeyRing::kDevices ? KeyRing::kDevices : kPairing;
  store::Expiry expiry;
  if (space == kPairing) expiry.keep_existing = true;
  if (device.status == Device::Status::Revoked) expiry.at = parts_.store.now() + kRevokedKept;
  const bool moves = space != found.space;
  store::Batch batch;
  if (moves) {
    batch.conditions.emplace_back(store::require::SpaceWithin{space, kMostDevices, 0});
    batch.operations.emplace_back(store::op::Erase{found.space, device.id, found.version});
  }
  batch.operations.emplace_back(store::op::Put{space, device.id, deviceRecord(device), expiry,
                                               moves ? store::Version{0} : found.version});
  auto changed = co_await parts_.ring.change(std::move(batch));
  if (!changed && changed.error().code() == Code::VersionConflict) {
    co_return Error(Code::Conflict, "the device was changed meanwhile; look and try again");
  }
  co_return changed;
}

// ---- pairing

Task<Result<http::Response>> Devices::pair(http::Request& request) {
  NIMBUS_CO_TRY(const auto members, splitObject(request.body));
  Device device;
  for (const RawMember& member : members) {
    if (member.name == "name") {
      NIMBUS_CO_TRY(device.name, textOf(member));
    } else if (member.name == "public_info") {
      device.public_info = std::string(member.value);
    } else {
      co_return wrong(member.name, "is not known here, only \"name\" and \"public_info\"");
    }
  }
  if (device.name.empty()) co_return wrong("name", "is missing: how people know the device");
  if (device.public_info.size() > kLargestInfo) {
    co_return Error(Code::TooLarge, "\"public_info\" must not be longer than 4096 bytes");
  }
  NIMBUS_CO_CHECK(co_await parts_.limits.takeForPairing(request));
  const Timestamp now = parts_.store.now();
  device.id = makeDeviceId(parts_.random);
  const std::string code = makePairingCode(parts_.random);
  device.code_hash = hashPairingCode(code);
  device.created_at = now;
  device.expires_at = now + kPairingTime;

  store::Batch batch;
  batch.conditions.emplace_back(store::require::SpaceWithin{kPairing, kMostPairing, 0});
  store::Expiry expiry;
  expiry.at = now + kPairingKept;
  batch.operations.emplace_back(
      store::op::Put{kPairing, device.id, deviceRecord(device), expiry, 0});
  store::PendingCommit commit =
      parts_.store.commit(KeyRing::partition(), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await commit.done());
  std::string text = R"({"device_id":)";
  appendJsonString(text, device.id);
  text += R"(,"pairing_code":)";
  appendJsonString(text, code);
  text += R"(,"expires_at":)";
  appendJsonString(text, timeText(device.expires_at));
  text += '}';
  co_return http::Response::json(std::move(text), 201).header("Cache-Control", "no-store");
}

Task<Result<http::Response>> Devices::pairing(http::Request& request) {
  NIMBUS_CO_TRY(const auto code, request.queryParameters().text("code"));
  NIMBUS_CO_TRY(Found found, co_await find(std::string(request.parameters["device_id"])));
  Device& device = found.device;
  const bool is_right = isSameHash(hashPairingCode(code.value_or("")), device.code_hash);
  if (!is_right || device.tries >= Device::kTries) {
    if (code && device.tries < Device::kTries) NIMBUS_CO_CHECK(co_await refuseCode(found));
    co_return Error(Code::Forbidden, "`code` is not the device's pairing code");
  }
  const Timestamp now = parts_.store.now();
  const std::string_view status =
      device.status == Device::Status::Revoked ? "rejected" : device.statusName(now);
  std::string text = R"({"device_id":)";
  appendJsonString(text, device.id);
  text += R"(,"status":)";
  appendJsonString(text, status);
  if (device.status == Device::Status::Approved && !device.token_hash) {
    NIMBUS_CO_TRY(const std::string token, co_await fetchToken(found));
    text += R"(,"token":)";
    appendJsonString(text, token);
  }
  text += '}';
  co_return http::Response::json(std::move(text)).header("Cache-Control", "no-store");
}

Task<Result<>> Devices::refuseCode(Found found) {
  ++found.device.tries;
  co_return co_await replace(std::move(found));
}

// Of two who fetch at once one is told of a Conflict: it would have been the second token.
Task<Result<std::string>> Devices::fetchToken(Found found) {
  const std::string token = makeDeviceToken(parts_.random);
  found.device.token_hash = hashKey(token);
  NIMBUS_CO_CHECK(co_await replace(std::move(found)));
  co_return token;
}

// ---- administration

Task<Result<http::Response>> Devices::list(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(const std::string after, afterOf(query));
  // Both spaces are in the order of ids: the first of both together are a page of all.
  std::vector<store::Query> queries;
  for (const char* space : {KeyRing::kDevices, kPairing}) {
    store::query::ScanRecords scan;
    scan.space = space;
    scan.after = after;
    scan.limit = limit;
    queries.emplace_back(std::move(scan));
  }
  NIMBUS_CO_TRY(const auto answers,
                co_await parts_.store.read(KeyRing::partition(), std::move(queries)));
  std::map<std::string, std::string> records;
  bool more = false;
  for (const store::Answer& answer : answers) {
    const auto& page = std::get<store::RecordPage>(answer);
    more = more || page.more;
    for (const store::Record& record : page.items) records[record.key] = record.value;
  }
  ListText text;
  std::string last;
  std::size_t listed = 0;
  for (const auto& [id, record] : records) {
    if (listed == limit) break;
    ++listed;
    last = id;
    NIMBUS_CO_TRY(const Device device, parseDeviceRecord(id, record));
    text.add(deviceText(device, parts_.store.now()));
  }
  more = more || records.size() > limit;
  co_return http::Response::json(std::move(text).finish(more ? std::optional(last) : std::nullopt));
}

Task<Result<http::Response>> Devices::show(http::Request& request) {
  NIMBUS_CO_TRY(const Found found, co_await find(idOf(request)));
  co_return http::Response::json(deviceText(found.device, parts_.store.now()));
}

Task<Result<http::Response>> Devices::approve(http::Request& request) {
  NIMBUS_CO_TRY(auto scopes, readScopes(request.body));
  NIMBUS_CO_TRY(Found found, co_await find(idOf(request)));
  const Timestamp now = parts_.store.now();
  if (!found.device.isPending(now)) co_return notNow(found.device, now, "approved");
  found.device.status = Device::Status::Approved;
  if (scopes) found.device.scopes = *std::move(scopes);
  NIMBUS_CO_CHECK(co_await replace(found));
  co_return http::Response::json(deviceText(found.device, now));
}

Task<Result<http::Response>> Devices::reject(http::Request& request) {
  NIMBUS_CO_TRY(Found found, co_await find(idOf(request)));
  const Timestamp now = parts_.store.now();
  if (!found.device.isPending(now)) co_return notNow(found.device, now, "rejected");
  found.device.status = Device::Status::Rejected;
  NIMBUS_CO_CHECK(co_await replace(found));
  co_return http::Response::json(deviceText(found.device, now));
}

Task<Result<http::Response>> Devices::revoke(http::Request& request) {
  NIMBUS_CO_TRY(Found found, co_await findApproved(idOf(request)));
  found.device.status = Device::Status::Revoked;
  found.device.token_hash.reset();
  NIMBUS_CO_CHECK(co_await replace(found));
  co_await KeyRing::noticed();
  NIMBUS_CO_CHECK(co_await events_.remove(found.device.id));
  co_return http::Response::json(deviceText(found.device, parts_.store.now()));
}

Task<Result<http::Response>> Devices::rotate(http::Request& request) {
  NIMBUS_CO_TRY(Found found, co_await findApproved(idOf(request)));
  const std::string token = makeDeviceToken(parts_.random);
  found.device.token_hash = hashKey(token);
  NIMBUS_CO_CHECK(co_await replace(found));
  co_await KeyRing::noticed();
  co_return http::Response::json(deviceText(found.device, parts_.store.now(), token))
      .header("Cache-Control", "no-store");
}

Task<Result<http::Response>> Devices::setScopes(http::Request& request) {
  NIMBUS_CO_TRY(auto scopes, readScopes(request.body));
  if (!scopes) co_return wrong("scopes", "is missing");
  NIMBUS_CO_TRY(Found found, co_await findApproved(idOf(request)));
  found.device.scopes = *std::move(scopes);
  NIMBUS_CO_CHECK(co_await replace(found));
  co_await KeyRing::noticed();
  co_return http::Response::json(deviceText(found.device, parts_.store.now()));
}

// ---- events

Task<Result<http::Response>> Devices::sendEvent(http::Request& request) {
  NIMBUS_CO_TRY(const auto members, splitObject(request.body));
  std::string type;
  std::string_view data = "null";
  for (const RawMember& member : members) {
    if (member.name == "type") {
      NIMBUS_CO_TRY(type, textOf(member));
    } else if (member.name == "data") {
      data = member.value;
    } else {
      co_return wrong(member.name, "is not known here, only \"type\" and \"data\"");
    }
  }
  if (type.empty()) co_return wrong("type", "is missing");
  if (data.size() > kLargestEvent) {
    co_return Error(Code::TooLarge, "\"data\" must not be longer than 65536 bytes")
        .with("limit", static_cast<std::int64_t>(kLargestEvent));
  }
  NIMBUS_CO_TRY(const Found found, co_await findApproved(idOf(request)));
  std::string event = R"({"type":)";
  appendJsonString(event, type);
  event += R"(,"data":)";
  event += data;
  event += R"(,"created_at":)";
  appendJsonString(event, timeText(parts_.store.now()));
  event += '}';
  NIMBUS_CO_TRY(const store::Seq seq,
                co_await events_.append(found.device.id, std::string(request.id), event));
  co_return http::Response::json(fmt::format(R"({{"id":{},{})", seq, event.substr(1)), 201);
}

Task<Result<http::Response>> Devices::poll(http::Request& request) {
  const Principal& principal = principalOf(request);
  if (!principal.is_device) {
    co_return Error(Code::Forbidden,
                    "only a device has events: send X-Device-Id and X-Device-Token");
  }
  const http::Query query = request.queryParameters();
  DeviceEvents::Poll poll;
  NIMBUS_CO_TRY(poll.limit, query.limit(kListed));
  NIMBUS_CO_TRY(const auto since, query.integer("since", http::IntegerRange{}));
  NIMBUS_CO_TRY(const auto ack, query.integer("ack", http::IntegerRange{}));
  NIMBUS_CO_TRY(const auto wait, query.integer("wait_ms", http::IntegerRange{0, kLongestWaitMs}));
  poll.since = static_cast<store::Seq>(since.value_or(0));
  if (ack) poll.ack = static_cast<store::Seq>(*ack);
  poll.wait = Millis(wait.value_or(0));
  NIMBUS_CO_TRY(const auto fetched, co_await events_.poll(principal.id, poll));
  co_return http::Response::json(fmt::format(R"({{"events":[{}],"cursor":{},"dropped":{}}})",
                                             fmt::join(fetched.events, ","), fetched.cursor,
                                             fetched.dropped));
}

// ---- routes

void Devices::addAdministration(http::Router& router) {
  const std::string one = "/api/v1/devices/{id}";
  const auto add = [&](http::Route route, auto handle) {
    route.handler = [this, handle](http::Request& request) { return (this->*handle)(request); };
    route.errors = {Code::NotFound, Code::Conflict};
    router.add(std::move(route));
  };
  http::Route route =
      routeOf(Method::Get, "/api/v1/devices", "listDevices", "Devices", "devices:admin");
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}};
  route.answers = {{200, "By id.", R"({"type":"object"})"}};
  add(std::move(route), &Devices::list);
  add(routeOf(Method::Get, one, "showDevice", "A device", "devices:admin"), &Devices::show);

  route = routeOf(Method::Post, one + "/approve", "approveDevice", "Approve a pairing",
                  "devices:admin");
  route.body = {{"The `scopes` it gets, beside its events; none if left out.",
                 R"({"type":"object","properties":{"scopes":{"type":"array"}}})"}};
  add(std::move(route), &Devices::approve);
  add(routeOf(Method::Post, one + "/reject", "rejectDevice", "Reject a pairing", "devices:admin"),
      &Devices::reject);

  route = routeOf(Method::Post, one + "/revoke", "revokeDevice", "End a device", "devices:admin");
  route.description = "Once this is answered no server accepts its token; its events are gone.";
  add(std::move(route), &Devices::revoke);
  route = routeOf(Method::Post, one + "/rotate", "rotateDevice", "Give a device another token",
                  "devices:admin");
  route.description =
      "The answer has the `token`, this once. The old one is accepted by no server any more.";
  add(std::move(route), &Devices::rotate);
  route = routeOf(Method::Put, one + "/scopes", "putDeviceScopes", "What a device may do",
                  "devices:admin");
  route.body = {{"", R"({"type":"object","properties":{"scopes":{"type":"array"}}})"}};
  add(std::move(route), &Devices::setScopes);

  route = routeOf(Method::Post, one + "/events", "sendDeviceEvent", "Send a device an event",
                  "devices:admin");
  route.body = {{"", R"({"type":"object","properties":{"type":{"type":"string"},"data":{}}})"}};
  route.answers = {{201, "The event, with its `id`.", R"({"type":"object"})"}};
  add(std::move(route), &Devices::sendEvent);
}

void Devices::addRoutes(http::Router& router) {
  using http::Request;
  http::Route route =
      routeOf(Method::Post, "/api/v1/devices/pair", "pairDevice", "Ask to be paired", "");
  route.description = "An administrator approves it within ten minutes, or it expires.";
  route.handler = [this](Request& request) { return pair(request); };
  route.body = {
      {"", R"({"type":"object","properties":{"name":{"type":"string"},"public_info":{}}})"}};
  route.answers = {{201, "`device_id`, `pairing_code` and `expires_at`.", R"({"type":"object"})"}};
  route.errors = {Code::RateLimited, Code::QuotaExceeded};
  router.add(std::move(route));

  route = routeOf(Method::Get, "/api/v1/devices/pair/{device_id}", "showPairing",
                  "How a pairing stands", "");
  route.description =
      "`pending`, `approved`, `rejected` or `expired`. The first answer that is `approved` has the "
      "device's `token`; there is no second. After five wrong codes none is right.";
  route.handler = [this](Request& request) { return pairing(request); };
  route.query = {{"code", "The pairing code."}};
  route.answers = {{200, "The status.", R"({"type":"object"})"}};
  route.errors = {Code::NotFound, Code::Forbidden, Code::Conflict};
  router.add(std::move(route));

  addAdministration(router);

  route = routeOf(Method::Get, "/api/v1/events/poll", "pollEvents",
                  "Events for the device that asks", std::string(kDeviceScope));
  route.description =
      "At least once, in order, from any server. Without `since` it begins with the oldest that "
      "was "
      "not acknowledged; `ack` acknowledges that event and all before it. Kept are the newest "
      "1000, "
      "for 24 h; what a device did not fetch in time is counted in `dropped`.";
  route.handler = [this](Request& request) { return poll(request); };
  route.query = {{"since", "A `cursor` or the id of an event.", R"({"type":"integer"})"},
                 {"ack", "A `cursor` or the id of an event.", R"({"type":"integer"})"},
                 {"wait_ms", "Wait so long for one, at most 60000.", R"({"type":"integer"})"},
                 {"limit", "", R"({"type":"integer"})"}};
  route.answers = {{200, "`events`, `cursor` and `dropped`.", R"({"type":"object"})"}};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
