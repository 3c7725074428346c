"""The C++ SDK is tested by the host and, where it must do the same, by the very tests of the Python SDK."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SDK = HERE.parent
sys.path.insert(0, str(SDK.parent / "python/tests"))

import host  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wold-style-cast", "-Wnon-virtual-dtor", "-Werror"]


def compile_function(source, program, *options, compiler="g++"):
    command = [compiler, "-std=c++20", "-I", str(SDK / "include"), *options, str(source), "-o", str(program), "-pthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The functions of these tests, built when first asked for, with sanitizers."""
    folder = tmp_path_factory.mktemp("programs")
    built = {}

    def program(name):
        if name not in built:
            options = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *WARNINGS]
            built[name] = compile_function(HERE / "functions" / f"{name}.cpp", folder / name, *options)
        return built[name]

    return program


class Process:
    """A child of ours that is gone when the test is."""

    def __init__(self, program, *descriptors):
        """`descriptors` become 3, 1 and 2."""
        actions = [(os.POSIX_SPAWN_DUP2, given, place) for given, place in zip(descriptors, (3, 1, 2))]
        environment = {**os.environ, "ASAN_OPTIONS": "handle_segv=0:handle_abort=0:detect_leaks=0"}
        self.pid = os.posix_spawn(program, [str(program)], environment, file_actions=actions)
        self._status = None

    def wait(self):
        """The exit code, or minus the signal."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def kill(self):
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


class Functions:
    def __init__(self, programs, directory):
        self._programs = programs
        self._directory = directory
        self._instances = []

    def instance(self, name):
        program = self._programs(name)
        instance = host.Instance(lambda *descriptors: Process(program, *descriptors))
        self._instances.append(instance)
        return instance

    def load(self, name, **options):
        """An instance of a function that is ready for calls."""
        instance = self.instance(name)
        assert instance.load(self._directory, handler=name, **options) == {}
        return instance

    def close(self):
        for instance in self._instances:
            instance.close()
            instance.process.kill()


@pytest.fixture
def functions(programs, tmp_path):
    functions = Functions(programs, tmp_path)
    yield functions
    functions.close()


class Session:
    """Runs operations in calls of a session, on one instance for each set of limits."""

    def __init__(self, functions):
        self._functions = functions
        self._instances = {}

    def instance(self, limits):
        name = json.dumps(limits, sort_keys=True)
        if name not in self._instances:
            self._instances[name] = self._functions.load("operations", state={**host.LIMITS, **limits})
        return self._instances[name]

    def run(self, *operations, there=None, limits=None, **options):
        """A call with these operations. `there`: key → (version, expiry, value), where a value of None does
        not come along with the call.
        """
        there = there or {}
        rows = [[key, version, expires, len(value or b"")] for key, (version, expires, value) in there.items()]
        values = [value for _, _, value in there.values() if value is not None]
        instance = self.instance(limits or {})
        return instance.call([list(operation) for operation in operations], keys=rows, values=values, **options)


@pytest.fixture(scope="module")
def session(programs, tmp_path_factory):
    functions = Functions(programs, tmp_path_factory.mktemp("session"))
    yield Session(functions)
    functions.close()
