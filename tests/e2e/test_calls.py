"""Calls: order, state, errors, and what outlives the server."""

import concurrent.futures
import json
import signal
import threading
import time

import pytest

from harness import Server

COUNT = "def handle(event, state):\n    return state.incr('n')\n"
COUNT_IN_NODE = "exports.handle = async (event, state) => state.incr('n');\n"


@pytest.fixture(scope="module")
def counting(server):
    server.deploy("count", COUNT)
    server.deploy("count-node", COUNT_IN_NODE, runtime="node")
    return server


@pytest.mark.parametrize("function", ["count", "count-node"])
def test_calls_of_a_session_are_numbered_and_see_what_came_before(counting, function):
    answers = [counting.invoke(function, session=f"{function} 1") for _ in range(3)]
    assert [answer.json["body"] for answer in answers] == [1, 2, 3]
    assert [answer.headers["Nimbus-Session-Seq"] for answer in answers] == ["1", "2", "3"]
    assert len({answer.headers["Nimbus-Instance"] for answer in answers}) == 1
    assert answers[0].json["session_key"] == f"{function} 1"
    assert answers[0].json["status_code"] == 200
    assert answers[0].headers["Nimbus-Node"] == counting.get("/health").json["instanceId"]


@pytest.mark.parametrize("function", ["count", "count-node"])
def test_calls_at_once_run_one_after_another(counting, function):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: counting.invoke(function, session="crowd"), range(64)))
    assert {answer.status for answer in answers} == {200}
    seen = sorted((int(answer.headers["Nimbus-Session-Seq"]), answer.json["body"]) for answer in answers)
    assert seen == [(n, n) for n in range(1, 65)]


def test_sessions_do_not_see_each_other(counting):
    keys = ["a", "a:b", "a/b", "a%2Fb", "{a}", "*", "ä", "a b", "_default", "_global"]
    for key in keys:
        counting.api("DELETE", f"/functions/count/sessions/{quoted(key)}")
    assert [counting.invoke("count", session=key).json["body"] for key in keys] == [1] * len(keys)
    assert [counting.invoke("count", session=key).json["body"] for key in keys] == [2] * len(keys)


def quoted(key):
    import urllib.parse

    return urllib.parse.quote(key, safe="")


def test_a_session_key_may_come_three_ways_but_must_be_one(counting):
    body = json.dumps({"payload": None, "session_key": "ways"})
    path = "/functions/count/invoke"
    assert counting.api("POST", path, body, Nimbus_Session_Key="ways").json["body"] == 1
    refused = counting.api("POST", path + "?session_key=other", body)
    assert (refused.status, refused.json["code"]) == (400, "invalid_argument")
    for bad in ("", "a" * 257, "a%00b", "a%0Ab"):
        assert counting.api("POST", path + f"?session_key={bad}", "{}").status == 400


def test_values_come_back_as_they_were_sent(server):
    server.deploy("keep", "def handle(event, state):\n    return state.get('v')\n")
    assert server.invoke("keep", session="raw").status == 200
    text = '{"b" : [1, 2.50, 123456789012345678901234567890, "\\u00e4"], "a":{}}'
    put = server.api("PUT", "/functions/keep/state/raw/v", text)
    assert (put.status, put.headers["ETag"]) == (201, '"1"')
    assert server.api("GET", "/functions/keep/state/raw/v").text == text


def test_a_stateless_call_has_no_session(counting):
    answer = counting.invoke("count-node")
    assert answer.json["session_key"] is None
    assert "Nimbus-Session-Seq" not in answer.headers


@pytest.mark.parametrize("runtime, code", [
    ("python", "def handle(event, state):\n    state.set('x', 1)\n    raise ValueError('no such item')\n"),
    ("node", "exports.handle = async (event, state) => { await state.set('x', 1); throw new RangeError('no such item'); }\n"),
])
def test_a_function_that_raises_is_500_and_leaves_no_trace(server, runtime, code):
    name = f"raises-{runtime}"
    server.deploy(name, code, runtime=runtime)
    answer = server.invoke(name, session="s")
    assert (answer.status, answer.json["code"]) == (500, "function_error")
    assert answer.json["error"]["type"] in ("ValueError", "RangeError")
    assert answer.json["error"]["message"] == "no such item"
    assert "main." in answer.json["error"]["trace"]
    assert answer.headers["Nimbus-Session-Seq"] == "1"
    assert server.api("GET", f"/functions/{name}/state/s").json["keys"] == []
    assert server.invoke(name, session="s").headers["Nimbus-Session-Seq"] == "2"


def test_what_a_failed_call_wrote_is_kept_if_the_function_says_so(server):
    server.deploy("keeps", "def handle(event, state):\n    state.set('x', 1)\n    raise ValueError()\n",
                  state_config={"on_error": "keep"})
    assert server.invoke("keeps", session="s").status == 500
    assert [one["key"] for one in server.api("GET", "/functions/keeps/state/s").json["keys"]] == ["x"]


@pytest.mark.parametrize("runtime, code", [
    ("python", "import os\ndef handle(event, state):\n    n = state.incr('n')\n    if event: os._exit(3)\n    return n\n"),
    ("node", "exports.handle = async (event, state) => { const n = await state.incr('n'); if (event) process.exit(3); return n; }\n"),
])
def test_a_crash_is_502_and_the_session_goes_on(server, runtime, code):
    name = f"crashes-{runtime}"
    server.deploy(name, code, runtime=runtime)
    assert server.invoke(name, False, session="s").json["body"] == 1
    answer = server.invoke(name, True, session="s")
    assert (answer.status, answer.json["code"]) == (502, "function_crashed")
    assert "exited with 3" in answer.json["detail"]
    after = server.invoke(name, False, session="s")
    assert (after.json["body"], after.headers["Nimbus-Session-Seq"]) == (2, "3")


@pytest.mark.parametrize("runtime, code", [
    ("python", "def handle(event, state):\n    n = state.incr('n')\n    while event: pass\n    return n\n"),
    ("node", "exports.handle = async (event, state) => { const n = await state.incr('n'); while (event); return n; }\n"),
])
def test_a_call_that_hangs_is_504_and_the_session_goes_on(server, runtime, code):
    name = f"hangs-{runtime}"
    server.deploy(name, code, runtime=runtime, timeout_ms=300)
    assert server.invoke(name, False, session="s").json["body"] == 1
    answer = server.invoke(name, True, session="s")
    assert (answer.status, answer.json["code"]) == (504, "timeout")
    after = server.invoke(name, False, session="s", timeout_ms=20000)
    assert (after.json["body"], after.headers["Nimbus-Session-Seq"]) == (2, "3")


def test_a_function_may_choose_its_status(server):
    server.deploy("status", "def handle(event):\n    return event\n")
    answer = server.invoke("status", {"status_code": 404, "body": {"no": 1}})
    assert (answer.status, answer.json["status_code"], answer.json["body"]) == (404, 404, {"no": 1})
    assert server.invoke("status", {"status_code": 204, "body": None}).body == b""
    for ordinary in ({"status_code": 99, "body": 1}, {"status_code": 200, "body": 1, "more": 1}):
        answer = server.invoke("status", ordinary)
        assert (answer.status, answer.json["body"]) == (200, ordinary)


def test_a_busy_session_may_be_refused_and_a_line_has_an_end(server):
    code = ("import time, os\ndef handle(event):\n"
            "    while event and not os.path.exists(event): time.sleep(0.01)\n")
    server.deploy("slow", code, isolation="process", queue={"max_per_session": 1})
    gate = server.data / "open"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        running = pool.submit(server.invoke, "slow", str(gate), "s")
        waited = wait_until(lambda: server.api("GET", "/functions/slow/sessions/s"), lambda a: a.status == 200 and a.json["status"] == "running")
        assert waited.json["queue_length"] == 0
        busy = server.invoke("slow", None, "s", busy="reject")
        assert (busy.status, busy.json["code"]) == (409, "conflict")
        waiting = pool.submit(server.invoke, "slow", None, "s")
        wait_until(lambda: server.api("GET", "/functions/slow/sessions/s"), lambda a: a.json["queue_length"] == 1)
        full = server.invoke("slow", None, "s")
        assert (full.status, full.json["code"], full.json["queue_length"]) == (429, "queue_full", 1)
        assert int(full.headers["Retry-After"]) >= 1
        gate.touch()
        assert [running.result().headers["Nimbus-Session-Seq"], waiting.result().headers["Nimbus-Session-Seq"]] == ["1", "2"]


def test_a_caller_may_wait_for_room_in_the_line(server):
    code = ("import time, os\ndef handle(event):\n"
            "    while event and not os.path.exists(event): time.sleep(0.01)\n")
    server.deploy("patient", code, isolation="process", queue={"max_per_session": 1, "on_full": "block"})
    gate = server.data / "room"
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(server.invoke, "patient", str(gate), "s") for _ in range(6)]
        wait_until(lambda: server.api("GET", "/functions/patient/sessions/s"), lambda a: a.status == 200 and a.json["queue_length"] == 5)
        gate.touch()
        answers = [call.result() for call in calls]
    assert {answer.status for answer in answers} == {200}
    assert sorted(int(answer.headers["Nimbus-Session-Seq"]) for answer in answers) == [1, 2, 3, 4, 5, 6]


def wait_until(look, is_so, patience=20):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        seen = look()
        if is_so(seen):
            return seen
        time.sleep(0.01)
    raise AssertionError(f"still {seen.text}")


def test_sessions_of_a_function_run_side_by_side(server):
    # Each waits until the other runs, too.
    code = ("import os, pathlib, time\ndef handle(event):\n"
            "    pathlib.Path(event[0]).touch()\n"
            "    while not os.path.exists(event[1]): time.sleep(0.005)\n")
    server.deploy("parallel", code, isolation="process")
    meeting = [str(server.data / "one is here"), str(server.data / "two is here")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        one = pool.submit(server.invoke, "parallel", meeting, "s1")
        two = pool.submit(server.invoke, "parallel", meeting[::-1], "s2")
        answers = [one.result(), two.result()]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.headers["Nimbus-Instance"] for answer in answers}) == 2


def test_a_deleted_session_begins_anew(counting):
    assert counting.invoke("count", session="anew").json["body"] == 1
    assert counting.api("DELETE", "/functions/count/sessions/anew").status == 204
    assert counting.api("DELETE", "/functions/count/sessions/anew").status == 204
    assert counting.api("GET", "/functions/count/sessions/anew").status == 404
    answer = counting.invoke("count", session="anew")
    assert (answer.json["body"], answer.headers["Nimbus-Session-Seq"]) == (1, "1")


def test_sessions_are_listed_in_pages(counting):
    for n in range(5):
        counting.invoke("count", session=f"page-{n}")
    keys, cursor = [], ""
    while cursor is not None:
        page = counting.api("GET", f"/functions/count/sessions?limit=3&cursor={cursor}").json
        assert page["sessions"] == page["items"]
        keys += [one["session_key"] for one in page["items"]]
        cursor = page["next_cursor"]
    assert [key for key in keys if key.startswith("page-")] == [f"page-{n}" for n in range(5)]
    assert counting.api("GET", "/functions/count/sessions?limit=0").status == 400


def test_a_session_expires_and_its_numbers_go_on(server):
    server.deploy("brief", COUNT, state_config={"session_timeout": 0.2})
    assert server.invoke("brief", session="s").headers["Nimbus-Session-Seq"] == "1"
    wait_until(lambda: server.api("GET", "/functions/brief/sessions/s"), lambda a: a.status == 404)
    answer = server.invoke("brief", session="s")
    assert (answer.headers["Nimbus-Session-Seq"], answer.json["body"]) == ("2", 2)


def test_acknowledged_calls_outlive_a_kill(tmp_path):
    with Server(tmp_path) as server:
        server.deploy("count", COUNT_IN_NODE, runtime="node")
        counted, stop = {}, threading.Event()

        def call(session):
            while not stop.is_set():
                try:
                    answer = server.invoke("count", session=session)
                except OSError:
                    return
                if answer.status == 200:
                    counted[session] = (answer.json["body"], int(answer.headers["Nimbus-Session-Seq"]))

        threads = [threading.Thread(target=call, args=(f"s{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 20
        while len(counted) < 8 or min(n for n, _ in counted.values()) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.send_signal(signal.SIGKILL)
        server.wait()
        stop.set()
        for thread in threads:
            thread.join()
    with Server(tmp_path) as server:
        for session, (value, seq) in counted.items():
            answer = server.invoke("count", session=session)
            # One call more may have been committed whose answer was not heard.
            assert answer.json["body"] in (value + 1, value + 2)
            assert int(answer.headers["Nimbus-Session-Seq"]) > seq


def test_instances_are_gone_soon_after_the_server(tmp_path):
    pids = []
    with Server(tmp_path) as server:
        server.deploy("pid", "import os, time\ndef handle(event):\n    return os.getpid()\n")
        server.deploy("pid-node", "exports.handle = () => process.pid;\n", runtime="node")
        pids = [server.invoke("pid").json["body"], server.invoke("pid-node").json["body"]]
        server.send_signal(signal.SIGKILL)
        server.wait()
    deadline = time.monotonic() + 5
    for pid in pids:
        while is_running(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_caller_that_leaves_harms_nobody(server):
    code = ("import os, time\ndef handle(event, state):\n"
            "    while event and not os.path.exists(event): time.sleep(0.01)\n"
            "    if event: state.set('n', 1)\n"
            "    return state.get('n')\n")
    server.deploy("left", code, isolation="process")
    gate = server.data / "left"
    body = json.dumps({"payload": str(gate)})
    leaver = server.connect()
    leaver.request("POST", "/api/v1/functions/left/invoke?session_key=s", body, {"Authorization": f"Bearer {server.key}"})
    wait_until(lambda: server.api("GET", "/functions/left/sessions/s"), lambda a: a.status == 200 and a.json["status"] == "running")
    waiter = server.connect()
    waiter.request("POST", "/api/v1/functions/left/invoke?session_key=s", '{"payload": null}', {"Authorization": f"Bearer {server.key}"})
    wait_until(lambda: server.api("GET", "/functions/left/sessions/s"), lambda a: a.json["queue_length"] == 1)
    leaver.close()
    waiter.close()
    # One that waits never runs, and frees its place; one that runs goes on to its end.
    wait_until(lambda: server.api("GET", "/functions/left/sessions/s"), lambda a: a.json["queue_length"] == 0)
    gate.touch()
    answer = server.invoke("left", None, session="s")
    assert (answer.json["body"], answer.headers["Nimbus-Session-Seq"]) == (1, "2")
