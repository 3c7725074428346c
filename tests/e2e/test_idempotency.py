"""Idempotency-Key: a call that is sent again has one effect, and one answer."""

import signal
import threading
import time

import pytest

from harness import Server

CODE = """
import os, time
def handle(event, state, context):
    event = event or {}
    n = state.incr("n")
    if event.get("sleep_ms"): time.sleep(event["sleep_ms"] / 1000)
    if event.get("die"): os._exit(1)
    if event.get("fail"): raise ValueError("no")
    if event.get("status"): return {"status_code": event["status"], "body": {"n": n}}
    return {"n": n}
"""
HEADERS = ("Nimbus-Session-Seq", "Nimbus-Instance", "Nimbus-Node", "Content-Type")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("idempotency")) as server:
        server.deploy("count", CODE)
        server.deploy("other", CODE)
        yield server


def call(server, key, payload=None, session="s", function="count", more="", **headers):
    query = f"?session_key={session}{more}" if session else f"?{more.lstrip('&')}"
    return server.api("POST", f"/functions/{function}/invoke{query}", {"payload": payload}, Idempotency_Key=key, **headers)


@pytest.mark.parametrize("payload", [None, {"fail": True}, {"status": 404}, {"status": 204}, {"die": True}])
@pytest.mark.parametrize("session", ["again", None])
def test_the_same_request_has_one_effect_and_one_answer(server, payload, session):
    key = f"{session} {payload}"
    first, second = (call(server, key, payload, session=session) for _ in range(2))
    assert first.headers["Idempotent-Replayed"] is None
    assert second.headers["Idempotent-Replayed"] == "true"
    assert (second.status, second.body) == (first.status, first.body)
    assert [second.headers[name] for name in HEADERS] == [first.headers[name] for name in HEADERS]


def test_an_answer_counts_once(server):
    assert [call(server, "once", session="once").json["body"] for _ in range(3)] == [{"n": 1}] * 3
    assert call(server, "twice", session="once").json["body"] == {"n": 2}


def test_another_request_with_the_key_is_refused(server):
    assert call(server, "k1", {"a": 1}).status == 200
    for answer in (call(server, "k1", {"a": 2}), call(server, "k1", {"a": 1}, session="t"),
                   call(server, "k1", {"a": 1}, more="&timeout_ms=5000"), call(server, "k1", {"a": 1}, more="&mode=async")):
        assert (answer.status, answer.json["code"]) == (422, "unprocessable")
    assert call(server, "k1", {"a": 1}, function="other").headers["Idempotent-Replayed"] is None


def test_a_key_that_is_in_use_is_told_so(server):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(call(server, "busy", {"sleep_ms": 700}, session="busy")))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(answer.status == 200 for answer in answers) >= 1
    for answer in answers:
        if answer.status == 200:
            assert answer.json["body"] == {"n": 1}
        else:
            assert (answer.status, answer.json["code"]) == (409, "conflict") and int(answer.headers["Retry-After"]) >= 1
    assert call(server, "after", session="busy").json["body"] == {"n": 2}


def test_an_asynchronous_call_is_taken_once(server):
    first, second = (call(server, "later", session="later", more="&mode=async") for _ in range(2))
    assert (first.status, second.status) == (202, 202)
    assert second.json == first.json and second.headers["Idempotent-Replayed"] == "true"
    server.api("GET", f"/invocations/{first.json['request_id']}?wait_ms=20000")
    assert call(server, "then", session="later").json["body"] == {"n": 2}


def test_errors_of_the_platform_are_not_kept(server):
    server.deploy("full", CODE, queue={"max_per_session": 1})
    slow = threading.Thread(target=call, args=(server, "a", {"sleep_ms": 800}), kwargs={"function": "full"})
    slow.start()
    deadline = time.monotonic() + 20
    while server.api("GET", "/functions/full/sessions/s").status != 200:
        assert time.monotonic() < deadline
    waits = threading.Thread(target=call, args=(server, "b"), kwargs={"function": "full"})
    waits.start()
    while server.api("GET", "/functions/full/sessions/s").json["queue_length"] == 0:
        assert time.monotonic() < deadline
    assert call(server, "c", function="full").status == 429
    slow.join()
    waits.join()
    assert call(server, "c", function="full").json["body"] == {"n": 3}


def test_a_bad_key_is_refused(server):
    for key in ("", "x" * 257):
        assert call(server, key).status == 400


def test_answers_outlive_the_server_and_a_kill_in_between_loses_or_doubles_nothing(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("count", CODE)
        kept = call(server, "kept")
        thread = threading.Thread(target=lambda: pytest.raises(Exception, call, server, "cut", {"sleep_ms": 5000}))
        thread.start()
        deadline = time.monotonic() + 20
        while server.api("GET", "/functions/count/sessions/s").json["status"] != "running":
            assert time.monotonic() < deadline
        server.send_signal(signal.SIGKILL)
        server.wait()
        thread.join()
    with Server(tmp_path) as server:
        again = call(server, "kept")
        assert again.body == kept.body and again.headers["Idempotent-Replayed"] == "true"
        first, second = (call(server, "cut", {"sleep_ms": 50}) for _ in range(2))
        assert first.json["body"] == second.json["body"] == {"n": 2}


def test_keys_are_forgotten_after_their_time(tmp_path):
    with Server(tmp_path, "--set", "server.keep_answers_ms=1000") as server:
        server.deploy("count", CODE)
        deadline = time.monotonic() + 30
        counts = [call(server, "short").json["body"]["n"]]
        while counts[-1] == 1:
            assert time.monotonic() < deadline
            counts.append(call(server, "short").json["body"]["n"])
        assert counts[-1] == 2
