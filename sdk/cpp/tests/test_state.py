"""The state API, by the tests that the Python SDK passes too: all those that name operations, not Python code."""

import importlib
import inspect

import pytest

from test_glob import MATCHES
from test_load_on_demand import run  # noqa: F401, a fixture

MODULES = ["operations", "versions", "expiry", "limits", "load_on_demand", "function_scope", "random_operations"]


def shared_tests():
    for name in MODULES:
        module = importlib.import_module(f"test_{name}")
        for test, function in vars(module).items():
            if not test.startswith("test_"):
                continue
            wanted = inspect.signature(function).parameters
            if "functions" not in wanted and ("session" in wanted or "run" in wanted):
                yield f"{test}_in_{name}", function


globals().update(shared_tests())


def test_there_are_many_of_them():
    assert len(list(shared_tests())) > 90


@pytest.mark.parametrize("pattern, fitting, others", MATCHES)
def test_a_pattern_matches(session, pattern, fitting, others):
    there = {key: (1, 0, b"1") for key in [*fitting, *others] if key}
    found = session.run(("keys", pattern), there=there, limits={"max_keys": 0}).body
    assert found == [["ok", sorted((key for key in fitting if key), key=str.encode)]]


def test_a_session_of_many_keys_is_looked_up_and_written(session):
    there = {f"k{n}": (n + 1, 0, str(n).encode()) for n in range(500)}
    operations = [("get", "k499"), ("incr", "k250"), ("set", "new", 1), ("get", "nowhere"), ("delete", "k0"), ("exists", "k0")]
    result = session.run(*operations, there=there, limits={"max_keys": 0})
    assert [value for _, value in result.body] == [499, 251, True, None, True, False]
    assert {key: value[2] for key, value in result.writes.items()} == {"k250": b"251", "new": b"1"}
    assert result.deletes == {"k0": 1}
