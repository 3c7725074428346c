"""Sessions that are paused, drained, carried to another server, and dealt with by a prefix."""

import json
import threading
import time

import pytest

from harness import Server

CODE = """
import time
def handle(event, state, context):
    event = event or {}
    if event.get("sleep_ms"): time.sleep(event["sleep_ms"] / 1000)
    state.set("done", state.get("done", []) + [event.get("name")], ttl=-1)
    return len(state.get("done"))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("control")) as server:
        server.deploy("list", CODE)
        yield server


def control(server, session, verb):
    return server.api("POST", f"/functions/list/sessions/{session}/{verb}")


def shown(server, session):
    return server.api("GET", f"/functions/list/sessions/{session}").json


def until(is_so, patience=30):
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.01)


def test_a_paused_session_starts_nothing_until_it_is_resumed_also_after_a_restart(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("list", CODE)
        server.invoke("list", {"name": "a"}, session="s")
        paused = control(server, "s", "pause")
        assert (paused.status, paused.json["status"]) == (200, "paused")
        later = server.invoke("list", {"name": "b"}, session="s", mode="async")
        assert later.json["session_seq"] == 2
        assert shown(server, "s")["status"] == "paused" and shown(server, "s")["queue_length"] == 1
        assert server.stop()[0] == 0
    with Server(tmp_path) as server:
        until(lambda: shown(server, "s")["status"] == "paused")
        answers = []
        waits = threading.Thread(target=lambda: answers.append(server.invoke("list", {"name": "c"}, session="s")))
        waits.start()
        until(lambda: shown(server, "s")["queue_length"] == 2)
        assert server.invoke("list", None, session="s", busy="reject").status == 409
        assert server.api("GET", f"/invocations/{later.json['request_id']}").json["status"] == "queued"
        assert control(server, "s", "resume").json["paused"] is False
        waits.join()
        assert answers[0].json["body"] == 3
        assert server.api("GET", "/functions/list/state/s/done").json == ["a", "b", "c"]


def test_a_drained_session_is_empty_and_takes_nothing_until_it_is_resumed(server):
    first = server.invoke("list", {"name": "a", "sleep_ms": 300}, session="drain", mode="async")
    server.invoke("list", {"name": "b"}, session="drain", mode="async")
    assert first.status == 202
    assert control(server, "drain", "drain").json["queue_length"] == 0
    assert server.api("GET", "/functions/list/state/drain/done").json == ["a", "b"]
    for query in ({}, {"mode": "async"}):
        refused = server.invoke("list", {"name": "c"}, session="drain", **query)
        assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert control(server, "drain", "resume").status == 200
    assert server.invoke("list", {"name": "d"}, session="drain").json["body"] == 3


def test_verbs_need_a_session(server):
    for verb in ("pause", "resume", "drain"):
        assert control(server, "nobody", verb).status == 404
    assert server.api("GET", "/functions/list/sessions/nobody/export").status == 404


def test_a_session_is_carried_with_its_state_numbers_and_queue(server, tmp_path):
    server.invoke("list", {"name": "a"}, session="move")
    server.api("PUT", "/functions/list/state/move/raw", '{"big": 12345678901234567890, "e": [ ]}')
    control(server, "move", "pause")
    server.invoke("list", {"name": "b"}, session="move", mode="async")
    exported = server.api("GET", "/functions/list/sessions/move/export")
    assert exported.status == 200
    document = json.loads(exported.text)

    conflict = server.api("POST", "/functions/list/sessions:import", document)
    assert (conflict.status, conflict.json["code"]) == (409, "conflict")
    changed = json.loads(exported.text)
    changed["state"][0]["value"] = '["x"]'
    assert server.api("POST", "/functions/list/sessions:import", changed).status == 422
    assert server.api("POST", "/functions/list/sessions:import", {"format": "other"}).status == 400

    with Server(tmp_path) as other:
        other.deploy("list", CODE)
        imported = other.api("POST", "/functions/list/sessions:import", document)
        assert imported.status == 201, imported.text
        assert imported.json == {"session_key": "move", "state_keys": 2, "queue_length": 1, "events": 0}
        until(lambda: other.api("GET", "/functions/list/state/move/done").json == ["a", "b"])
        raw = other.api("GET", "/functions/list/state/move/raw")
        assert raw.text == '{"big": 12345678901234567890, "e": [ ]}'
        assert raw.headers["ETag"] == server.api("GET", "/functions/list/state/move/raw").headers["ETag"]
        assert int(other.invoke("list", None, session="move").headers["Nimbus-Session-Seq"]) >= 4


NOTES = """
from nimbus import events
def handle(event, state):
    for n in range(event.get("count", 0)):
        events.append(id=f"{event['name']}{n}", request_id=event["name"], author="f", content={"n": n, "text": event.get("text", "")})
    state.set("name", event["name"], ttl=-1)
    return [e["id"] for e in events.recent(1000)]
"""


def test_a_session_is_carried_with_its_event_log(server, tmp_path):
    server.deploy("notes", NOTES)
    log = "/apps/notes/users/_/sessions/talk"
    server.invoke("notes", {"name": "a", "count": 300, "text": "x" * 8000}, session="talk")
    assert server.api("DELETE", log + "/events/a0").status == 204  # so seqs are not those of a new log
    assert server.api("PATCH", log + "/state", {"mood": "good"}).status == 200
    assert server.api("POST", log + "/tracks/side/events", {"id": "s1", "content": 1}).status == 201
    assert server.api("PUT", log + "/tracks/side", {"max_events": 50}).status == 200
    assert server.api("PUT", log + "/summary", {"text": "much", "last_event_id": "a299"}).status == 200
    exported = server.api("GET", "/functions/notes/sessions/talk/export")
    assert exported.status == 200 and len(exported.body) > 2 * 1024 * 1024
    changed = json.loads(exported.text)
    changed["event_log"]["events"][5]["event"] += " "
    assert server.api("POST", "/functions/notes/sessions:import?session_key=other", changed).status == 422

    def events_of(one, path):
        listed = one.api("GET", path + "/events?limit=1000").json["items"]
        return [{k: v for k, v in event.items() if k not in ("seq", "version")} for event in listed]

    with Server(tmp_path) as other:
        other.deploy("notes", NOTES)
        imported = other.api("POST", "/functions/notes/sessions:import", exported.text)
        assert imported.status == 201, imported.text
        assert imported.json == {"session_key": "talk", "state_keys": 1, "queue_length": 0, "events": 299}
        assert events_of(other, log) == events_of(server, log)
        assert events_of(other, log + "/tracks/side") == events_of(server, log + "/tracks/side")
        shown = other.api("GET", log).json
        assert shown["state"] == {"mood": "good"} and shown["event_count"] == 299
        assert shown["created_at"] == server.api("GET", log).json["created_at"]
        assert other.api("GET", log + "/tracks/side").json["max_events"] == 50
        summary = other.api("GET", log + "/summary").json
        assert (summary["text"], summary["last_event_id"], summary["last_seq"]) == ("much", "a299", 299)
        assert other.api("GET", log + "/check").json["issues"] == []
        assert [s["id"] for s in other.api("GET", "/apps/notes/sessions").json["items"]] == ["talk"]
        # A repetition is known as one, and what is new goes on behind.
        again = other.invoke("notes", {"name": "a", "count": 300, "text": "x" * 8000}, session="talk")
        assert again.json["body"][-1] == "a299", again.json
        assert other.invoke("notes", {"name": "b", "count": 1}, session="talk").status == 200
        assert other.api("GET", log + "/events?author=f&order=desc&limit=1").json["items"][0]["id"] == "b0"
        assert other.api("POST", "/functions/notes/sessions:import", exported.text).status == 409
        # A log without its session is in the way, too: nothing of it is lost.
        assert other.api("POST", "/apps/notes/users/_/sessions", {"id": "log-only"}).status == 201
        assert other.api("POST", "/functions/notes/sessions:import?session_key=log-only", exported.text).status == 409
        assert other.api("GET", "/functions/notes/sessions/log-only").status == 404
        assert other.api("DELETE", "/apps/notes/users/_/sessions/log-only").status == 204
        assert other.api("POST", "/functions/notes/sessions:import?session_key=log-only", exported.text).status == 201


def test_verbs_for_all_sessions_of_a_prefix(server):
    for n in range(5):
        server.invoke("list", None, session=f"bulk:{n}")
    server.invoke("list", None, session="other")
    dry = server.api("POST", "/functions/list/sessions:pause", {"prefix": "bulk:", "dry_run": True}).json
    assert dry == {"matched": 5, "changed": 0, "failed": 0, "dry_run": True, "keys": [f"bulk:{n}" for n in range(5)]}
    assert shown(server, "bulk:1")["status"] == "idle"
    done = server.api("POST", "/functions/list/sessions:pause", {"prefix": "bulk:"}).json
    assert (done["matched"], done["changed"], done["failed"]) == (5, 5, 0)
    assert {shown(server, f"bulk:{n}")["status"] for n in range(5)} == {"paused"}
    assert server.api("POST", "/functions/list/sessions:resume", {"prefix": "bulk:"}).json["changed"] == 5
    assert server.api("POST", "/functions/list/sessions:drain", {"prefix": "bulk:"}).json["changed"] == 5
    assert server.api("POST", "/functions/list/sessions:delete", {"prefix": "bulk:"}).json["changed"] == 5
    assert server.api("GET", "/functions/list/sessions/bulk:1").status == 404
    assert shown(server, "other")["status"] == "idle"
    for body in ({}, {"prefix": 5}, {"prefix": "x", "odd": 1}):
        refused = server.api("POST", "/functions/list/sessions:delete", body)
        assert (refused.status, refused.json["code"]) == (400, "invalid_argument")
