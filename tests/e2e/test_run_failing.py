"""./run in a checkout where an earlier build left a binary, with a build that is not real."""

import os
import pty
import shutil
import subprocess

import pytest

from harness import PATIENCE, REPOSITORY, clean_environment


class Checkout:
    def __init__(self, directory):
        self.directory = directory
        self.tools = directory / "path"
        self.script("path/cmake", 'case $1 in --build) exec build ;; *) exec configure ;; esac')
        self.script("path/ninja", "exec build")
        self.configure("exit 0")
        self.build("exit 0")
        self.script("tools/install-packages", "exit 0")
        self.script("build/nimbus", 'echo "$@" > started')
        (directory / "build/build.ninja").touch()
        shutil.copy(REPOSITORY / "run", directory / "run")

    def script(self, name, body):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def configure(self, body):
        self.script("path/configure", body)

    def build(self, body):
        self.script("path/build", body)

    def run(self, *arguments, terminal):
        """The exit code of ./run."""
        ours, theirs = pty.openpty() if terminal else os.pipe()
        try:
            return subprocess.run(
                [self.directory / "run", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                timeout=PATIENCE,
                env=clean_environment(PATH=f"{self.tools}:{os.environ['PATH']}"),
            ).returncode
        finally:
            os.close(theirs)
            os.close(ours)

    @property
    def started(self):
        """The arguments of the server, None if it was not started."""
        path = self.directory / "started"
        return path.read_text().split() if path.exists() else None


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


somewhere = pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "no-terminal"])


@somewhere
def test_what_was_built_is_started(checkout, terminal):
    assert checkout.run("--listen", "127.0.0.1:0", terminal=terminal) == 0
    assert checkout.started == ["serve", "--functions", "examples/functions", "--listen", "127.0.0.1:0"]


@somewhere
def test_a_failed_build_starts_nothing(checkout, terminal):
    # It says what ninja says, lines of progress among them: those once hid the exit code.
    checkout.build("echo '[1/2] Building CXX object x.o'; echo 'FAILED: x.o'; exit 1")
    assert checkout.run(terminal=terminal) != 0
    assert checkout.started is None


@somewhere
def test_a_failed_build_is_a_failure_when_only_building_too(checkout, terminal):
    checkout.build("exit 1")
    assert checkout.run("--build-only", terminal=terminal) != 0


@somewhere
def test_a_failed_configuration_starts_nothing(checkout, terminal):
    (checkout.directory / "build/build.ninja").unlink()
    checkout.configure("exit 1")
    assert checkout.run(terminal=terminal) != 0
    assert checkout.started is None


@somewhere
def test_packages_that_cannot_be_installed_start_nothing(checkout, terminal):
    checkout.script("tools/install-packages", "exit 1")
    assert checkout.run(terminal=terminal) != 0
    assert checkout.started is None


def test_only_building_starts_nothing(checkout):
    assert checkout.run("--build-only", terminal=False) == 0
    assert checkout.started is None
