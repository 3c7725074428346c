"""What an acknowledged commit survives when its process does not."""

import random
import shutil
import signal
import subprocess

import pytest

from store_process import Writer, check_nothing_lost, last_numbers, was_checkpointed


def test_sigkill_at_random_moments_loses_nothing(tmp_path, tries):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    database = tmp_path / "nimbus.db"
    total = 0
    stored = {}
    for _ in range(tries(20, 200)):
        # The same file each time: every start recovers what the last kill left.
        writer = Writer(database, before=stored)
        wanted = moments.randrange(1, 2000)
        writer.wait_for(lambda w: w.acks >= wanted)
        writer.kill()
        stored = check_nothing_lost(database, writer)
        total += writer.acks
    print(f"{total} commits acknowledged, none lost")
    assert was_checkpointed(database)


def kill_at(call, n, database, *which):
    """Commits until the nth such call is made, and is killed there; checks that nothing is lost."""
    inject = ["strace", "-f", "-qq", "-o", "/dev/null", *which, "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={n}"]
    writer = Writer(database, producers=4, prefix=inject)
    assert writer.ended() == -signal.SIGKILL
    check_nothing_lost(database, writer)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_sigkill_at_exactly_the_nth_write_or_sync_loses_nothing(tmp_path, tries, call):
    # Every one of the first calls, then ever wider apart: the first ones create the file, the later
    # ones are of commits, nearly all.
    step = tries(4, 1)
    for n in list(range(1, 40, step)) + list(range(40, 400, 40 * step)):
        kill_at(call, n, tmp_path / f"{n}.db")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_sigkill_inside_a_checkpoint_loses_nothing(tmp_path, tries, call):
    # The first write and sync of the database itself give it its first page. All others are of
    # checkpoints, each of which writes some ten to twenty pages and syncs them.
    for n in range(2, 60, tries(5, 1)):
        database = tmp_path / f"{n}.db"
        kill_at(call, n, database, "-P", str(database))
        assert was_checkpointed(database) or n == 2


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_failed_fsync_ends_the_process(tmp_path):
    inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=60"]
    writer = Writer(tmp_path / "nimbus.db", prefix=inject)
    assert writer.ended() == 74, writer.stderr
    assert "cannot be trusted" in writer.stderr
    assert not writer.errors, "an unknown outcome must not be answered"
    check_nothing_lost(tmp_path / "nimbus.db", writer)


def test_one_of_two_processes_dies_and_the_other_goes_on(tmp_path, tries):
    database = tmp_path / "nimbus.db"
    stored = {}
    for _ in range(tries(3, 30)):
        survivor = Writer(database, first=0, before=stored)
        victim = Writer(database, first=100, before=stored)
        survivor.wait_for(lambda w: w.acks > 50)
        victim.wait_for(lambda w: w.acks > 50)
        victim.kill()
        before = survivor.acks
        survivor.wait_for(lambda w: w.acks > before + 100)
        survivor.kill()
        assert not survivor.errors
        stored = check_nothing_lost(database, survivor, victim)


def test_a_frozen_process_delays_others_only_until_it_goes_on(tmp_path):
    database = tmp_path / "nimbus.db"
    frozen = Writer(database, first=0)
    other = Writer(database, first=100)
    for _ in range(10):
        for writer in (frozen, other):
            before = writer.acks
            writer.wait_for(lambda w: w.acks > before + 50)
        # Frozen at its turn it keeps the other waiting, frozen elsewhere it does not; both happen.
        frozen.process.send_signal(signal.SIGSTOP)
        other.progresses(by=100, seconds=0.3)
        frozen.process.send_signal(signal.SIGCONT)
    frozen.kill()
    other.kill()
    assert not frozen.errors and not other.errors
    check_nothing_lost(database, frozen, other)


def freeze_at_its_turn(frozen, other):
    """Stops `frozen` at a moment at which `other` cannot go on without it."""
    for _ in range(100):
        frozen.process.send_signal(signal.SIGSTOP)
        if not other.progresses(by=1, seconds=0.5):
            return
        frozen.process.send_signal(signal.SIGCONT)
        before = frozen.acks
        frozen.wait_for(lambda w: w.acks > before + 10)
    raise AssertionError("never frozen at its turn")


def test_a_process_frozen_at_its_turn_makes_others_refuse_in_time(tmp_path):
    database = tmp_path / "nimbus.db"
    frozen = Writer(database, first=0)
    other = Writer(database, first=100)
    frozen.wait_for(lambda w: w.acks > 50)
    other.wait_for(lambda w: w.acks > 50 and w.check == "ok")
    freeze_at_its_turn(frozen, other)
    other.wait_for(lambda w: w.errors and w.check == "unavailable", seconds=5)
    assert set(other.errors) == {("unavailable", "not_applied")}
    frozen.process.send_signal(signal.SIGCONT)
    before = other.acks
    other.wait_for(lambda w: w.acks > before + 50 and w.check == "ok")
    frozen.kill()
    other.kill()
    check_nothing_lost(database, frozen, other)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 24 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(mount)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "--lazy", str(mount)], check=True)


def test_a_full_disk_refuses_writes_and_recovers_by_itself(small_disk):
    database = small_disk / "nimbus.db"
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (16 << 20))
    writer = Writer(database)
    writer.wait_for(lambda w: w.errors)
    assert set(writer.errors) == {("insufficient_storage", "not_applied")}
    writer.wait_for(lambda w: w.check == "insufficient_storage")
    before = writer.acks
    filler.unlink()
    writer.wait_for(lambda w: w.acks > before + 20 and w.check == "ok")
    writer.kill()
    check_nothing_lost(database, writer)


def test_a_restart_continues_where_the_last_process_ended(tmp_path):
    database = tmp_path / "nimbus.db"
    first = Writer(database)
    first.wait_for(lambda w: w.acks > 100)
    first.kill()
    stored = last_numbers(database, first.producers)
    second = Writer(database, before=stored)
    second.wait_for(lambda w: all(w.acknowledged[p] > stored[p] for p in stored))
    second.kill()
    check_nothing_lost(database, second)
