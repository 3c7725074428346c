"""Events that functions append to their sessions' logs, in each language."""

import threading

import pytest

from harness import PATIENCE, Server

CODE = {
    "python": """
from nimbus import events
def handle(event, state):
    state.incr("calls")
    before = [e["content"] for e in events.recent(event.get("n", 10))]
    for content in event.get("append", []):
        events.append(content=content, **event.get("members", {}))
    if event.get("mapping"): events.append(event["mapping"])
    after = [e["content"] for e in events.recent(event.get("n", 10))]
    if event.get("fail"): raise ValueError("no")
    return {"before": before, "after": after}
""",
    "node": """
const { events } = require('nimbus-state');
exports.handle = async (event, state) => {
  await state.incr("calls");
  const n = event.n || 10;
  const before = (await events.recent(n)).map((e) => e.content);
  for (const content of event.append || []) await events.append({ content, ...event.members });
  if (event.mapping) await events.append(event.mapping);
  const after = (await events.recent(n)).map((e) => e.content);
  if (event.fail) throw new Error("no");
  return { before, after };
};
""",
    "native": """
#include <nimbus/function.h>
using nimbus::Json;
Json contents(const nimbus::Events& events, std::int64_t n) {
  Json::Array all;
  const Json recent = events.recent(n);
  for (const Json& event : recent.elements()) all.push_back(event["content"]);
  return Json(std::move(all));
}
Json handle(const Json& event, nimbus::State& state) {
  const nimbus::Events events(state);
  state.incr("calls");
  const std::int64_t n = event["n"].asInt(10);
  Json::Object answer;
  answer.emplace_back("before", contents(events, n));
  if (event.find("append") != nullptr) {
    for (const Json& content : event["append"].elements()) {
      Json::Object whole;
      whole.emplace_back("content", content);
      if (const Json* members = event.find("members")) {
        for (const auto& [name, value] : members->members()) whole.emplace_back(name, value);
      }
      events.append(Json(std::move(whole)));
    }
  }
  if (const Json* mapping = event.find("mapping")) events.append(*mapping);
  answer.emplace_back("after", contents(events, n));
  if (event.find("fail") != nullptr) throw std::runtime_error("no");
  return Json(std::move(answer));
}
""",
}
RUNTIMES = ["python", "node", "native"]


@pytest.fixture(scope="module")
def deployed(server):
    for runtime in RUNTIMES:
        server.deploy(f"talk-{runtime}", CODE[runtime], runtime=runtime)
    return server


def log_of(server, function, session, query=""):
    answer = server.api("GET", f"/apps/{function}/users/_/sessions/{session}/events{query}")
    assert answer.status == 200, answer.text
    return answer.json["items"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_a_call_appends_is_committed_with_it(deployed, runtime):
    server, function = deployed, f"talk-{runtime}"
    first = server.invoke(function, {"append": ["hi", {"a": []}], "members": {"request_id": "r1"}}, session="s1")
    assert first.status == 200, first.text
    assert first.json["body"] == {"before": [], "after": ["hi", {"a": []}]}
    second = server.invoke(function, {"append": ["more"], "n": 2}, session="s1")
    assert second.json["body"] == {"before": ["hi", {"a": []}], "after": [{"a": []}, "more"]}
    log = log_of(server, function, "s1")
    assert [(e["seq"], e["content"]) for e in log] == [(1, "hi"), (2, {"a": []}), (3, "more")]
    assert [e["seq"] for e in log_of(server, function, "s1", "?request_id=r1")] == [1, 2]
    path = f"/apps/{function}/users/_/sessions/s1"
    assert server.api("GET", path).json["event_count"] == 3
    assert server.api("GET", path + "/check").json == {"issues": []}
    assert "s1" in [s["id"] for s in server.api("GET", f"/apps/{function}/sessions").json["items"]]
    # The log is one: over HTTP events can be added, and the function sees them.
    assert server.api("POST", path + "/events", {"content": "http"}).json["seq"] == 4
    assert server.invoke(function, {"n": 1}, session="s1").json["body"]["before"] == ["http"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_call_that_fails_appends_nothing(deployed, runtime):
    server, function = deployed, f"talk-{runtime}"
    assert server.invoke(function, {"append": ["kept"]}, session="s2").status == 200
    assert server.invoke(function, {"append": ["lost"], "fail": True}, session="s2").status == 500
    assert server.invoke(function, {}, session="s2").json["body"]["before"] == ["kept"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_events_that_make_no_sense_are_the_functions_error(deployed, runtime):
    server, function = deployed, f"talk-{runtime}"
    for mapping in ({"author": "x"}, {"content": 1, "id": "stream"}, {"content": 1, "timestamp": "x"}):
        answer = server.invoke(function, {"mapping": mapping}, session="s3")
        assert answer.status == 500, answer.text
        assert answer.json["code"] == "function_error"
    assert server.invoke(function, {"n": 2000}, session="s3").status == 500
    assert server.invoke(function, {"append": [1]}).status == 500, "a stateless call has no log"
    state = server.api("GET", f"/functions/{function}/state/s3")
    assert state.status == 404 or state.json["keys"] == []


def test_ids_and_deltas_hold_for_functions_too(deployed):
    server, function = deployed, "talk-python"
    mapping = {"id": "e1", "content": 1, "state_delta": {"a": 1, "app:b": 2, "user:c": 3}}
    assert server.invoke(function, {"mapping": mapping}, session="s4").status == 200
    path = f"/apps/{function}/users/_"
    assert server.api("GET", path + "/sessions/s4").json["state"] == {"a": 1}
    assert server.api("GET", f"/apps/{function}/state").json == {"b": 2}
    assert server.api("GET", path + "/state").json == {"c": 3}
    assert server.invoke(function, {"mapping": mapping}, session="s4").status == 200
    assert server.invoke(function, {"mapping": {**mapping, "content": 2}}, session="s4").status == 500
    assert [e["id"] for e in log_of(server, function, "s4")] == ["e1"]


def test_eviction_holds_for_functions_too(server):
    server.deploy("evicting", CODE["python"])
    server.api("PUT", "/apps/evicting", {"max_events_per_session": 4, "eviction_batch_size": 2})
    for i in range(8):
        body = {"append": [i], "members": {"request_id": f"r{i}"}}
        assert server.invoke("evicting", body, session="s").status == 200
    assert [e["content"] for e in log_of(server, "evicting", "s")] == [6, 7]
    assert server.api("GET", "/apps/evicting/users/_/sessions/s").json["evicted_count"] == 6


def test_deleting_the_functions_session_deletes_its_log(deployed):
    server = deployed
    server.invoke("talk-python", {"append": ["x"]}, session="gone")
    assert server.api("DELETE", "/functions/talk-python/sessions/gone").status == 204
    assert server.api("GET", "/apps/talk-python/users/_/sessions/gone").status == 404
    server.invoke("talk-python", {"append": ["y"]}, session="gone")
    assert [e["seq"] for e in log_of(server, "talk-python", "gone")] == [1]
    assert server.api("DELETE", "/apps/talk-python/users/_/sessions/gone").status == 204
    assert server.invoke("talk-python", {}, session="gone").json["body"]["before"] == []
    state = server.api("GET", "/functions/talk-python/state/gone").json
    assert [key["key"] for key in state["keys"]] == ["calls"], "the function's own state stays"


def test_many_calls_of_one_session_append_in_order(deployed):
    server = deployed
    def call(i):
        assert server.invoke("talk-python", {"append": [i]}, session="busy").status == 200
    threads = [threading.Thread(target=call, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for i in range(5):
        server.api("POST", "/apps/talk-python/users/_/sessions/busy/events", {"content": f"http{i}"})
    for thread in threads:
        thread.join(PATIENCE)
    log = log_of(server, "talk-python", "busy")
    assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
    assert sorted(e["content"] for e in log if isinstance(e["content"], int)) == list(range(12))


def test_a_log_survives_the_server(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("talk", CODE["python"])
        assert server.invoke("talk", {"append": ["one"]}, session="s").status == 200
        server.process.kill()
        server.wait()
    with Server(tmp_path) as server:
        assert server.invoke("talk", {"append": ["two"]}, session="s").json["body"]["after"] == ["one", "two"]
