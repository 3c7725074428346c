"""The session event log over HTTP: every route and error of the contract."""

import json
import contextlib
import sqlite3
import statistics
import threading
import time
import uuid

import pytest
from urllib.parse import quote

from harness import PATIENCE, Server
from redis_server import Redis


class Session:
    """One session, and how to talk about it."""

    def __init__(self, server, app=None, user="ann", session=None, **body):
        self.server = server
        self.app = app or "app-" + uuid.uuid4().hex[:8]
        self.user_path = f"/apps/{self.app}/users/{quote(user, safe='')}"
        if session is not None:
            body["id"] = session
        made = server.api("POST", self.user_path + "/sessions", body)
        assert made.status == 201, made.text
        self.made = made.json
        self.path = f"{self.user_path}/sessions/{quote(self.made['id'], safe='')}"

    def api(self, method, path="", body=None, **headers):
        return self.server.api(method, self.path + path, body, **headers)

    def append(self, content=None, **event):
        event.setdefault("content", content)
        answer = self.api("POST", "/events", event)
        assert answer.status == 201, answer.text
        return answer.json

    def items(self, query="", track=None):
        base = f"/tracks/{track}/events" if track else "/events"
        answer = self.api("GET", base + query)
        assert answer.status == 200, answer.text
        return answer.json["items"]

    def ids(self, query=""):
        return [event["id"] for event in self.items(query)]

    def get(self, query=""):
        answer = self.api("GET", query)
        assert answer.status == 200, answer.text
        return answer.json


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def server(request, tmp_path_factory):
    """One server for all tests here, on each store."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with Server(directory) as running:
            yield running
    else:
        with Redis(directory / "redis") as redis, Server(directory, "--store", redis.url) as running:
            yield running


@pytest.fixture
def session(server):
    return Session(server)


def problem(answer, status, code):
    assert answer.status == status, answer.text
    assert answer.json["code"] == code, answer.text
    return answer.json


# ---- sessions


def test_a_session_is_made_shown_and_removed(server):
    session = Session(server, session="s/1:{x}*", title="Trip", state={"a": 1, "temp:t": 2})
    for key in ("id", "app_name", "user_id", "state", "created_at", "updated_at", "event_count", "generation"):
        assert key in session.made
    assert session.made["id"] == "s/1:{x}*"
    assert session.made["state"] == {"a": 1}
    assert session.made["title"] == "Trip"
    assert session.get()["event_count"] == 0
    problem(server.api("POST", session.user_path + "/sessions", {"id": "s/1:{x}*"}), 409, "conflict")
    session.append(1)
    assert session.api("DELETE").status == 204
    problem(session.api("GET"), 404, "not_found")
    problem(session.api("DELETE"), 404, "not_found")
    problem(session.api("POST", "/events", {"content": 1}), 404, "not_found")


def test_an_id_is_made_if_none_is_given(server):
    answer = server.api("POST", "/apps/a1/users/u/sessions")
    assert answer.status == 201
    assert answer.json["id"]


@pytest.mark.parametrize("body", ["[]", '{"id":""}', '{"id":7}', '{"id":"%s"}' % ("x" * 257), '{"state":[]}',
                                  '{"title":1}', '{"color":"red"}'])
def test_a_session_that_makes_no_sense_is_refused(server, body):
    problem(server.api("POST", "/apps/a1/users/u/sessions", body), 400, "invalid_argument")


def test_names_that_look_alike_are_different_sessions(server):
    one = Session(server, app="p", user="b:c", session="d")
    two = Session(server, app="p", user="b", session="c:d")
    one.append("one")
    assert two.get()["event_count"] == 0
    problem(server.api("GET", "/apps/p!/users/u/sessions"), 400, "invalid_argument")


def test_a_session_made_again_has_another_generation_and_no_events(server):
    session = Session(server, session="again")
    session.append(1)
    session.api("DELETE")
    again = Session(server, app=session.app, session="again")
    assert again.made["generation"] != session.made["generation"]
    assert again.get()["event_count"] == 0
    assert again.append(1)["seq"] == 1
    stale = again.api("POST", "/events", {"content": 1},
                      **{"Nimbus-Session-Generation": str(session.made["generation"])})
    problem(stale, 412, "version_conflict")


def test_sessions_are_listed_newest_changed_first(server):
    app = "list-app"
    sessions = [Session(server, app=app, user="u", session=f"s{i}") for i in range(5)]
    other = Session(server, app=app, user="v", session="other")
    sessions[1].append(1)
    sessions[3].api("PATCH", "/state", {"k": 1})
    def listed(path, query=""):
        answer = server.api("GET", path + query)
        assert answer.status == 200, answer.text
        return answer.json
    def ids(path, query=""):
        return [item["id"] for item in listed(path, query)["items"]]
    assert ids(f"/apps/{app}/users/u/sessions") == ["s3", "s1", "s4", "s2", "s0"]
    assert ids(f"/apps/{app}/sessions") == ["s3", "s1", "other", "s4", "s2", "s0"]
    page = listed(f"/apps/{app}/sessions", "?limit=4")
    rest = listed(f"/apps/{app}/sessions", f"?limit=4&cursor={page['next_cursor']}")
    assert [item["id"] for item in page["items"] + rest["items"]] == ids(f"/apps/{app}/sessions")
    assert rest["next_cursor"] is None
    other.api("DELETE")
    assert "other" not in ids(f"/apps/{app}/sessions")
    assert ids(f"/apps/{app}/users/nobody/sessions") == []
    problem(server.api("GET", f"/apps/{app}/sessions?limit=0"), 400, "invalid_argument")
    problem(server.api("GET", f"/apps/{app}/sessions?limit=1001"), 400, "invalid_argument")


def test_a_session_comes_with_its_newest_events(session):
    for i in range(5):
        session.append(i)
    assert [e["seq"] for e in session.get("?events=3")["events"]] == [3, 4, 5]
    assert session.get("?events=3")["partial"] is True
    assert [e["seq"] for e in session.get("?events=3&after=4")["events"]] == [5]
    assert [e["seq"] for e in session.get("?after=2")["events"]] == [3, 4, 5]
    assert "events" not in session.get()
    problem(session.api("GET", "?events=-1"), 400, "invalid_argument")


# ---- append


def test_events_are_numbered_without_gaps_whatever_their_times(session):
    first = session.append("a", timestamp="2030-01-01T00:00:00Z")
    second = session.append("b", timestamp="2020-01-01T00:00:00Z")
    assert (first["seq"], second["seq"]) == (1, 2)
    assert set(first) == {"id", "seq", "version", "session_updated_at", "evicted"}
    assert (first["version"], first["evicted"]) == (1, 0)
    assert [e["content"] for e in session.items()] == ["a", "b"]
    assert session.get()["updated_at"] == second["session_updated_at"]


def test_content_comes_back_byte_for_byte(session):
    content = '{"b":1, "a":[ ],"n":12345678901234567890123,"f":1.50E+3,"e":"\\u00fc\\/","o":{}}'
    made = session.api("POST", "/events", '{"author":"me","content":%s,"extra":{"x": 1}}' % content)
    text = session.api("GET", "/events/" + made.json["id"]).text
    assert f'"content":{content}' in text
    assert '"extra":{"x": 1}' in text
    assert f'"content":{content}' in session.api("GET", "/events").text


def test_many_are_appended_together_or_not_at_all(session):
    answer = session.api("POST", "/events", [{"id": f"e{i}", "content": i} for i in range(3)])
    assert answer.status == 201
    assert answer.json["items"] == [{"id": f"e{i}", "seq": i + 1, "version": 1} for i in range(3)]
    assert "session_updated_at" in answer.json
    again = session.api("POST", "/events", [{"id": f"e{i}", "content": i} for i in range(3)])
    assert (again.status, again.json) == (200, answer.json)
    mixed = session.api("POST", "/events", [{"id": "e1", "content": 1}, {"id": "new", "content": 1}])
    assert mixed.status == 201
    assert [item["seq"] for item in mixed.json["items"]] == [2, 4]
    clash = session.api("POST", "/events", [{"id": "fine", "content": 1}, {"id": "e2", "content": "other"}])
    problem(clash, 409, "conflict")
    assert session.ids() == ["e0", "e1", "e2", "new"]


@pytest.mark.parametrize("body", [
    "[]", "{}", "7", '{"content":1,"id":""}', '{"content":1,"id":"stream"}', '{"content":1,"author":3}',
    '{"content":1,"timestamp":"now"}', '{"content":1,"state_delta":1}', '[{"content":1},{"conten":1}]',
    '[{"id":"a","content":1},{"id":"a","content":1}]', '{"content":1,"request_id":"%s"}' % ("r" * 257),
    json.dumps([{"content": 1}] * 501),
])
def test_events_that_make_no_sense_are_refused(session, body):
    problem(session.api("POST", "/events", body), 400, "invalid_argument")
    assert session.get()["event_count"] == 0


def test_what_is_no_json_is_refused(session):
    problem(session.api("POST", "/events", "{"), 400, "invalid_json")
    problem(session.api("POST", "/events", '{"content":' + "[" * 64 + "]" * 64 + "}"), 400, "invalid_json")


def test_five_hundred_go_at_once(session):
    answer = session.api("POST", "/events", [{"content": i} for i in range(500)])
    assert [item["seq"] for item in answer.json["items"]] == list(range(1, 501))


def test_an_append_that_is_repeated_is_answered_as_the_first_time(session):
    body = {"id": "x", "content": {"a": 1}, "state_delta": {"n": 1}}
    first = session.api("POST", "/events", body)
    session.append(2, state_delta={"n": 2})
    again = session.api("POST", "/events", body)
    assert (first.status, again.status) == (201, 200)
    assert again.json == first.json
    assert session.get()["state"] == {"n": 2}, "the delta is not applied again"
    problem(session.api("POST", "/events", {**body, "content": 3}), 409, "conflict")
    assert session.get()["event_count"] == 2


def test_an_append_can_insist_on_the_last_seq(session):
    session.append(1)
    refused = session.api("POST", "/events", {"content": 2}, Nimbus_Expected_Seq="0")
    assert problem(refused, 412, "version_conflict")["last_seq"] == 1
    assert session.api("POST", "/events", {"content": 2, "id": "e"}, Nimbus_Expected_Seq="1").status == 201
    assert session.api("POST", "/events", {"content": 2, "id": "e"}, Nimbus_Expected_Seq="1").status == 200
    problem(session.api("POST", "/events", {"content": 2}, Nimbus_Expected_Seq="x"), 400, "invalid_argument")


def test_one_of_many_wins_an_expected_seq(session):
    statuses = []
    def append(i):
        statuses.append(session.api("POST", "/events", {"content": i}, Nimbus_Expected_Seq="0").status)
    threads = [threading.Thread(target=append, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(statuses) == [201] + [412] * 7


# ---- state


def test_a_delta_goes_where_its_prefix_says(session):
    session.append(1, state_delta={"a": 1, "app:b": [2], "user:c": "3", "temp:d": 4})
    assert session.get()["state"] == {"a": 1}
    server = session.server
    assert server.api("GET", f"/apps/{session.app}/state").json == {"b": [2]}
    assert server.api("GET", session.user_path + "/state").json == {"c": "3"}
    assert session.get("?merge_state=true")["state"] == {"a": 1, "app:b": [2], "user:c": "3"}
    session.append(2, state_delta={"a": None, "app:b": None})
    assert session.get()["state"] == {}
    assert server.api("GET", f"/apps/{session.app}/state").json == {}
    assert session.api("GET", "/check").json == {"issues": []}


def test_states_are_patched(session):
    server = session.server
    for path in (session.path, session.user_path, f"/apps/{session.app}"):
        assert server.api("PATCH", path + "/state", '{"n":10000000000000000000001,"x":[ ]}').status == 200
        assert server.api("PATCH", path + "/state", {"y": 1, "x": None}).json["y"] == 1
        assert server.api("GET", path + "/state").text == '{"n":10000000000000000000001,"y":1}'
        problem(server.api("PATCH", path + "/state", "[]"), 400, "invalid_argument")
    problem(session.api("PATCH", "/state", {"app:x": 1}), 400, "invalid_argument")
    many = {f"k{i}": 1 for i in range(1001)}
    problem(session.api("PATCH", "/state", many), 429, "quota_exceeded")
    problem(session.api("POST", "/events", {"content": 1, "state_delta": many}), 429, "quota_exceeded")
    app_many = {f"app:k{i}": 1 for i in range(1001)}
    problem(session.api("POST", "/events", {"content": 1, "state_delta": app_many}), 429, "quota_exceeded")
    assert session.get()["event_count"] == 0
    problem(server.api("GET", session.user_path + "/sessions/none/state"), 404, "not_found")


# ---- list


def test_events_are_paged_both_ways(session):
    session.api("POST", "/events", [{"id": f"e{i}", "content": i} for i in range(7)])
    for order, wanted in (("asc", list(range(1, 8))), ("desc", list(range(7, 0, -1)))):
        seen, cursor = [], ""
        while True:
            page = session.api("GET", f"/events?limit=3&order={order}{cursor}").json
            seen += [event["seq"] for event in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = "&cursor=" + page["next_cursor"]
        assert seen == wanted
    page = session.api("GET", "/events?limit=7").json
    assert page["next_cursor"] is None


def test_the_form_with_offset_and_limit(session):
    session.api("POST", "/events", [{"id": f"e{i}", "content": i} for i in range(7)])
    assert session.ids("?offset=2&limit=3") == ["e2", "e3", "e4"]
    assert session.ids("?offset=0&limit=2") == ["e0", "e1"]
    assert session.ids("?offset=9&limit=2") == []
    assert session.ids("?offset=1&limit=2&order=desc") == ["e5", "e4"]
    session.api("DELETE", "/events/e3")
    assert session.ids("?offset=2&limit=3") == ["e2", "e4", "e5"]
    assert session.ids("?offset=1&limit=3&order=desc") == ["e5", "e4", "e2"]
    for query in ("offset=-1", "limit=0", "limit=-1", "limit=1001", "limit=x", "order=up", "cursor=zz", "since=x"):
        problem(session.api("GET", "/events?" + query), 400, "invalid_argument")


def test_events_are_found_by_their_fields(session):
    for i in range(12):
        session.append(i, id=f"e{i}", request_id=f"r{i % 2}", invocation_id=f"i{i % 3}", author=f"a{i % 4}",
                       tag="t" if i == 5 else None, timestamp=f"2026-01-{i + 1:02}T00:00:00Z")
    assert session.ids("?request_id=r1") == ["e1", "e3", "e5", "e7", "e9", "e11"]
    assert session.ids("?request_id=r1&order=desc&limit=2") == ["e11", "e9"]
    assert session.ids("?invocation_id=i2") == ["e2", "e5", "e8", "e11"]
    assert session.ids("?author=a3&request_id=r1") == ["e3", "e7", "e11"]
    assert session.ids("?tag=t") == ["e5"]
    assert session.ids("?request_id=none") == []
    assert session.ids("?since=2026-01-03T00:00:00Z&until=2026-01-05T00:00:00Z") == ["e2", "e3", "e4"]
    assert session.ids("?since=2026-01-10T00:00:00Z&request_id=r1") == ["e9", "e11"]
    assert session.ids("?since=2026-01-11T01:00:00%2B01:00") == ["e10", "e11"]
    assert session.ids("?since=2026-01-11T01:00:00+01:00") == ["e10", "e11"]
    assert session.ids("?around=e5&limit=3") == ["e4", "e5", "e6"]
    assert session.ids("?around=e0&limit=3") == ["e0", "e1"]
    problem(session.api("GET", "/events?around=none"), 404, "not_found")
    page = session.api("GET", "/events?request_id=r0&limit=4").json
    rest = session.api("GET", f"/events?request_id=r0&limit=4&cursor={page['next_cursor']}").json
    assert [e["id"] for e in page["items"] + rest["items"]] == ["e0", "e2", "e4", "e6", "e8", "e10"]
    assert rest["next_cursor"] is None


def test_many_events_of_a_span_of_time_are_found_too(session):
    for _ in range(3):
        session.api("POST", "/events", [{"content": 1, "timestamp": "2026-01-01T00:00:00Z"}] * 500)
    session.append(1, id="late", timestamp="2026-02-01T00:00:00Z")
    session.append(1, id="early", timestamp="2025-02-01T00:00:00Z")
    assert len(session.items("?since=2026-01-01T00:00:00Z&limit=1000")) == 1000
    assert session.ids("?since=2026-01-15T00:00:00Z") == ["late"]
    assert session.ids("?until=2025-12-31T00:00:00Z") == ["early"]


# ---- one event


def test_an_event_is_shown_replaced_and_removed(session):
    session.append("a", id="e/1", request_id="r1")
    shown = session.api("GET", "/events/e%2F1")
    assert (shown.status, shown.headers["ETag"]) == (200, '"1"')
    assert shown.json["content"] == "a"
    stale = session.api("PUT", "/events/e%2F1", {"content": "b"}, If_Match='"2"')
    assert problem(stale, 412, "version_conflict")["current_version"] == 1
    body = {**shown.json, "content": "b", "request_id": "r2"}
    replaced = session.api("PUT", "/events/e%2F1", body, If_Match='"1"')
    assert (replaced.status, replaced.json["version"], replaced.headers["ETag"]) == (200, 2, '"2"')
    assert replaced.json["seq"] == 1
    assert session.ids("?request_id=r1") == []
    assert session.ids("?request_id=r2") == ["e/1"]
    again = session.api("GET", "/events/e%2F1").json
    assert (again["content"], again["timestamp"]) == ("b", shown.json["timestamp"])
    problem(session.api("PUT", "/events/e%2F1", {"content": 1, "id": "f"}), 400, "invalid_argument")
    problem(session.api("PUT", "/events/none", {"content": 1}), 404, "not_found")
    problem(session.api("DELETE", "/events/e%2F1", If_Match='"1"'), 412, "version_conflict")
    assert session.api("DELETE", "/events/e%2F1", If_Match='"2"').status == 204
    problem(session.api("DELETE", "/events/e%2F1"), 404, "not_found")
    problem(session.api("GET", "/events/e%2F1"), 404, "not_found")
    assert session.append(1)["seq"] == 2, "no seq is used twice"


# ---- trim, rewind, fork


def conversations(session, *requests):
    for i, request in enumerate(requests):
        session.append(i, id=f"e{i}", request_id=request)


def trim(session, count):
    answer = session.api("POST", "/events:trim", {"conversations": count})
    assert answer.status == 200, answer.text
    return [event["id"] for event in answer.json["items"]]


def test_trim_removes_the_newest_conversations_wherever_they_interleave(session):
    conversations(session, "r1", "r2", "r1", "r2", "r1")
    assert trim(session, 1) == ["e0", "e2", "e4"]
    assert session.ids() == ["e1", "e3"]
    assert session.append(1, request_id="r3")["seq"] == 6
    assert session.get()["event_count"] == 3


def test_events_without_a_request_belong_to_the_conversation_before_them(session):
    conversations(session, None, None, "r1", None, "r2", None, "r1", None)
    assert trim(session, 1) == ["e2", "e3", "e6", "e7"]
    assert session.ids() == ["e0", "e1", "e4", "e5"]
    assert trim(session, 5) == ["e4", "e5"]
    assert session.ids() == ["e0", "e1"], "what comes before all requests is not counted"
    assert trim(session, 1) == []


def test_a_long_conversation_is_trimmed_whole(session):
    session.api("POST", "/events", [{"content": i, "request_id": "keep"} for i in range(10)])
    for _ in range(4):
        session.api("POST", "/events", [{"content": i, "request_id": "go"} for i in range(300)])
    assert len(trim(session, 1)) == 1200
    assert session.get()["event_count"] == 10


@pytest.mark.parametrize("body", ['{"conversations":0}', '{"conversations":-1}', '{"conversations":1.5}', "{}"])
def test_a_trim_of_nothing_is_refused(session, body):
    problem(session.api("POST", "/events:trim", body), 400, "invalid_argument")


def test_rewind_keeps_the_named_event(session):
    conversations(session, "a", "a", "b", "b")
    answer = session.api("POST", "/events:rewind", {"to_event": "e1"})
    assert (answer.status, answer.json["removed"]) == (200, 2)
    assert session.ids() == ["e0", "e1"]
    assert session.append(1)["seq"] == 5, "no seq is used twice"
    assert session.api("POST", "/events:rewind", {"to_seq": 1}).json["removed"] == 2
    assert session.ids() == ["e0"]
    problem(session.api("POST", "/events:rewind", {"to_event": "none"}), 404, "not_found")
    problem(session.api("POST", "/events:rewind", {"to_seq": 99}), 404, "not_found")
    problem(session.api("POST", "/events:rewind", {}), 400, "invalid_argument")
    problem(session.api("POST", "/events:rewind", {"to_seq": 1, "to_event": "e0"}), 400, "invalid_argument")


def test_a_fork_is_a_session_of_its_own(session):
    conversations(session, "a", "b", "c")
    session.api("PATCH", "/state", {"k": [1]})
    forked = session.api("POST", ":fork", {"at_seq": 2, "new_id": "copy"})
    assert forked.status == 201, forked.text
    assert (forked.json["id"], forked.json["event_count"], forked.json["state"]) == ("copy", 2, {"k": [1]})
    path = session.user_path + "/sessions/copy"
    session.append(1)
    server = session.server
    assert [e["id"] for e in server.api("GET", path + "/events").json["items"]] == ["e0", "e1"]
    assert [e["id"] for e in server.api("GET", path + "/events?request_id=b").json["items"]] == ["e1"]
    assert server.api("POST", path + "/events", {"content": 1}).json["seq"] == 3
    assert server.api("GET", path + "/check").json == {"issues": []}
    problem(session.api("POST", ":fork", {"at_seq": 2, "new_id": "copy"}), 409, "conflict")
    problem(session.api("POST", ":fork", {"at_seq": 99, "new_id": "x"}), 404, "not_found")
    problem(session.api("POST", ":fork", {"at_seq": -1, "new_id": "x"}), 400, "invalid_argument")


def test_a_long_session_is_forked_whole(session):
    session.api("POST", "/events", [{"content": i} for i in range(450)])
    forked = session.api("POST", ":fork", {"at_seq": 430}).json
    assert forked["event_count"] == 430


# ---- eviction


def settings(session, **body):
    return session.server.api("PUT", f"/apps/{session.app}", body)


def test_whole_oldest_conversations_make_room(session):
    assert settings(session, max_events_per_session=6, eviction_batch_size=2).status == 200
    conversations(session, "r1", "r1", "r2", "r1", "r3", "r3")
    answer = session.append(1, id="e6", request_id="r3")
    assert answer["evicted"] == 3
    assert session.ids() == ["e2", "e4", "e5", "e6"]
    assert session.get()["evicted_count"] == 3
    again = session.api("POST", "/events", {"id": "e6", "content": 1, "request_id": "r3"})
    assert (again.status, again.json["evicted"]) == (200, 3)


def test_the_conversation_that_goes_on_is_not_evicted(session):
    settings(session, max_events_per_session=4, eviction_batch_size=1)
    conversations(session, "r1", "r2", "r1", "r1", "r1", "r1", "r1")
    assert session.ids() == ["e0", "e2", "e3", "e4", "e5", "e6"]
    assert session.append(1, id="x")["evicted"] == 0
    assert session.append(1, id="y", request_id="r9")["evicted"] == 7
    assert session.ids() == ["y"]


@pytest.mark.parametrize("body", [
    {"max_events_per_session": 5, "eviction_batch_size": 5}, {"max_events_per_session": 5, "eviction_batch_size": 0},
    {"max_events_per_session": -1}, {"session_ttl": -1}, {"indexes": ["color"]}, {"indexes": "tag"},
    {"max_event": 1}, {"max_events_per_session": 10},
])
def test_settings_that_make_no_sense_are_refused(session, body):
    problem(settings(session, **body), 400, "invalid_argument")


def test_settings_are_kept(session):
    settings(session, max_events_per_session=100, session_ttl=60.5)
    settings(session, indexes=["author"])
    shown = session.server.api("GET", f"/apps/{session.app}").json
    assert shown["max_events_per_session"] == 100
    assert shown["eviction_batch_size"] == 10
    assert shown["session_ttl"] == 60.5
    assert shown["indexes"] == ["author"]
    conversations(session, "r1", "r2")
    session.append(1, id="t", tag="t", author="a")
    assert session.ids("?tag=t") == ["t"], "found without its index, too"
    assert session.ids("?author=a&request_id=r1") == []
    assert session.api("GET", "/check").json == {"issues": []}


def test_an_index_that_is_added_is_rebuilt_by_repair(session):
    settings(session, indexes=[])
    session.append(1, id="old", tag="t")
    settings(session, indexes=["tag"])
    issues = session.api("GET", "/check").json["issues"]
    assert [issue["type"] for issue in issues] == ["index_missing"]
    assert session.api("POST", "/repair").json["issues"] == []
    assert session.ids("?tag=t") == ["old"]


# ---- tracks, summaries


def test_tracks_have_the_same_verbs_and_their_own_retention(session):
    assert session.api("GET", "/tracks").json["items"] == []
    path = "/tracks/tool-calls"
    first = session.api("POST", path + "/events", {"id": "t1", "content": 1, "request_id": "r"})
    assert (first.status, first.json["seq"]) == (201, 1)
    assert session.get()["event_count"] == 0
    assert [t["name"] for t in session.api("GET", "/tracks").json["items"]] == ["tool-calls"]
    assert session.api("PUT", path + "/events/t1", {"content": 2}, If_Match='"1"').json["version"] == 2
    assert session.api("GET", path + "/events/t1").json["content"] == 2
    assert session.api("POST", path + "/events", {"id": "t1", "content": 3}).status == 409
    assert session.api("PUT", path, {"max_events": 3, "eviction_batch_size": 1}).json["max_events"] == 3
    problem(session.api("PUT", path, {"max_events": 3, "eviction_batch_size": 3}), 400, "invalid_argument")
    for i in range(4):
        session.api("POST", path + "/events", {"id": f"n{i}", "content": i, "request_id": f"q{i}"})
    assert [e["id"] for e in session.items(track="tool-calls")] == ["n1", "n2", "n3"]
    trimmed = session.api("POST", path + "/events:trim", {"conversations": 1}).json["items"]
    assert [e["id"] for e in trimmed] == ["n3"]
    assert session.api("POST", path + "/events:rewind", {"to_seq": 0}).json["removed"] == 2
    assert session.api("GET", "/check").json == {"issues": []}
    assert session.api("DELETE", path).status == 204
    problem(session.api("DELETE", path), 404, "not_found")
    assert session.items(track="tool-calls") == []
    problem(session.api("GET", "/tracks/none"), 404, "not_found")
    problem(session.api("GET", "/tracks/a%20b/events"), 400, "invalid_argument")


def test_a_session_has_a_bounded_number_of_tracks(session):
    for i in range(100):
        assert session.api("POST", f"/tracks/t{i}/events", {"content": 1}).status == 201
    problem(session.api("POST", "/tracks/t100/events", {"content": 1}), 429, "quota_exceeded")
    assert session.api("DELETE").status == 204


def test_a_summary_is_set_only_if_it_is_newer(session):
    conversations(session, "a", "b", "c")
    problem(session.api("GET", "/summary"), 404, "not_found")
    put = lambda text, event, **more: session.api("PUT", "/summary", {"text": text, "last_event_id": event, **more})
    assert put("two", "e1").status == 200
    problem(put("one", "e0"), 409, "conflict")
    problem(put("other two", "e1"), 409, "conflict")
    assert put("two", "e1").status == 200
    assert session.api("GET", "/summary").json["text"] == "two"
    assert put("three", "e2").json["last_event_id"] == "e2"
    assert put("a branch", "e0", filter_key="x/y").status == 200
    assert session.api("GET", "/summary?filter_key=x%2Fy").json["text"] == "a branch"
    assert session.api("GET", "/summary").json["text"] == "three"
    problem(put("none", "missing"), 404, "not_found")
    problem(session.api("PUT", "/summary", {"text": 1}), 400, "invalid_argument")


# ---- expiry


def test_sessions_expire(server):
    app = "brief-" + uuid.uuid4().hex[:6]
    assert server.api("PUT", f"/apps/{app}", {"session_ttl": 0.05}).status == 200
    session = Session(server, app=app, session="s")
    # By the answer, not by our clock: it is gone at the latest when a request later than that is asked.
    for _ in range(10_000):
        if session.api("GET").status == 404:
            break
    problem(session.api("GET"), 404, "not_found")
    problem(session.api("POST", "/events", {"content": 1}), 404, "not_found")
    assert server.api("GET", f"/apps/{app}/sessions").json["items"] == []
    server.api("PUT", f"/apps/{app}", {"session_ttl": 0})
    again = Session(server, app=app, session="s")
    assert again.append(1)["seq"] == 1
    assert again.get()["event_count"] == 1


# ---- stream


class Stream:
    def __init__(self, session, path="/events/stream", last=None):
        headers = {"Authorization": f"Bearer {session.server.key}"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        self.connection = session.server.connect()
        self.connection.request("GET", "/api/v1" + session.path + path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200

    def next(self):
        event = {}
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if not line and event:
                return event
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value

    def close(self):
        self.connection.close()


def test_a_stream_replays_and_follows(session):
    conversations(session, "a", "b", "c")
    stream = Stream(session, last=1)
    assert [stream.next()["id"] for _ in range(2)] == ["2", "3"]
    session.append({"x": [ ]}, id="live")
    event = stream.next()
    assert event["id"] == "4"
    assert json.loads(event["data"]) == session.api("GET", "/events/live").json
    stream.close()
    begin = Stream(session, last=0)
    assert begin.next()["id"] == "1"
    begin.close()
    behind = Stream(session, "/events/stream?after=3")
    assert behind.next()["id"] == "4"
    behind.close()
    session.api("POST", "/tracks/t/events", {"content": 1})
    track = Stream(session, "/tracks/t/events/stream")
    assert track.next()["id"] == "1"
    track.close()
    bad = session.api("GET", "/events/stream", Last_Event_ID="x")
    problem(bad, 400, "invalid_argument")


def test_a_stream_ends_with_its_session(session):
    session.append(1)
    stream = Stream(session)
    assert stream.next()["id"] == "1"
    session.api("DELETE")
    rest = stream.response.read()
    assert b"data" not in rest
    problem(session.api("GET", "/events/stream"), 404, "not_found")


@contextlib.contextmanager
def two_servers(store, directory):
    if store == "sqlite":
        with Server(directory) as one, Server(directory) as two:
            yield one, two
        return
    for name in ("one", "two"):
        (directory / name).mkdir()
    with Redis(directory / "redis") as redis, Server(directory / "one", "--store", redis.url) as one, \
            Server(directory / "two", "--store", redis.url) as two:
        yield one, two


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_stream_follows_what_another_server_appends(store, tmp_path):
    with two_servers(store, tmp_path) as (one, two):
        session = Session(one)
        stream = Stream(session)
        took = []
        for i in range(9):
            begin = time.monotonic()
            answer = two.request("POST", "/api/v1" + session.path + "/events",
                                 {"Authorization": f"Bearer {one.key}"}, json.dumps({"content": i}))
            assert answer.status == 201
            assert stream.next()["id"] == str(i + 1)
            took.append(time.monotonic() - begin)
        stream.close()
        assert statistics.median(took) < 1
        resumed = Stream(session, last=7)
        assert [resumed.next()["id"] for _ in range(2)] == ["8", "9"]
        resumed.close()


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_two_servers_append_to_one_log_without_gaps(store, tmp_path):
    with two_servers(store, tmp_path) as (one, two):
        session = Session(one)
        answers = []

        def append(server, name):
            for i in range(40):
                event = {"content": [name, i], **({"id": f"{name}-{i}"} if i % 3 == 0 else {})}
                answer = server.request("POST", "/api/v1" + session.path + "/events",
                                        {"Authorization": f"Bearer {one.key}"}, json.dumps(event))
                answers.append((answer.status, answer.json.get("seq"), event["content"]))
        threads = [threading.Thread(target=append, args=(server, f"{number}{i}"))
                   for i in range(2) for number, server in enumerate((one, two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
        assert {status for status, _, _ in answers} == {201}
        stored = {event["seq"]: event["content"] for event in session.items("?limit=1000")}
        assert sorted(stored) == list(range(1, 161))
        assert {seq: content for _, seq, content in answers} == stored
        assert session.api("GET", "/check").json == {"issues": []}
        assert session.get()["event_count"] == 160


# ---- who may


def test_event_logs_need_their_scope(server):
    answer = server.request("GET", "/api/v1/apps/a/sessions")
    assert answer.status == 401
    document = server.get("/openapi.json").json
    assert "/api/v1/apps/{app}/users/{user}/sessions/{sid}/events:trim" in document["paths"]


# ---- check and repair


def test_indexes_that_are_damaged_are_found_and_repaired(tmp_path):
    with Server(tmp_path) as server:
        session = Session(server, app="damaged", session="s")
        conversations(session, "r1", "r1", "r2", None)
        assert session.api("GET", "/check").json == {"issues": []}
        assert server.stop()[0] == 0
    database = sqlite3.connect(next(server.data.glob("*.db")))
    with database:
        # Event 1 is not found by its request any more, event 3 by one that it does not have, and event 2 has
        # forgotten what it is found by.
        database.execute("DELETE FROM term WHERE seq=1 AND name=?", (b"request_id",))
        database.execute("INSERT INTO term SELECT log, name, ?, 3 FROM term WHERE seq=2 AND name=?",
                         (b"r9", b"request_id"))
        database.execute("UPDATE entry SET terms=? WHERE seq=2", (b"",))
        database.execute("DELETE FROM directory WHERE name LIKE 'event-sessions:%'")
    database.close()
    with Server(tmp_path) as server:
        session.server = server
        assert session.ids("?request_id=r1") == []
        issues = session.api("GET", "/check").json["issues"]
        assert {(issue["type"], issue["event_id"]) for issue in issues} == {
            ("index_missing", "e0"), ("index_missing", "e1"), ("index_stale", "e2"), ("not_listed", None)}
        repaired = session.api("POST", "/repair")
        assert (repaired.status, repaired.json["issues"]) == (200, [])
        assert len(repaired.json["repaired"]) == len(issues)
        assert session.api("GET", "/check").json == {"issues": []}
        assert session.ids("?request_id=r1") == ["e0", "e1"]
        assert session.ids("?request_id=r9") == []
        assert session.ids() == ["e0", "e1", "e2", "e3"]
        assert [s["id"] for s in server.api("GET", "/apps/damaged/sessions").json["items"]] == ["s"]
        assert trim(session, 1) == ["e2", "e3"]
        problem(server.api("GET", "/apps/damaged/users/ann/sessions/none/check"), 404, "not_found")


def test_indexes_that_are_damaged_in_redis_are_found_and_repaired(tmp_path):
    with Redis(tmp_path / "redis") as redis, Server(tmp_path, "--store", redis.url) as server:
        session = Session(server, app="damaged", session="s")
        conversations(session, "r1", "r1", "r2", None)
        index = redis.ask("KEYS", "events:idx:*")
        members = redis.ask("ZRANGE", index, "0", "-1").splitlines()
        first = next(m for m in members if m.startswith("request_id r1 ") and m.endswith("01"))
        assert redis.ask("ZREM", index, first) == "1"
        assert redis.ask("ZADD", index, "0", "request_id r9 " + "3".rjust(20, "0")) == "1"
        for key in redis.ask("KEYS", "*event-sessions*").splitlines():
            redis.ask("DEL", key)
        assert session.ids("?request_id=r1") == ["e1"]
        issues = session.api("GET", "/check").json["issues"]
        assert {(issue["type"], issue["event_id"]) for issue in issues} == {
            ("index_missing", "e0"), ("index_stale", "e2"), ("not_listed", None)}
        repaired = session.api("POST", "/repair")
        assert (repaired.status, repaired.json["issues"]) == (200, [])
        assert session.ids("?request_id=r1") == ["e0", "e1"]
        assert session.ids("?request_id=r9") == []
        assert [s["id"] for s in server.api("GET", "/apps/damaged/sessions").json["items"]] == ["s"]
        assert session.append(1)["seq"] == 5
        assert session.api("GET", "/check").json == {"issues": []}


def test_a_track_has_a_ttl(session):
    path = "/tracks/brief"
    assert session.api("PUT", path, {"ttl": 0.05}).json["ttl"] == 0.05
    assert session.api("POST", path + "/events", {"id": "a", "content": 1}).status == 201
    # By the answer, not by our clock.
    for _ in range(10_000):
        if session.items(track="brief") == []:
            break
    assert session.items(track="brief") == []
    assert session.api("GET", path).json["event_count"] == 0
    problem(session.api("GET", path + "/events/a"), 404, "not_found")
    assert session.api("PUT", path, {"ttl": 0}).json["ttl"] == 0
    again = session.api("POST", path + "/events", {"id": "a", "content": 2})
    assert (again.status, again.json["seq"]) == (201, 2)
    assert [e["content"] for e in session.items(track="brief")] == [2]
    problem(session.api("PUT", path, {"ttl": "x"}), 400, "invalid_argument")
