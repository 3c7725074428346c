"""The disk fills while sessions are called: refusals that say so, and nothing lost, before, during or after."""

import contextlib
import os
import random
import signal
import subprocess
import time

import pytest

from load import RECORD, SETTINGS, Load, Server, deploy_record

SESSIONS = 8


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(params=["tmpfs", "ext4"])
def place(tmp_path, request):
    """A directory for a Server whose data lies on a file system of its own, of 32 MiB."""
    data = tmp_path / "data"
    data.mkdir()
    if request.param == "tmpfs":
        done = run("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(data))
    else:
        image = tmp_path / "disk.img"
        run("truncate", "-s", "32M", str(image))
        run("mkfs.ext4", "-q", "-F", "-m", "0", str(image))
        done = run("mount", "-o", "loop", str(image), str(data))
    if done.returncode != 0:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(data)], check=True)


class Ballast:
    """Fills a disk to its last byte, and frees it again."""

    def __init__(self, directory):
        self.directory = directory

    def fill(self):
        path = self.directory / "ballast"
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError), open(path, "ab", buffering=0) as file:
                while file.write(bytes(size)) == size:
                    pass
        with contextlib.suppress(OSError), open(path, "ab") as file:
            os.fsync(file.fileno())

    def free(self):
        (self.directory / "ballast").unlink()


def fill_until_refused(load, ballast, refusals=40):
    """Whoever writes keeps finding some room: what is in the middle of a file that is being reused."""
    wanted = load.answers["insufficient_storage"] + refusals
    deadline = time.monotonic() + 60
    while load.answers["insufficient_storage"] < wanted:
        assert time.monotonic() < deadline, load.answers
        ballast.fill()
        with contextlib.suppress(AssertionError):
            load.wait_for(lambda: load.answers["insufficient_storage"] >= wanted, patience=1)


def wait_until_all_go_on(load):
    begin = time.monotonic()
    load.wait_for(lambda: len(load.acknowledged_since(begin)) == SESSIONS)


def test_a_full_disk_refuses_calls_loses_none_and_is_over_when_there_is_room(place):
    seed = int(os.environ.get("NIMBUS_SEED", random.randrange(2**31)))
    print(f"NIMBUS_SEED={seed}")
    ballast = Ballast(place / "data")
    load = Load(sessions=SESSIONS, callers=12, seed=seed, dies=1)
    with Server(place) as server:
        deploy_record(server)
        with load:
            load.server = server
            for _ in range(3):
                wait_until_all_go_on(load)
                fill_until_refused(load, ballast)
                health = server.get("/health")
                assert health.status in (200, 503)
                assert server.api("GET", "/functions/record/sessions").status == 200, "what is there can be read"
                ballast.free()
                wait_until_all_go_on(load)
            fill_until_refused(load, ballast)
            server.send_signal(signal.SIGKILL)
            load.server = None
            assert server.wait() == -signal.SIGKILL
            # It starts on a full disk too, and goes on when there is room.
            with Server(place) as server:
                load.server = server
                ballast.free()
                wait_until_all_go_on(load)
                server.send_signal(signal.SIGKILL)
                load.server = None
                server.wait()
    with Server(place) as server:
        load.finish(server)
    history = load.save(place / "history.jsonl")
    assert set(load.answers) <= {"ok", "insufficient_storage", "function_error", "function_crashed", "none"}
    assert load.wrong() == [], f"NIMBUS_SEED={seed}, {history}"


def test_what_is_too_much_for_the_disk_is_refused_and_what_is_not_goes_on(place):
    load = Load(sessions=SESSIONS, callers=4, seed=1, raises=0, dies=0)
    with Server(place) as server:
        deploy_record(server)
        server.deploy("hoard", "def handle(event, state):\n    state.set(str(event), 'x' * 500000)\n", **SETTINGS)
        n = 0
        while (hoarded := server.invoke("hoard", n, session="hoard")).status == 200:
            n += 1
            assert n < 200
        assert (hoarded.status, hoarded.json["code"], hoarded.json["outcome"]) == (507, "insufficient_storage", "not_applied")
        assert hoarded.headers["Content-Type"] == "application/problem+json"
        assert "Nimbus-Session-Seq" not in hoarded.headers, "its number may be given again"
        kept = server.api("GET", "/functions/hoard/state/hoard").json
        assert len(kept["keys"]) == n, "what was acknowledged is there, what was refused is not"
        # There is room left for less than that.
        with load:
            load.server = server
            load.wait_for(lambda: len(load.acknowledged_since(0)) == SESSIONS)
        load.finish(server)
    with Server(place) as server:
        assert server.api("GET", "/functions/hoard/state/hoard").json == kept
    assert load.wrong() == []


def test_a_deployment_on_a_full_disk_is_refused_and_leaves_the_old_version(place):
    ballast = Ballast(place / "data")
    with Server(place) as server:
        server.deploy("greet", "def handle(event):\n    return 'first'\n")
        assert server.invoke("greet").json["body"] == "first"
        ballast.fill()
        new = {"runtime": "python", "files": {"main.py": "def handle(event):\n    return 'second'\n", "data.txt": "x" * 500000}}
        for function in ("greet", "another"):
            refused = server.api("PUT", f"/functions/{function}", new)
            assert (refused.status, refused.json["code"]) == (507, "insufficient_storage"), refused.text
            assert refused.headers["Content-Type"] == "application/problem+json"
        assert server.api("GET", "/functions/greet").json["version"] == 1
        assert server.api("GET", "/functions/another").status == 404
        assert server.invoke("greet").json["body"] == "first"
        ballast.free()
        assert server.api("PUT", "/functions/greet", new).json["version"] == 2
        assert server.invoke("greet").json["body"] == "second"
        assert server.api("PUT", "/functions/another", new).status == 201
    with Server(place) as server:
        assert server.invoke("greet").json["body"] == "second"
