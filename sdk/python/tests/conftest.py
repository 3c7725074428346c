import json
import pathlib

import pytest

import host

# Carries out the operations an event lists, [name, argument, …] with `scope.` before the name where it is not
# session scope, and answers what each of them did: ["ok", value] or [code, current_version].
OPERATIONS = """
    import time
    from nimbus import State, StateError

    def wait(milliseconds):
        end = time.monotonic_ns() + milliseconds * 1_000_000
        while time.monotonic_ns() <= end:
            pass

    def handle(event, state):
        outcomes = []
        for name, *arguments in event:
            scope, _, operation = name.rpartition(".")
            target = getattr(state, scope)() if scope else state
            try:
                outcomes.append(["ok", wait(*arguments) if name == "wait" else getattr(target, operation)(*arguments)])
            except StateError as error:
                outcomes.append([error.code, error.current_version])
        return outcomes
"""


@pytest.fixture(scope="session")
def zygote():
    zygote = host.Zygote()
    yield zygote
    assert zygote.close() == 0


class Functions:
    def __init__(self, start, directory):
        self._start = start
        self._directory = directory
        self._instances = []

    def instance(self, start=None):
        instance = host.Instance(start or self._start)
        self._instances.append(instance)
        return instance

    def directory(self, code, **files):
        directory = self._directory / f"function{len(self._instances)}"
        directory.mkdir()
        self.last_directory = directory
        return host.write_function(directory, code, **files)

    def load(self, code, files=None, **options):
        """An instance of a function with this main.py that is ready for calls."""
        directory = self.directory(code, **(files or {}))
        instance = self.instance()
        assert instance.load(directory, **options) == {}
        return instance

    def refuse(self, code, files=None, **options):
        """The error of a function that does not load. Its instance has exited."""
        directory = self.directory(code, **(files or {}))
        instance = self.instance()
        error = instance.load(directory, **options)["error"]
        with pytest.raises(host.Ended):
            instance.receive()
        return error

    def close(self):
        for instance in self._instances:
            instance.close()


@pytest.fixture
def functions(zygote, tmp_path):
    functions = Functions(zygote.start, tmp_path)
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
            self._instances[name] = self._functions.load(OPERATIONS, state={**host.LIMITS, **limits})
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
def session(zygote, tmp_path_factory):
    functions = Functions(zygote.start, pathlib.Path(tmp_path_factory.mktemp("session")))
    yield Session(functions)
    functions.close()
