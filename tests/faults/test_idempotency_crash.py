"""kill -9 of the server while many callers repeat the same requests with the same Idempotency-Key, at once."""

import os
import random
import signal
import threading
import time

import pytest

from load import Server
from redis_server import Redis

KILLS = 6
CALLERS = 6
SESSIONS = 3

CODE = """
import time
def handle(event, state, context):
    done = state.get("done", [])
    time.sleep(event["sleep_ms"] / 1000)
    if event["fails"]: raise ValueError("%s fails as number %d" % (event["name"], len(done)))
    state.set("done", done + [event["name"]], ttl=-1)
    return {"name": event["name"], "place": len(done)}
"""
SETTINGS = {"state_config": {"max_state_size": 0, "session_timeout": 0}}


class Work:
    """Requests by their key. Several callers have each of them to do, at about the same time."""

    def __init__(self, seed):
        self.server = None
        self.answers = {}  # key -> what was answered, once for each caller
        self.replayed = 0
        self.under_way = 0
        self.odd = []
        self._seed = seed
        self._next = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(CALLERS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _take(self):
        with self._lock:
            self._next += 1
            return (self._next - 1) // 3  # every request three times

    def _run(self, caller):
        while not self._stopping.is_set():
            self._do(self._take())

    def _do(self, number):
        rng = random.Random(self._seed + number)
        key, session = f"k{number}", f"s{rng.randrange(SESSIONS)}"
        payload = {"name": key, "sleep_ms": rng.choice([0, 1, 5]), "fails": rng.random() < 0.2}
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            server = self.server
            try:
                if server is None:
                    raise OSError("nobody is there")
                answer = server.api("POST", f"/functions/once/invoke?session_key={session}", {"payload": payload}, Idempotency_Key=key)
            except (OSError, ValueError):
                time.sleep(0.002)
                continue
            with self._lock:
                if answer.status in (200, 500):
                    told = (answer.status, answer.headers["Nimbus-Session-Seq"],
                            answer.json["body"] if answer.status == 200 else answer.json["error"]["message"], session)
                    self.answers.setdefault(key, []).append(told)
                    self.replayed += answer.headers["Idempotent-Replayed"] == "true"
                    return
                if answer.status == 409 and answer.headers["Retry-After"]:
                    self.under_way += 1
                elif answer.status != 503:
                    self.odd.append((key, answer.status, answer.text))
                    return
            time.sleep(0.002)
        self.odd.append((key, "was never answered"))


@pytest.fixture(params=["sqlite", "redis"])
def start(request, tmp_path):
    if request.param == "sqlite":
        yield lambda: Server(tmp_path)
        return
    with Redis(tmp_path / "redis") as redis:
        yield lambda: Server(tmp_path, "--store", redis.url)


def test_every_request_has_its_effect_once_and_all_who_repeat_it_the_same_answer(start):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    rng = random.Random(seed)
    with start() as server:
        server.deploy("once", CODE, **SETTINGS)
    with Work(seed) as work:
        for kill in range(KILLS + 1):
            with start() as server:
                work.server = server
                enough = len(work.answers) + rng.randrange(10, 60)
                deadline = time.monotonic() + 60
                while len(work.answers) < enough:
                    assert time.monotonic() < deadline, "too little happens"
                    time.sleep(0.002)
                if kill == KILLS:
                    work._stopping.set()
                    for thread in work._threads:
                        thread.join()
                    stored = {f"s{n}": server.api("GET", f"/functions/once/state/s{n}/done").json for n in range(SESSIONS)}
                work.server = None
                server.send_signal(signal.SIGKILL)
                server.wait()
    assert not work.odd, f"NIMBUS_SEED={seed}: {work.odd}"
    for session, names in stored.items():
        assert len(set(names)) == len(names), f"NIMBUS_SEED={seed}: {session} has something twice"
    for key, told in work.answers.items():
        assert len(set(map(repr, told))) == 1, f"NIMBUS_SEED={seed}: {key} was answered differently: {told}"
        status, _, said, session = told[0]
        assert (key in stored[session]) == (status == 200), f"NIMBUS_SEED={seed}: {key}"
        if status == 200:
            assert said == {"name": key, "place": stored[session].index(key)}, f"NIMBUS_SEED={seed}: {key}"
    assert work.replayed > KILLS and work.under_way > KILLS, "too little was repeated to prove anything"
