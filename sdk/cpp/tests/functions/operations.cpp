// Carries out the operations an event lists, [name, argument, ...] with `scope.` before the name
// where it is not session scope, and answers what each of them did: ["ok", value] or
// [code, current_version]. An argument of the wrong kind, which C++ would not compile, is
// invalid_argument.

#include <nimbus/function.h>

#include <ctime>

using nimbus::Json;
using nimbus::State;

namespace {

void wait(std::int64_t milliseconds) {
  const std::int64_t end = nimbus::native::monotonicNanos() + milliseconds * 1'000'000;
  while (nimbus::native::monotonicNanos() <= end) {
  }
}

State scopeOf(const State& state, std::string_view scope) {
  if (scope == "function") return state.function();
  if (scope == "invocation") return state.invocation();
  return state.session();
}

Json carryOut(State& state, std::string_view name, const Json& operation) {
  const auto has = [&](std::size_t i) { return i < operation.size(); };
  const auto ttl = [&](std::size_t i) { return has(i) ? operation[i].asDouble() : 0.0; };
  const auto delta = [&] { return has(2) ? operation[2].asInt() : 1; };
  const auto key = [&]() -> const std::string& { return operation[1].asString(); };
  if (name == "wait") {
    wait(operation[1].asInt());
    return nullptr;
  }
  if (name == "clear") return state.clear();
  if (name == "keys") {
    const auto keys = has(1) ? state.keys(operation[1].asString()) : state.keys();
    return Json(Json::Array(keys.begin(), keys.end()));
  }
  if (name == "get_many") {
    std::vector<std::string_view> keys;
    for (const Json& one : operation[1].elements()) keys.push_back(one.asString());
    return state.getMany(keys);
  }
  if (name == "set_many") {
    state.setMany(operation[1].members(), ttl(2));
    return true;
  }
  if (name == "get") return has(2) ? state.get(key(), operation[2]) : state.get(key());
  if (name == "get_with_version") {
    const nimbus::Versioned found = state.getWithVersion(key());
    return Json::array({found.value, found.version});
  }
  if (name == "set") {
    state.set(key(), operation[2], ttl(3));
    return true;
  }
  if (name == "set_with_version") {
    std::optional<std::int64_t> version;
    if (has(3) && !operation[3].isNull()) version = operation[3].asInt();
    return state.setWithVersion(key(), operation[2], version, ttl(4));
  }
  if (name == "incr") return state.incr(key(), delta());
  if (name == "decr") return state.decr(key(), delta());
  if (name == "delete") return state.remove(key());
  if (name == "exists") return state.exists(key());
  if (name == "ttl") return state.ttl(key());
  if (name == "expire") {
    state.expire(key(), operation[2].asDouble());
    return true;
  }
  if (name == "persist") {
    state.persist(key());
    return true;
  }
  throw std::logic_error("there is no such operation");
}

Json outcomeOf(const State& state, const Json& operation) {
  const std::string& name = operation[0].asString();
  const std::size_t dot = name.find('.');
  State scope = scopeOf(state, name.substr(0, dot == std::string::npos ? 0 : dot));
  try {
    return Json::array({"ok", carryOut(scope, name.substr(dot + 1), operation)});
  } catch (const nimbus::StateError& error) {
    Json version;
    if (error.currentVersion()) version = *error.currentVersion();
    return Json::array({error.code(), version});
  } catch (const nimbus::JsonError&) {
    return Json::array({"invalid_argument", nullptr});
  }
}

Json handle(const Json& event, State& state) {
  Json outcomes = Json::array();
  for (const Json& operation : event.elements()) outcomes.append(outcomeOf(state, operation));
  return outcomes;
}

}  // namespace

NIMBUS_FUNCTION(handle);
