"""What an acknowledged commit survives when its process does not."""

import random
import shutil
import signal
import subprocess

import pytest

from store_process import Writer, check_nothing_lost, last_numbers


def test_sigkill_at_random_moments_loses_nothing(tmp_path, tries):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    moments = random.Random(seed)
    database = tmp_path / "nimbus.db"
    total = 0
    for _ in range(tries(20, 200)):
        # The same file each time: every start recovers what the last kill left.
        writer = Writer(database)
        wanted = moments.randrange(1, 2000)
        writer.wait_for(lambda w: w.acks >= wanted)
        writer.kill()
        check_nothing_lost(database, writer)
        total += writer.acks
    print(f"{total} commits acknowledged, none lost")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_sigkill_at_exactly_the_nth_write_or_sync_loses_nothing(tmp_path, tries, call):
    # Every one of the first calls, then ever wider apart: the first ones create the file, the later
    # ones are commits and checkpoints.
    step = tries(4, 1)
    for index, n in enumerate(list(range(1, 40, step)) + list(range(40, 400, 40 * step))):
        database = tmp_path / f"{call}{index}.db"
        inject = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={n}"]
        writer = Writer(database, producers=4, prefix=inject)
        writer.process.wait(timeout=60)
        writer.ended()
        check_nothing_lost(database, writer)


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
    for _ in range(tries(3, 30)):
        survivor = Writer(database, first=0)
        victim = Writer(database, first=100)
        survivor.wait_for(lambda w: w.acks > 50)
        victim.wait_for(lambda w: w.acks > 50)
        victim.kill()
        before = survivor.acks
        survivor.wait_for(lambda w: w.acks > before + 100)
        survivor.kill()
        assert not survivor.errors
        check_nothing_lost(database, survivor, victim)


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
    before = writer.acks
    filler.unlink()
    writer.wait_for(lambda w: w.acks > before + 20)
    writer.kill()
    check_nothing_lost(database, writer)


def test_a_restart_continues_where_the_last_process_ended(tmp_path):
    database = tmp_path / "nimbus.db"
    first = Writer(database)
    first.wait_for(lambda w: w.acks > 100)
    first.kill()
    stored = last_numbers(database, first.producers)
    second = Writer(database)
    second.wait_for(lambda w: all(w.acknowledged.values()))
    second.kill()
    assert all(second.acknowledged[p] > stored[p] for p in stored)
    check_nothing_lost(database, second)
