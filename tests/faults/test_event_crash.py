"""kill -9 of the server while many append to event logs: nothing acknowledged is lost, no seq is skipped or given
twice, and every state_delta has its effect exactly once."""

import contextlib
import http.client
import os
import random
import signal
import threading
import time

import pytest
from load import Server
from redis_server import Redis

SESSIONS = 4
WORKERS = 8  # two to a session
PATIENCE = 60


class Appender(threading.Thread):
    """Appends one event after the other; what was not answered is sent again, as it was."""

    def __init__(self, number, crash):
        super().__init__(daemon=True)
        self.number = number
        self.crash = crash
        self.session = number % SESSIONS
        # Every fourth leaves it to the server to name its events, and sends nothing twice.
        self.is_plain = number % 4 == 3
        self.acknowledged = {}  # id -> seq
        self.sent = 0
        self.wrong = []

    def event(self, n):
        if self.is_plain:
            return {"content": {"n": n}, "request_id": f"r{n % 7}"}
        return {"id": f"{self.number}-{n}", "content": {"n": n}, "request_id": f"r{n % 7}",
                "state_delta": {f"s{self.number}": n, f"app:a{self.number}": n, f"user:u{self.number}": n}}

    def run(self):
        while not self.crash.over.is_set():
            n = self.sent = self.sent + 1
            self.append(n)

    def append(self, n):
        while True:
            server = self.crash.server
            if server is None:
                if self.crash.over.wait(0.01):
                    return
                continue
            try:
                answer = server.api("POST", f"/apps/crash/users/u/sessions/{self.session}/events", self.event(n))
            except (OSError, http.client.HTTPException):
                if self.is_plain:
                    return
                continue
            if answer.status in (200, 201):
                self.acknowledged[answer.json["id"]] = answer.json["seq"]
                return
            if answer.status != 503:
                self.wrong.append(answer.text)
            if answer.status != 503 or self.is_plain:
                return


class Crash:
    def __init__(self):
        self.server = None
        self.over = threading.Event()


def eventually(what):
    deadline = time.monotonic() + PATIENCE
    while not what() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert what()


def events_of(server, session):
    items, cursor = [], ""
    while True:
        page = server.api("GET", f"/apps/crash/users/u/sessions/{session}/events?limit=1000{cursor}").json
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = "&cursor=" + page["next_cursor"]


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_appends_survive_kills(store, tmp_path, tries):
    with contextlib.ExitStack() as stack:
        arguments = []
        if store == "redis":
            redis = stack.enter_context(Redis(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always"))
            arguments = ["--store", redis.url]
        kill_servers(lambda: Server(tmp_path, *arguments), tries)


def test_appends_survive_kills_of_redis(tmp_path, tries):
    with Redis(tmp_path / "redis", "--appendonly", "yes", "--appendfsync", "always") as redis:
        kill_servers(lambda: Server(tmp_path, "--store", redis.url), tries, redis)


def kill_servers(start, tries, redis=None):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    rng = random.Random(seed)
    crash = Crash()
    with start() as server:
        for session in range(SESSIONS):
            assert server.api("POST", "/apps/crash/users/u/sessions", {"id": str(session)}).status == 201
    workers = [Appender(number, crash) for number in range(WORKERS)]
    done = lambda: sum(len(worker.acknowledged) for worker in workers)
    for worker in workers:
        worker.start()
    for _ in range(tries(6, 40)):
        with start() as server:
            enough = done() + rng.randrange(10, 80)
            crash.server = server
            eventually(lambda: done() >= enough)
            if redis:
                redis.kill()
                redis.start()
                enough = done() + rng.randrange(10, 80)
                eventually(lambda: done() >= enough)
            server.send_signal(signal.SIGKILL)
            crash.server = None
            server.wait()
    crash.over.set()
    for worker in workers:
        worker.join(PATIENCE)
        assert not worker.is_alive() and worker.wrong == []

    with start() as server:
        logs = {session: events_of(server, session) for session in range(SESSIONS)}
        for session, log in logs.items():
            assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
            assert len({event["id"] for event in log}) == len(log)
            by_id = {event["id"]: event["seq"] for event in log}
            for worker in workers:
                if worker.session == session:
                    assert worker.acknowledged.items() <= by_id.items()
        last = {}
        for log in logs.values():
            for event in log:
                if event["id"].startswith("evt_"):
                    continue
                last[int(event["id"].split("-")[0])] = event["content"]["n"]
        # What the last crash left is carried out by the server as soon as it is up.
        app = lambda: server.api("GET", "/apps/crash/state").json
        user = lambda: server.api("GET", "/apps/crash/users/u/state").json
        eventually(lambda: app() == {f"a{number}": n for number, n in last.items()})
        eventually(lambda: user() == {f"u{number}": n for number, n in last.items()})
        for session in range(SESSIONS):
            path = f"/apps/crash/users/u/sessions/{session}"
            wanted = {f"s{number}": n for number, n in last.items() if number % SESSIONS == session}
            assert server.api("GET", path + "/state").json == wanted
            assert server.api("GET", path + "/check").json == {"issues": []}
        assert len(server.api("GET", "/apps/crash/sessions").json["items"]) == SESSIONS
