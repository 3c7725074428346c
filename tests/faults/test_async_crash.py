"""kill -9 of the server while calls of both kinds, and calls that functions send, are under way."""

import os
import random
import signal
import threading
import time

import pytest

from load import Server
from redis_server import Redis

KILLS = 8

# Each call appends its name to a list of its session, and some have another appended elsewhere. Some attempts fail.
CODE = """
from nimbus import send
def handle(event, state, context):
    if event.get("fail_first") and context.attempt == 1: raise ValueError("the first attempt")
    state.set("done", state.get("done", []) + [[event["name"], context.session_seq]], ttl=-1)
    for n in range(event.get("sends", 0)):
        send("record", event["to"], {"name": event["name"] + "/%d" % n})
    return context.session_seq
"""
SETTINGS = {"state_config": {"max_state_size": 0, "session_timeout": 0},
            "retry": {"max_attempts": 5, "initial_ms": 5, "factor": 1, "max_ms": 10}}


class Callers:
    """Threads that call, and remember what was acknowledged."""

    def __init__(self, seed, sessions=4, threads=6):
        self.server = None
        self.taken = {}  # asynchronous calls that were acknowledged: name -> (session, request id, number)
        self.answered = {}  # others: name -> (session, number)
        self.sent = {}  # by those that were: name -> session of the receiver
        self._sessions = [f"s{n}" for n in range(sessions)]
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n, random.Random(seed + n))) for n in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    @property
    def acknowledged(self):
        return len(self.taken) + len(self.answered)

    def _run(self, thread, rng):
        count = 0
        while not self._stopping.is_set():
            server = self.server
            if server is None:
                time.sleep(0.001)
                continue
            count += 1
            name, session, to = f"t{thread}-{count}", rng.choice(self._sessions), rng.choice(self._sessions)
            later = rng.random() < 0.6
            payload = {"name": name, "to": "r" + to, "sends": rng.choice([0, 0, 2]), "fail_first": later and rng.random() < 0.1}
            try:
                answer = server.invoke("record", payload, session=session, **({"mode": "async"} if later else {}))
                if answer.status == 202:
                    self.taken[name] = (session, answer.json["request_id"], answer.json["session_seq"])
                elif answer.status == 200:
                    self.answered[name] = (session, int(answer.headers["Nimbus-Session-Seq"]))
                else:
                    continue
            except (OSError, ValueError):
                continue
            for n in range(payload["sends"]):
                self.sent[f"{name}/{n}"] = payload["to"]


def done(server, session):
    answer = server.api("GET", f"/functions/record/state/{session}/done")
    return answer.json if answer.status == 200 else []


@pytest.fixture(params=["sqlite", "redis"])
def start(request, tmp_path):
    """Starts a server, again and again, on one store."""
    if request.param == "sqlite":
        yield lambda: Server(tmp_path)
        return
    with Redis(tmp_path / "redis") as redis:
        yield lambda: Server(tmp_path, "--store", redis.url)


def test_every_acknowledged_call_runs_once_and_in_order(start):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    rng = random.Random(seed)
    with start() as server:
        server.deploy("record", CODE, **SETTINGS)
    with Callers(seed) as callers:
        for _ in range(KILLS):
            with start() as server:
                callers.server = server
                enough = callers.acknowledged + rng.randrange(10, 80)
                deadline = time.monotonic() + 60
                while callers.acknowledged < enough:
                    assert time.monotonic() < deadline, "too little happens"
                    time.sleep(0.002)
                callers.server = None
                server.send_signal(signal.SIGKILL)
                server.wait()
    with start() as server:
        for name, (_, request_id, seq) in callers.taken.items():
            shown = server.api("GET", f"/invocations/{request_id}?wait_ms=60000").json
            assert shown["status"] == "succeeded" and shown["body"] == seq, (seed, name, shown)
        deadline = time.monotonic() + 60
        while True:
            stored = {f"{kind}s{n}": done(server, f"{kind}s{n}") for kind in ("", "r") for n in range(4)}
            arrived = {name for rows in stored.values() for name, _ in rows}
            if callers.sent.keys() <= arrived:
                break
            assert time.monotonic() < deadline, (seed, callers.sent.keys() - arrived)
    for session, rows in stored.items():
        names, numbers = [name for name, _ in rows], [number for _, number in rows]
        assert len(set(names)) == len(names), f"NIMBUS_SEED={seed}: {session} has something twice"
        assert numbers == sorted(set(numbers)), f"NIMBUS_SEED={seed}: {session} is out of order"
    place = {name: (session, number) for session, rows in stored.items() for name, number in rows}
    for name, (session, _, seq) in callers.taken.items():
        assert place[name] == (session, seq), f"NIMBUS_SEED={seed}: {name}"
    for name, told in callers.answered.items():
        assert place[name] == told, f"NIMBUS_SEED={seed}: {name}"
    for name, to in callers.sent.items():
        assert place[name][0] == to, f"NIMBUS_SEED={seed}: {name}"
        sibling = name[:-1] + "0"
        assert place[sibling][1] <= place[name][1], f"NIMBUS_SEED={seed}: {name} has overtaken {sibling}"
    assert len(callers.taken) > 5 * KILLS and callers.sent, "too little happened to prove anything"
