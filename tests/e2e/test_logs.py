"""What functions print, followed as it comes, and what the server itself logs about calls."""

import json
import socket

import pytest

from harness import PATIENCE, Server

CHATTY = """
def handle(event):
    for line in event:
        print(line)
"""


class Follower:
    """Reads server-sent events as they come."""

    def __init__(self, server, function, query="follow=true", **headers):
        self.connection = server.connect()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = f"Bearer {server.key}"
        self.connection.request("GET", f"/api/v1/functions/{function}/logs?{query}", headers=headers)
        self.response = self.connection.getresponse()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        """The next event as a dict of its fields; None at the end. Comments, which are heartbeats, are passed over."""
        event = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            line = line.rstrip("\n")
            if not line and event:
                return event
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                event[name] = value

    def lines(self, count):
        return [json.loads(self.next()["data"])["line"] for _ in range(count)]


def test_a_follower_gets_the_newest_lines_and_then_those_that_come(server):
    server.deploy("followed", CHATTY)
    server.invoke("followed", ["1", "2", "3", "4"])
    with Follower(server, "followed", "follow=true&limit=2") as follower:
        assert follower.response.status == 200
        assert follower.response.headers["Content-Type"].startswith("text/event-stream")
        assert follower.lines(2) == ["3", "4"]
        answer = server.invoke("followed", ["fünf"])
        event = follower.next()
        assert event["id"] == "5"
        line = json.loads(event["data"])
        assert (line["line"], line["stream"], line["request_id"]) == ("fünf", "stdout", answer.json["request_id"])
        assert set(line) == {"time", "stream", "line", "request_id"}


def test_one_that_comes_back_goes_on_where_it_was(server):
    server.deploy("resumed", CHATTY)
    server.invoke("resumed", ["1", "2", "3"])
    with Follower(server, "resumed", "follow=1", Last_Event_ID="1") as follower:
        assert follower.lines(2) == ["2", "3"]
    with Follower(server, "resumed", "follow=1&limit=1", Last_Event_ID="99") as follower:
        assert follower.lines(1) == ["3"]  # no such line yet: it is from before a restart
    with Follower(server, "resumed", "follow=1", Last_Event_ID="x") as follower:
        assert follower.response.status == 400


def test_without_follow_it_is_a_list(server):
    server.deploy("listed", CHATTY)
    server.invoke("listed", ["1", "2", "3"])
    page = server.api("GET", "/functions/listed/logs?limit=2&follow=false").json
    assert [one["line"] for one in page["items"]] == ["3", "2"]
    page = server.api("GET", f"/functions/listed/logs?cursor={page['next_cursor']}").json
    assert [one["line"] for one in page["items"]] == ["1"]


def test_following_ends_with_the_function_and_the_next_of_that_name_has_a_log_of_its_own(server):
    server.deploy("ends", CHATTY)
    server.invoke("ends", ["last words"])
    with Follower(server, "ends") as follower:
        assert follower.lines(1) == ["last words"]
        assert server.api("DELETE", "/functions/ends").status == 204
        assert follower.next() is None
    assert server.api("GET", "/functions/ends/logs").status == 404
    server.deploy("ends", CHATTY)
    server.invoke("ends", ["first words"])
    assert [one["line"] for one in server.api("GET", "/functions/ends/logs").json["items"]] == ["first words"]
    with Follower(server, "ends") as follower:
        assert follower.next()["id"] == "1"


def test_following_ends_when_the_server_stops(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("stopped", CHATTY)
        with Follower(server, "stopped") as follower:
            code, seconds = server.stop()
            assert code == 0 and seconds < 5
            assert follower.next() is None


def test_nothing_to_follow_is_404(server):
    with Follower(server, "nowhere") as follower:
        assert follower.response.status == 404


def test_a_reader_that_does_not_read_holds_up_nobody_and_is_told_what_it_missed(server):
    server.deploy("flood", "def handle(event):\n    print(*event['count'] * [event['line']], sep='\\n')\n")
    with socket.create_connection((server.host, server.port), PATIENCE) as slow:
        request = f"GET /api/v1/functions/flood/logs?follow=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n"
        slow.sendall(request.encode())
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
        # More than all buffers on the way hold, and then more than the log keeps.
        for _ in range(40):
            assert server.invoke("flood", {"line": "x" * 10000, "count": 50}).status == 200
        assert server.invoke("flood", {"line": "the end", "count": 1}).status == 200
        slow.settimeout(PATIENCE)
        received = b""
        while b"the end" not in received:
            data = slow.recv(65536)
            assert data, "the stream ended"
            received += data
        assert b"event: missed" in received


# ---- what the server logs

SECRET = "a-secret-of-a-caller"

FAILING = """
import os, time
def handle(event, state):
    state.set("kept", event)
    if event["do"] == "raise":
        raise ValueError("something about " + event["secret"])
    if event["do"] == "crash":
        os._exit(3)
    if event["do"] == "hang":
        time.sleep(1000)
"""


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Lines of the log by what was done, and the ids of the calls."""
    with Server(tmp_path_factory.mktemp("logged"), "--set", "log.level=debug", "--set", "log.format=json") as server:
        server.deploy("failing", FAILING, timeout_ms=2000)
        calls = {}
        for what in ("return", "raise", "crash", "hang"):
            timeout = {"timeout_ms": 300} if what == "hang" else {}
            answer = server.invoke("failing", {"do": what, "secret": SECRET}, session="alice", **timeout)
            calls[what] = answer.headers["Nimbus-Request-Id"]
        server.stop()
        text = server.log_text()
    lines = [line for line in text.splitlines() if not line.startswith(("The administrator key", "It is kept in"))]
    return text, [json.loads(line) for line in lines], calls


@pytest.mark.parametrize("what, event", [
    ("raise", "a function raised"),
    ("crash", "an instance ended with a call in it"),
    ("hang", "a call ran out of time"),
])
def test_a_call_that_fails_is_logged_with_its_names(logged, what, event):
    _, lines, calls = logged
    found = [line for line in lines if line["event"] == event]
    assert len(found) == 1
    assert (found[0]["function"], found[0]["session"], found[0]["request_id"]) == ("failing", "alice", calls[what])


def test_instances_are_logged_as_they_come_and_go(logged):
    _, lines, _ = logged
    started = [line for line in lines if line["event"] == "instance started"]
    ended = [line for line in lines if line["event"] == "instance ended"]
    assert len(started) >= 2  # the first crashed
    assert {line["reason"] for line in ended} >= {"crashed", "timeout"}
    assert {line["instance"] for line in ended} <= {line["instance"] for line in started}
    assert all(line["function"] == "failing" for line in started + ended)


def test_a_call_that_succeeds_is_not_logged(logged):
    text, _, calls = logged
    assert calls["return"] not in text


def test_nothing_that_callers_sent_is_logged(logged):
    assert SECRET not in logged[0]
