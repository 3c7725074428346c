"""What an acknowledged commit survives when the power goes.

SIGKILL says nothing about fsync: the page cache outlives the process. So the data lies on a file
system of its own inside an image file. A cut freezes the writer and copies the image as it is at
that moment: what the file system had not been made to write is not in it. The copy is mounted and
recovered as after a power failure.
"""

import filecmp
import itertools
import shutil
import signal
import subprocess

import pytest

from store_process import Writer, last_numbers, lost, was_checkpointed


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


class Disk:
    """An ext4 file system in an image file."""

    def __init__(self, image, mount):
        self.image, self.mount = image, mount
        mount.mkdir(exist_ok=True)
        done = run("mount", "-o", "loop", str(image), str(mount))
        if done.returncode != 0:
            pytest.skip(f"loop devices are not permitted here: {done.stderr.strip()}")

    def unmount(self):
        done = run("umount", str(self.mount))
        assert done.returncode == 0, done.stderr


@pytest.fixture
def disk(tmp_path):
    image = tmp_path / "disk.img"
    subprocess.run(["truncate", "-s", "128M", str(image)], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    disk = Disk(image, tmp_path / "disk")
    yield disk
    disk.unmount()


cuts = itertools.count()


def copy_of(image, copy):
    """A copy of the image as it is at one moment: the same when made twice."""
    twin = copy.with_suffix(".twin")
    for _ in range(20):
        shutil.copyfile(image, copy)
        shutil.copyfile(image, twin)
        if filecmp.cmp(copy, twin, shallow=False):
            twin.unlink()
            return
    raise AssertionError("the image does not come to rest")


def cut_power(disk, tmp_path, synchronous, acks):
    """Commits, cuts, recovers. (acknowledged, stored or None if the database cannot be read, whether
    there was a checkpoint before the cut)"""
    shutil.rmtree(disk.mount / "data", ignore_errors=True)
    (disk.mount / "data").mkdir()
    run("sync", "-f", str(disk.mount))
    writer = Writer(disk.mount / "data" / "nimbus.db", synchronous=synchronous)
    writer.wait_for(lambda w: w.acks >= acks)
    writer.process.send_signal(signal.SIGSTOP)
    # An image of its own for each cut: one that somebody still has mounted would show what it held then.
    copy = tmp_path / f"cut-{next(cuts)}.img"
    copy_of(disk.image, copy)
    writer.kill()
    # What it said before it was frozen is what a client knew when the power went; what came out of
    # the pipe later was said before, too.
    after = Disk(copy, tmp_path / "after")
    database = after.mount / "data" / "nimbus.db"
    try:
        checkpointed = database.exists() and was_checkpointed(database)
        stored = last_numbers(database, writer.producers)
    except AssertionError:
        stored = None
    finally:
        after.unmount()
        copy.unlink()
    return writer.acknowledged, stored, checkpointed


def test_power_cuts_lose_nothing_that_was_acknowledged(disk, tmp_path, tries):
    total = 0
    behind_checkpoints = 0
    wanted = tries(20, 200)
    for cut in range(wanted):
        acknowledged, stored, checkpointed = cut_power(disk, tmp_path, "full", acks=50 + 97 * cut % 1500)
        assert stored is not None, f"cut {cut}: the database cannot be read"
        assert lost(acknowledged, stored) == 0, f"cut {cut}: acknowledged {acknowledged}, stored {stored}"
        total += sum(acknowledged.values())
        behind_checkpoints += checkpointed
    print(f"{total} commits acknowledged, none lost; {behind_checkpoints} of {wanted} cuts came after a checkpoint")
    assert behind_checkpoints > wanted / 2


def test_the_method_sees_loss_where_nothing_is_synced(disk, tmp_path):
    """Proves that the test above can fail."""
    acknowledged, stored, _ = cut_power(disk, tmp_path, "off", acks=500)
    assert stored is None or lost(acknowledged, stored) > 0
