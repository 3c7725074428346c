"""Asynchronous calls: taken durably, run in the order of their session, tried again, given up, cancelled, replayed."""

import signal
import threading
import time

import pytest

from harness import Server

# Keeps a list of what was done in the session, with the number that each call was told.
LIST = """
import time
def handle(event, state, context):
    done = state.get("done", [])
    if event.get("sleep_ms"): time.sleep(event["sleep_ms"] / 1000)
    if event.get("fail_until", 0) >= context.attempt: raise ValueError("attempt %d" % context.attempt)
    if event.get("fail"): raise ValueError("never")
    state.set("done", done + [[event.get("name"), context.session_seq]], ttl=-1)
    return {"done": len(done) + 1, "attempt": context.attempt}
"""
QUICK = {"max_attempts": 3, "initial_ms": 10, "factor": 1, "max_ms": 20}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("async")) as server:
        server.deploy("list", LIST, retry=QUICK)
        yield server


def later(server, payload, session=None, function="list", **query):
    return server.invoke(function, payload, session=session, mode="async", **query)


def result(server, answer, wait_ms=20000):
    request_id = answer if isinstance(answer, str) else answer.json["request_id"]
    return server.api("GET", f"/invocations/{request_id}?wait_ms={wait_ms}").json


def done(server, session, function="list"):
    return server.api("GET", f"/functions/{function}/state/{session}/done").json


def until(is_so, patience=30):
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.01)


def status(server, answer):
    return server.api("GET", f"/invocations/{answer.json['request_id']}").json["status"]


def test_a_call_is_taken_with_its_number_and_its_result_is_had_by_id(server):
    answer = later(server, {"name": "a"}, session="taken")
    assert answer.status == 202
    assert answer.json == {"request_id": answer.headers["Nimbus-Request-Id"], "status": "queued", "session_seq": 1}
    shown = result(server, answer)
    assert shown["status"] == "succeeded"
    assert shown["body"] == {"done": 1, "attempt": 1} and shown["status_code"] == 200
    assert shown["function_id"] == "list" and shown["session_key"] == "taken" and shown["attempts"] == 1
    assert shown["created_at"] <= shown["started_at"] <= shown["finished_at"]
    assert server.invoke("list", {"name": "b"}, session="taken").headers["Nimbus-Session-Seq"] == "2"


def test_prefer_respond_async_is_the_same(server):
    answer = server.api("POST", "/functions/list/invoke?session_key=prefers", {"payload": {"name": "p"}},
                        Prefer="wait=5, respond-async")
    assert answer.status == 202
    assert result(server, answer)["status"] == "succeeded"


def test_both_kinds_run_in_the_order_of_their_numbers(server):
    session = "both"
    first = later(server, {"name": "slow", "sleep_ms": 300}, session=session)
    until(lambda: status(server, first) == "running")
    numbers, threads = {}, []

    def call(name):
        numbers[name] = int(server.invoke("list", {"name": name}, session=session).headers["Nimbus-Session-Seq"])

    answers = [later(server, {"name": f"a{n}"}, session=session) for n in range(20)]
    for n in range(10):
        threads.append(threading.Thread(target=call, args=(f"s{n}",)))
        threads[-1].start()
        answers.append(later(server, {"name": f"b{n}"}, session=session))
    for thread in threads:
        thread.join()
    for answer in answers:
        assert result(server, answer)["status"] == "succeeded"
    ran = done(server, session)
    assert len(ran) == 41
    assert [number for _, number in ran] == sorted({number for _, number in ran})
    assert {name: number for name, number in ran if name in numbers} == numbers
    taken = {f"a{n}": answers[n].json["session_seq"] for n in range(20)}
    assert {name: number for name, number in ran if name in taken} == taken


def test_an_acceptance_does_not_wait_for_a_running_call(server):
    blocker = threading.Thread(target=server.invoke, args=("list", {"name": "x", "sleep_ms": 1500}, "busy"))
    blocker.start()
    until(lambda: server.api("GET", "/functions/list/sessions/busy").status == 200)
    begun = time.monotonic()
    answer = later(server, {"name": "y"}, session="busy")
    assert answer.status == 202 and time.monotonic() - begun < 1.2
    blocker.join()
    assert result(server, answer)["status"] == "succeeded"
    assert [name for name, _ in done(server, "busy")] == ["x", "y"]


def test_a_failed_attempt_is_tried_again_and_the_session_waits(server):
    first = later(server, {"name": "again", "fail_until": 2}, session="retry")
    second = later(server, {"name": "after"}, session="retry")
    shown = result(server, first)
    assert (shown["status"], shown["attempts"], shown["body"]["attempt"]) == ("succeeded", 3, 3)
    assert result(server, second)["status"] == "succeeded"
    assert done(server, "retry") == [["again", 1], ["after", 2]]


CHOOSES = """
from nimbus import state as shared
def handle(event, state, context):
    state.set("runs", state.get("runs", 0) + 1, ttl=-1)
    if state.function().get("well"): return {"status_code": 201, "body": "well"}
    return {"status_code": event["status"], "body": {"why": "said so"}}
"""


def test_a_call_whose_function_answers_an_error_has_failed_at_once_and_can_be_replayed(server):
    server.deploy("chooses", CHOOSES, retry=QUICK, on_poison="pause")
    for status_code in (400, 503):
        session = f"chose-{status_code}"
        answer = later(server, {"status": status_code}, session=session, function="chooses")
        behind = later(server, {"status": 399}, session=session, function="chooses")
        shown = result(server, answer)
        assert (shown["status"], shown["attempts"], shown["status_code"]) == ("failed", 1, status_code)
        assert shown["body"] == {"why": "said so"} and shown["finished_at"]
        # Its session goes on, and what it wrote stays: it has answered.
        assert result(server, behind)["status"] == "succeeded"
        assert server.api("GET", f"/functions/chooses/state/{session}/runs").json == 2
        listed = server.api("GET", f"/invocations?session_key={session}&status=failed").json["items"]
        assert [one["request_id"] for one in listed] == [shown["request_id"]]
        refused = server.api("DELETE", f"/invocations/{shown['request_id']}")
        assert (refused.status, refused.json["code"]) == (409, "conflict")
        assert server.api("POST", f"/invocations/{behind.json['request_id']}/replay").status == 409
    server.api("PUT", "/functions/chooses/function-state/well", "true")
    replayed = server.api("POST", f"/invocations/{shown['request_id']}/replay")
    assert replayed.status == 202 and "body" not in replayed.json
    again = result(server, shown["request_id"])
    assert (again["status"], again["status_code"], again["body"], again["session_seq"]) == ("succeeded", 201, "well", 3)
    # Stateless ones, too.
    server.api("DELETE", "/functions/chooses/function-state?key=well")
    alone = later(server, {"status": 422}, function="chooses")
    assert result(server, alone)["status"] == "failed"


def test_of_those_that_were_given_up_the_newest_thousand_are_kept(server):
    server.deploy("many", CHOOSES, queue={"max_per_session": 2000})
    answers = [later(server, {"status": 400}, session="many", function="many").json["request_id"] for _ in range(1100)]
    assert result(server, answers[-1], wait_ms=60000)["status"] == "failed"

    def replay(request_id):
        return server.api("POST", f"/invocations/{request_id}/replay")

    # It gave way when ninety-nine others were still to come.
    refused = replay(answers[0])
    assert (refused.status, refused.json["status"]) == (409, "failed") and "kept" in refused.json["detail"]
    assert result(server, answers[0])["status"] == "failed"
    assert replay(answers[-1]).status == 202 and replay(answers[101]).status == 202


def test_those_that_were_given_up_are_kept_for_their_time(tmp_path):
    with Server(tmp_path, "--set", "server.keep_parked_ms=1000") as server:
        server.deploy("chooses", CHOOSES)
        answer = later(server, {"status": 400}, session="s", function="chooses").json["request_id"]
        assert result(server, answer)["status"] == "failed"
        until(lambda: server.api("GET", f"/invocations/{answer}").status == 404)
        assert server.api("POST", f"/invocations/{answer}/replay").status == 404
        assert server.api("GET", "/invocations").json["items"] == []


def test_a_call_that_fails_for_good_is_parked_and_can_be_replayed(server):
    answer = later(server, {"name": "bad", "fail_until": 3}, session="park")
    after = later(server, {"name": "next"}, session="park")
    shown = result(server, answer)
    assert (shown["status"], shown["attempts"], shown["status_code"]) == ("parked", 3, 500)
    assert shown["error"]["code"] == "function_error" and shown["error"]["type"] == "ValueError"
    assert result(server, after)["status"] == "succeeded"
    refused = server.api("POST", f"/invocations/{after.json['request_id']}/replay")
    assert (refused.status, refused.json["code"]) == (409, "conflict")

    replayed = server.api("POST", f"/invocations/{answer.json['request_id']}/replay")
    assert (replayed.status, replayed.json["status"], replayed.json["attempts"]) == (202, "queued", 0)
    assert result(server, answer)["status"] == "parked"
    assert [name for name, _ in done(server, "park")] == ["next"]


def test_on_poison_pause_holds_the_session_until_somebody_decides(server):
    server.deploy("held", LIST, retry={**QUICK, "max_attempts": 1}, on_poison="pause")
    bad = later(server, {"name": "bad", "fail": True}, session="s", function="held")
    after = later(server, {"name": "next"}, session="s", function="held")
    assert result(server, bad)["status"] == "parked"
    assert status(server, after) == "queued"
    until(lambda: server.api("GET", "/functions/held/sessions/s").json["status"] == "paused")
    assert server.api("POST", f"/invocations/{bad.json['request_id']}/replay").status == 202
    assert result(server, bad)["status"] == "parked"
    assert status(server, after) == "queued"
    assert server.api("DELETE", f"/invocations/{bad.json['request_id']}").status == 200
    assert result(server, after)["status"] == "succeeded"
    assert result(server, bad)["status"] == "cancelled"


def test_a_delayed_call_joins_the_order_when_it_is_due(server):
    begun = time.monotonic()
    answer = later(server, {"name": "later"}, session="delay", delay_ms=700)
    assert answer.json["session_seq"] is None
    assert server.invoke("list", {"name": "now"}, session="delay").status == 200
    assert result(server, answer)["status"] == "succeeded"
    assert time.monotonic() - begun >= 0.7
    assert done(server, "delay") == [["now", 1], ["later", 2]]


def test_what_waits_is_cancelled_and_never_runs(server):
    blocker = later(server, {"name": "x", "sleep_ms": 500}, session="cancel")
    waiting = later(server, {"name": "y"}, session="cancel")
    delayed = later(server, {"name": "z"}, session="cancel", delay_ms=100000)
    for answer in (waiting, delayed):
        cancelled = server.api("DELETE", f"/invocations/{answer.json['request_id']}")
        assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
        assert server.api("DELETE", f"/invocations/{answer.json['request_id']}").status == 200
    last = later(server, {"name": "last"}, session="cancel")
    assert result(server, last)["status"] == "succeeded"
    assert [name for name, _ in done(server, "cancel")] == ["x", "last"]
    refused = server.api("DELETE", f"/invocations/{blocker.json['request_id']}")
    assert (refused.status, refused.json["code"]) == (409, "conflict")


def test_what_runs_is_told_and_then_killed(server):
    answer = later(server, {"name": "long", "sleep_ms": 60000}, session="kill")
    until(lambda: status(server, answer) == "running")
    begun = time.monotonic()
    assert server.api("DELETE", f"/invocations/{answer.json['request_id']}").status == 202
    assert result(server, answer)["status"] == "cancelled"
    assert time.monotonic() - begun < 20
    assert server.invoke("list", {"name": "next"}, session="kill").json["body"]["done"] == 1


def test_stateless_calls_run_beside_each_other(server):
    server.deploy("parallel", LIST, retry=QUICK, max_instances=4)
    answers = [later(server, {"sleep_ms": 20}, function="parallel") for _ in range(20)]
    bad = later(server, {"fail": True}, function="parallel")
    for answer in answers:
        assert answer.json["session_seq"] is None
        shown = result(server, answer)
        assert (shown["status"], shown["session_key"]) == ("succeeded", None)
    assert result(server, bad)["status"] == "parked"


def test_the_list_is_filtered(server):
    ids = {later(server, {"name": "l"}, session="listed").json["request_id"] for _ in range(3)}
    for one in ids:
        result(server, one)
    listed = server.api("GET", "/invocations?function_id=list&session_key=listed&status=succeeded").json
    assert {item["request_id"] for item in listed["items"]} == ids and listed["next_cursor"] is None
    page = server.api("GET", "/invocations?session_key=listed&limit=2").json
    rest = server.api("GET", f"/invocations?session_key=listed&limit=2&cursor={page['next_cursor']}").json
    assert {item["request_id"] for item in page["items"] + rest["items"]} == ids
    assert server.api("GET", "/invocations?session_key=listed&status=parked").json["items"] == []
    assert server.api("GET", "/invocations?status=odd").status == 400


def test_bad_requests_say_what_is_wrong(server):
    assert server.api("GET", "/invocations/none").status == 404
    assert server.api("DELETE", "/invocations/none").status == 404
    assert server.api("POST", "/invocations/none/replay").status == 404
    for query in ({"mode": "maybe"}, {"priority": 10, "mode": "async"}, {"delay_ms": -1, "mode": "async"},
                  {"delay_ms": 5}, {"mode": "async", "busy": "reject"}):
        answer = server.invoke("list", None, session="s", **query)
        assert (answer.status, answer.json["code"]) == (400, "invalid_argument"), query


def test_a_full_queue_refuses(server):
    server.deploy("full", LIST, queue={"max_per_session": 2})
    first = later(server, {"sleep_ms": 1000}, session="s", function="full")
    until(lambda: status(server, first) == "running")
    waiting = [later(server, {}, session="s", function="full") for _ in range(2)]
    assert [answer.status for answer in waiting] == [202, 202]
    for refused in (later(server, {}, session="s", function="full"), server.invoke("full", {}, session="s")):
        assert (refused.status, refused.json["code"]) == (429, "queue_full")
        assert refused.json["queue_length"] == 2 and refused.headers["Retry-After"]
    assert server.invoke("full", {}, session="s", busy="reject").status == 409
    shown = server.api("GET", "/functions/full/sessions/s").json
    assert (shown["queue_length"], shown["status"]) == (2, "running")
    for answer in [first, *waiting]:
        assert result(server, answer)["status"] == "succeeded"


def test_a_deleted_session_cancels_what_waits(server):
    first = later(server, {"name": "x", "sleep_ms": 500}, session="gone")
    until(lambda: status(server, first) == "running")
    waiting = later(server, {"name": "y"}, session="gone")
    assert server.api("DELETE", "/functions/list/sessions/gone").status == 204
    assert result(server, waiting)["status"] == "cancelled"
    assert later(server, {"name": "new"}, session="gone").json["session_seq"] == 1


def test_higher_priorities_go_first_between_sessions(server):
    server.deploy("ranked", """
import time
order = []
def handle(event):
    if event.get("order"): return order
    order.append(event["name"])
    time.sleep(event.get("sleep_ms", 0) / 1000)
""", max_instances=1)
    server.invoke("ranked", {"order": True})  # its instance is there: who comes first has it at once
    blocker = later(server, {"name": "blocker", "sleep_ms": 1000}, session="b", function="ranked")
    until(lambda: status(server, blocker) == "running")
    answers = [later(server, {"name": n}, session=f"p{n}", function="ranked", priority=n) for n in (0, 5, 9)]
    for answer in answers:
        assert result(server, answer)["status"] == "succeeded"
    assert server.invoke("ranked", {"order": True}).json["body"] == ["blocker", 9, 5, 0]


def test_what_was_acknowledged_runs_after_a_kill(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("list", LIST, retry=QUICK)
        answers = [later(server, {"name": n, "sleep_ms": 50}, session="s") for n in range(30)]
        delayed = later(server, {"name": "delayed"}, session="d", delay_ms=300)
        alone = later(server, {"sleep_ms": 1})
        server.send_signal(signal.SIGKILL)
        server.wait()
    with Server(tmp_path) as server:
        for answer in [*answers, delayed, alone]:
            assert result(server, answer)["status"] == "succeeded"
        assert done(server, "s") == [[n, n + 1] for n in range(30)]
        code, _ = server.stop()
        assert code == 0


def test_what_runs_at_a_stop_runs_again(tmp_path):
    with Server(tmp_path, "--set", "server.drain_ms=100") as server:
        server.deploy("list", LIST, retry={**QUICK, "max_attempts": 1})
        answer = later(server, {"name": "x", "sleep_ms": 3000}, session="s")
        after = later(server, {"name": "y"}, session="s")
        until(lambda: status(server, answer) == "running")
        assert server.stop()[0] == 0
    with Server(tmp_path) as server:
        shown = result(server, answer)
        assert (shown["status"], shown["attempts"]) == ("succeeded", 1)
        assert result(server, after)["status"] == "succeeded"
