"""Random operations, by functions in Python, JavaScript and C++ and over HTTP, against one model."""

import json
import os
import random
import urllib.parse

import pytest

from state_model import MAX_KEYS, MAX_VALUE, Refused, Space, random_operation, text_of

CODE = {
    "python": """
from nimbus import StateError
def handle(event, state):
    scopes = {"session": state, "function": state.function(), "invocation": state.invocation()}
    answers = []
    for scope, operation, arguments in event["operations"]:
        if operation == "set_with_version" and arguments[2] is None: arguments = arguments[:2]
        try:
            answer = getattr(scopes[scope], operation)(*arguments)
            answers.append([answer if operation not in ("expire", "persist", "clear", "set_many") else None])
        except StateError as error:
            answers.append({"code": error.code, "current_version": getattr(error, "current_version", None)})
    if event["fails"]:
        raise ValueError(__import__("json").dumps(answers))
    return answers
""",
    "node": """
exports.handle = async (event, state) => {
  const scopes = { session: state, function: state.function(), invocation: state.invocation() };
  const answers = [];
  for (const [scope, operation, given] of event.operations) {
    const args = operation === 'set_with_version' && given[2] === null ? given.slice(0, 2) : given;
    try {
      let answer = await scopes[scope][operation](...args);
      if (operation === 'get_with_version') answer = [answer.value, answer.version];
      answers.push([['expire', 'persist', 'clear', 'set_many'].includes(operation) ? null : answer]);
    } catch (error) {
      if (!error.code) throw error;
      answers.push({ code: error.code, current_version: error.current_version ?? null });
    }
  }
  if (event.fails) throw new Error(JSON.stringify(answers));
  return answers;
};
""",
    "native": """
#include <nimbus/function.h>
using nimbus::Json;

static Json carryOut(nimbus::State& state, const std::string& operation, const Json& given) {
  if (operation == "clear") return state.clear(), Json();
  if (operation == "keys") {
    const auto keys = state.keys(given[0].asString());
    return Json(Json::Array(keys.begin(), keys.end()));
  }
  if (operation == "get_many") {
    std::vector<std::string_view> keys;
    for (const Json& key : given[0].elements()) keys.push_back(key.asString());
    return state.getMany(keys);
  }
  if (operation == "set_many") return state.setMany(given[0].members()), Json();
  const std::string& key = given[0].asString();
  if (operation == "get") return state.get(key);
  if (operation == "get_with_version") {
    const auto [value, version] = state.getWithVersion(key);
    return Json::array({value, version});
  }
  if (operation == "set") return state.set(key, given[1]), true;
  if (operation == "set_with_version") {
    if (given[2].isNull()) return state.setWithVersion(key, given[1]);
    return state.setWithVersion(key, given[1], given[2].asInt());
  }
  if (operation == "delete") return state.remove(key);
  if (operation == "incr") return state.incr(key, given[1].asInt());
  if (operation == "decr") return state.decr(key, given[1].asInt());
  if (operation == "exists") return state.exists(key);
  if (operation == "expire") return state.expire(key, given[1].asDouble()), Json();
  if (operation == "persist") return state.persist(key), Json();
  throw std::logic_error("there is no operation " + operation);
}

Json handle(const Json& event, nimbus::State& session) {
  Json answers = Json::array();
  for (const Json& one : event["operations"].elements()) {
    const std::string& scope = one[0].asString();
    nimbus::State state = scope == "session" ? session : scope == "function" ? session.function() : session.invocation();
    try {
      answers.append(Json::array({carryOut(state, one[1].asString(), one[2])}));
    } catch (const nimbus::StateError& error) {
      const auto version = error.currentVersion();
      answers.append(Json::object({{"code", error.code()}, {"current_version", version ? Json(*version) : Json()}}));
    }
  }
  if (event["fails"].asBool()) throw std::runtime_error(answers.text());
  return answers;
}
""",
}


def expected(spaces, operations):
    answers = []
    for scope, operation, arguments in operations:
        try:
            answers.append([spaces[scope].apply(operation, arguments)])
        except Refused as refused:
            answers.append({"code": refused.code, "current_version": refused.current_version})
    return answers


@pytest.fixture(scope="module")
def seed():
    chosen = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={chosen}")
    return chosen


def settings():
    return {"state_config": {"max_keys": MAX_KEYS, "max_state_size": MAX_VALUE}}


@pytest.mark.parametrize("runtime", ["python", "node", "native"])
def test_functions_see_what_the_model_says(server, seed, runtime):
    rng = random.Random(seed)
    name = f"model-{runtime}"
    server.deploy(name, CODE[runtime], runtime=runtime, **settings())
    function, sessions = Space(), {f"s{n}": Space() for n in range(3)}
    for _ in range(150):
        session = rng.choice(list(sessions))
        operations = [(rng.choice(["session"] * 4 + ["function", "invocation"]), *random_operation(rng))
                      for _ in range(rng.randrange(1, 9))]
        fails = rng.random() < 0.15
        sessions[session].begin()
        wanted = expected({"session": sessions[session], "function": function, "invocation": Space()}, operations)
        answer = server.invoke(name, {"operations": operations, "fails": fails}, session=session)
        got = json.loads(answer.json["error"]["message"]) if fails else answer.json["body"]
        assert answer.status == (500 if fails else 200)
        assert got == wanted, f"NIMBUS_SEED={seed}: {operations}"
        if fails:
            sessions[session].roll_back()
        else:
            sessions[session].end()
        look_at(server, f"/functions/{name}/state/{session}", sessions[session], seed)
    look_at(server, f"/functions/{name}/function-state", function, seed)


def look_at(server, path, space, seed):
    listed = server.api("GET", path).json
    seen = {one["key"]: (one["version"], one["size"]) for one in listed["keys"]}
    wanted = {key: (version, len(text_of(value).encode())) for key, (value, version) in space.entries.items()}
    assert seen == wanted, f"NIMBUS_SEED={seed}"
    assert listed["total_size"] == sum(size for _, size in wanted.values())


@pytest.mark.parametrize("place", ["state/s", "function-state"])
def test_administrators_see_what_the_model_says(server, seed, place):
    rng = random.Random(seed)
    name = f"model-http-{place.split('/')[0]}"
    server.deploy(name, "def handle(event): pass\n", **settings())
    server.invoke(name, session="s")
    base = f"/functions/{name}/{place}"
    space = Space()
    for _ in range(150):
        operation, arguments = random_operation(rng)
        path = base + "/" + urllib.parse.quote(str(arguments[0]) if arguments else "", safe="")
        answer, wanted = None, None
        try:
            if operation == "get":
                answer = server.api("GET", path)
            elif operation == "set":
                answer = server.api("PUT", path, text_of(arguments[1]))
            elif operation == "set_with_version":
                version = arguments[2]
                conditions = {} if version is None else {"If_None_Match": "*"} if version == 0 else {"If_Match": f'"{version}"'}
                answer = server.api("PUT", path, text_of(arguments[1]), **conditions)
            elif operation == "incr":
                answer = server.api("POST", path + "/incr", {"delta": arguments[1]})
            elif operation == "delete":
                answer = server.api("DELETE", f"{base}?key={urllib.parse.quote(arguments[0], safe='')}")
            elif operation == "clear":
                answer = server.api("DELETE", base)
            else:
                continue
            wanted = space.apply(operation, arguments)
        except Refused as refused:
            assert answer.json["code"] == refused.code, f"NIMBUS_SEED={seed}: {operation} {arguments}: {answer.text}"
            if refused.current_version is not None:
                assert answer.json["current_version"] == refused.current_version
            continue
        context = f"NIMBUS_SEED={seed}: {operation} {arguments}: {answer.status} {answer.text}"
        if operation == "get":
            found = arguments[0] in space.entries
            assert answer.status == (200 if found else 404), context
            assert not found or answer.text == text_of(wanted), context
        elif operation in ("set", "set_with_version"):
            assert answer.json["version"] == space.entries[arguments[0]][1], context
        elif operation == "incr":
            assert answer.json == {"value": wanted, "version": space.entries[arguments[0]][1]}, context
        elif operation == "delete":
            assert answer.status == (204 if wanted else 404), context
        else:
            assert answer.status == 204, context
    look_at(server, base, space, seed)
