"""Runs the binary in a pseudo-terminal, as a person would."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from harness import BINARY, PATIENCE, clean_environment


class Terminal:
    """A command whose input and output are a terminal of `columns`; `text` is what it has shown so far."""

    def __init__(self, *arguments, columns=80, env=None, cwd=None):
        self.text = ""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = clean_environment(TERM="xterm", **(env or {}))
        if "NO_COLOR" not in (env or {}):
            environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [BINARY, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        os.close(self.master)

    def _read(self, deadline):
        """False at the end."""
        readable, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        if not readable:
            raise AssertionError(f"it did not come in time; shown was: {self.text!r}")
        try:
            piece = os.read(self.master, 65536)
        except OSError:  # the other end is closed
            piece = b""
        self.text += piece.decode(errors="replace").replace("\r\n", "\n")
        return bool(piece)

    def expect(self, wanted, after=0):
        """Waits until `wanted` is shown behind `after`; where it ends."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self.text[after:]:
            if not self._read(deadline):
                raise AssertionError(f"{wanted!r} was not shown, but {self.text!r}")
        return self.text.index(wanted, after) + len(wanted)

    def type(self, text):
        os.write(self.master, text.encode())

    def end(self):
        """The exit code, once everything is read."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)
