"""Runs crash_writer and crash_reader, and compares what was acknowledged with what is there."""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading

BUILD = pathlib.Path(os.environ.get("NIMBUS_BUILD", "build"))
WRITER = str((BUILD / "tests/faults/crash_writer").resolve())
READER = str((BUILD / "tests/faults/crash_reader").resolve())


class Writer:
    """A crash_writer and the ledger of what it said. `before`: what its database holds already."""

    running = []  # those whose end nobody has waited for yet

    def __init__(self, database, producers=8, first=0, synchronous="full", prefix=(), before={}):
        self.producers = range(first, first + producers)
        self.acknowledged = {p: before.get(p, 0) for p in self.producers}
        self.errors = []
        self.acks = 0
        self.check = None  # what the store's check answered last: "ok" or a code
        self._changed = threading.Condition()
        command = [*prefix, WRITER, str(database), str(first), str(producers), synchronous]
        # A group of its own: whoever runs it (strace) is killed together with it.
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        Writer.running.append(self)
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self):
        for line in self.process.stdout:
            words = line.split()
            if not line.endswith("\n"):
                continue  # the kill came in the middle of a line: it was never said
            with self._changed:
                if words[0] == "ack":
                    producer, number = int(words[1]), int(words[2])
                    assert number == self.acknowledged[producer] + 1
                    self.acknowledged[producer] = number
                    self.acks += 1
                elif words[0] == "err":
                    self.errors.append((words[3], words[4]))
                elif words[0] == "check":
                    self.check = words[1]
                self._changed.notify_all()

    def wait_for(self, condition, seconds=30):
        """Returns once condition(self) holds; fails if it does not in time or the process ended."""
        with self._changed:
            met = self._changed.wait_for(lambda: condition(self) or self.process.poll() is not None, seconds)
            assert met and condition(self), f"after {self.acks} acks: exit {self.process.poll()}"

    def progresses(self, by, seconds):
        """Whether so many more commits are acknowledged in that time."""
        with self._changed:
            goal = self.acks + by
            return self._changed.wait_for(lambda: self.acks >= goal, seconds)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.ended()

    def ended(self):
        """The exit code, once everything it said has been heard."""
        code = self.process.wait(timeout=60)
        self._listener.join()
        Writer.running.remove(self)
        self.stderr = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def last_numbers(database, producers):
    """What a restarted store holds: {producer: last number}. Fails if a batch is torn."""
    command = [READER, str(database), str(producers.start), str(len(producers))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return {int(p): int(n) for p, n in (line.split() for line in done.stdout.splitlines())}


def was_checkpointed(database):
    """Whether the write-ahead log was ever copied back: until then the database is one page."""
    return database.stat().st_size > 4096


def lost(acknowledged, stored):
    """How many acknowledged commits are not there."""
    return sum(max(0, acknowledged[p] - stored[p]) for p in acknowledged)


def check_nothing_lost(database, *writers):
    """What is stored, by producer; it is what was acknowledged, or at most one more of each."""
    all_stored = {}
    for writer in writers:
        stored = last_numbers(database, writer.producers)
        assert lost(writer.acknowledged, stored) == 0, f"acknowledged {writer.acknowledged}, stored {stored}"
        for producer, number in writer.acknowledged.items():
            # One further commit may have been under way; it may have become durable unsaid.
            assert stored[producer] <= number + 1
        all_stored |= stored
    return all_stored
