"""Errors of the store in the middle of calls, one by one: which are answered, with what, and what becomes of the rest."""

import os
import random
import shutil
import signal
import time

import pytest

from load import Load, Server, deploy_record

SESSIONS = 6
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


@pytest.fixture
def seed():
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    return seed


@pytest.fixture
def deployed(tmp_path):
    with Server(tmp_path) as server:
        deploy_record(server)
        assert server.stop()[0] == 0
    return tmp_path


class Injected(Server):
    """A server whose system calls of that name fail at those times (`when`), with that error."""

    def __init__(self, directory, call, error, when, *which):
        super().__init__(directory, prefix=["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", *which, "-e", f"trace={call}",
                                            "-e", f"inject={call}:error={error}:when={when}"])

    def close(self):
        # Who is traced goes on when strace is killed.
        if self.process.poll() is None:
            for child in children_of(self.process.pid):
                os.kill(child, signal.SIGKILL)
        super().close()


def children_of(process):
    with open(f"/proc/{process}/task/{process}/children") as children:
        return [int(child) for child in children.read().split()]


def finish_and_check(load, directory, seed):
    with Server(directory) as server:
        load.finish(server)
    history = load.save(directory / "history.jsonl")
    assert load.acknowledged > 20, "too little happened to prove anything"
    assert load.wrong() == [], f"NIMBUS_SEED={seed}, {history}"


@needs_strace
@pytest.mark.parametrize("when", ["150", "150..180", "100..400+7"], ids=["once", "for a while", "now and then"])
def test_writes_that_find_no_room_are_refused_and_the_next_ones_go_on(deployed, seed, when):
    wal = deployed / "data" / "nimbus.db-wal"
    with Load(sessions=SESSIONS, callers=8, seed=seed) as load:
        with Injected(deployed, "pwrite64", "ENOSPC", when, "-P", str(wal)) as server:
            load.server = server
            load.wait_for(lambda: load.answers["insufficient_storage"] > 0)
            # strace counts what is injected; when it is over, all sessions go on.
            enough = load.acknowledged + 300
            load.wait_for(lambda: load.acknowledged >= enough)
            begin = time.monotonic()
            load.wait_for(lambda: len(load.acknowledged_since(begin)) == SESSIONS)
            load.server = None
    assert set(load.answers) <= {"ok", "insufficient_storage", "function_error", "function_crashed", "none"}
    finish_and_check(load, deployed, seed)


@needs_strace
@pytest.mark.parametrize("call, error", [("fdatasync", "EIO"), ("fdatasync", "ENOSPC"), ("pwrite64", "EIO")])
def test_a_write_or_sync_that_fails_ends_the_server_and_the_history_stays_sound(deployed, seed, call, error):
    rng = random.Random(seed)
    with Load(sessions=SESSIONS, callers=8, seed=seed) as load:
        for _ in range(3):
            with Injected(deployed, call, error, str(rng.randrange(30, 90)), "-P", str(deployed / "data" / "nimbus.db-wal")) as server:
                load.server = server
                assert server.wait(60) == 74
                load.server = None
                assert "cannot be trusted" in server.log_text()
        with Server(deployed) as server:
            load.server = server
            begin = time.monotonic()
            load.wait_for(lambda: len(load.acknowledged_since(begin)) == SESSIONS)
            load.server = None
    finish_and_check(load, deployed, seed)


def freeze_at_its_turn(frozen, its_load, other_load):
    """Stops a server at a moment at which another one that shares its store cannot go on without it."""
    for _ in range(200):
        frozen.send_signal(signal.SIGSTOP)
        before = other_load.acknowledged
        try:
            other_load.wait_for(lambda: other_load.acknowledged > before + 10, patience=0.7)
        except AssertionError:
            return
        frozen.send_signal(signal.SIGCONT)
        before = its_load.acknowledged
        its_load.wait_for(lambda: its_load.acknowledged > before + 3)
    raise AssertionError("never frozen at its turn")


def test_a_server_frozen_at_its_turn_makes_the_other_refuse_in_time_and_go_on_after(deployed, seed):
    theirs = Load(sessions=SESSIONS, callers=8, seed=seed, name="theirs", dies=0)
    ours = Load(sessions=SESSIONS, callers=8, seed=seed + 100, name="ours", dies=0)
    with Server(deployed) as frozen, Server(deployed) as server, theirs, ours:
        theirs.server, ours.server = frozen, server
        for load in (theirs, ours):
            load.wait_for(lambda: len(load.acknowledged_since(0)) == SESSIONS)
        assert "unavailable" not in ours.answers
        freeze_at_its_turn(frozen, theirs, ours)
        try:
            refused = ours.answers["unavailable"]
            ours.wait_for(lambda: ours.answers["unavailable"] > refused + 20, patience=15)
            began = time.monotonic()
            answer = server.invoke("record", {"call": "late", "deed": "", "size": 0}, session="another")
            assert (answer.status, answer.json["code"], answer.json["outcome"]) == (503, "unavailable", "not_applied")
            assert time.monotonic() - began < 5
        finally:
            frozen.send_signal(signal.SIGCONT)
        for load in (theirs, ours):
            begin = time.monotonic()
            load.wait_for(lambda: len(load.acknowledged_since(begin)) == SESSIONS)
        theirs.server = ours.server = None
    assert ours.slowest < 5
    assert set(ours.answers) | set(theirs.answers) <= {"ok", "unavailable", "function_error", "none"}
    with Server(deployed) as server:
        for load in (theirs, ours):
            load.finish(server)
            assert load.wrong() == [], f"NIMBUS_SEED={seed}"
