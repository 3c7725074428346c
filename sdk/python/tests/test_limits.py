"""How much there may be, and what keys and values are."""

import pytest

from host import HOUR, NOW

LATER = NOW + HOUR


def test_a_value_may_be_as_long_as_allowed(session):
    fits, larger = "x" * 14, "x" * 15  # two quotes go with them
    operations = [("set", "a", fits), ("set", "b", larger), ("set_many", {"c": fits}), ("set_many", {"d": larger})]
    result = session.run(*operations, limits={"max_value_bytes": 16})
    assert result.body == [["ok", True], ["too_large", None]] * 2
    assert list(result.writes) == ["a", "c"]


def test_the_length_of_a_value_is_that_of_its_utf_8(session):
    result = session.run(("set", "a", "ä" * 7), ("set", "b", "ä" * 7 + "x"), limits={"max_value_bytes": 16})
    assert result.body == [["ok", True], ["too_large", None]]
    assert result.writes["a"][2] == b'"' + "ä".encode() * 7 + b'"'


@pytest.mark.parametrize(
    "operation", [("set_with_version", "a", "xxx"), ("set_many", {"b": 1, "a": "xxx"}), ("incr", "n", 100)]
)
def test_no_write_may_be_longer(session, operation):
    result = session.run(operation, there={"n": (1, 0, b"99")}, limits={"max_value_bytes": 2})
    assert result.body == [["too_large", None]]
    assert result.changes == ({}, {}, {})


def test_there_may_be_as_many_keys_as_allowed(session):
    result = session.run(
        ("set", "c", 1), ("set", "d", 1), there={"a": (1, 0, b"1"), "b": (1, 0, b"1")}, limits={"max_keys": 3}
    )
    assert result.body == [["ok", True], ["quota_exceeded", None]]
    assert list(result.writes) == ["c"]


@pytest.mark.parametrize(
    "operation", [("set", "b", 1), ("set_with_version", "b", 1, 0), ("set_many", {"a": 2, "b": 1}), ("incr", "b")]
)
def test_no_write_adds_a_key_too_many(session, operation):
    result = session.run(operation, there={"a": (1, 0, b"1")}, limits={"max_keys": 1})
    assert result.body == [["quota_exceeded", None]]
    assert result.changes == ({}, {}, {})


def test_keys_that_are_gone_do_not_count(session):
    result = session.run(
        ("delete", "a"),
        ("set", "c", 1),
        ("set", "d", 1),
        there={"a": (1, 0, b"1"), "b": (1, NOW, b"1")},
        limits={"max_keys": 2},
    )
    assert result.body[1:] == [["ok", True], ["ok", True]]


def test_where_there_are_too_many_keys_those_that_are_there_may_be_written(session):
    there = {key: (1, 0, b"1") for key in "abc"}
    writes = [("set", "a", 2), ("set_many", {"b": 2, "c": 2}), ("incr", "a")]
    result = session.run(*writes, ("set", "d", 1), there=there, limits={"max_keys": 2})
    assert result.body == [["ok", True], ["ok", True], ["ok", 3], ["quota_exceeded", None]]


def test_values_may_be_as_long_together_as_allowed(session):
    result = session.run(
        ("set", "b", 123456), ("set", "c", 1), there={"a": (1, 0, b"1234")}, limits={"max_total_bytes": 10}
    )
    assert result.body == [["ok", True], ["quota_exceeded", None]]


@pytest.mark.parametrize(
    "operation",
    [("set", "a", 12345), ("set_with_version", "a", 12345, 1), ("set_many", {"a": 12, "b": 123456789}), ("incr", "a")],
)
def test_no_write_adds_a_byte_too_many(session, operation):
    there = {"a": (1, 0, b"9999"), "b": (1, 0, b"123456")}
    result = session.run(operation, there=there, limits={"max_total_bytes": 10})
    assert result.body == [["quota_exceeded", None]]
    assert result.changes == ({}, {}, {})


def test_bytes_that_are_gone_do_not_count(session):
    there = {"a": (1, 0, b"1234"), "b": (1, NOW, b"123456"), "c": (1, 0, b"12345")}
    operations = [("set", "c", 1), ("delete", "a"), ("set", "d", 123456789)]
    result = session.run(*operations, there=there, limits={"max_total_bytes": 10})
    assert result.body[2] == ["ok", True]


def test_where_there_are_too_many_bytes_what_adds_none_passes(session):
    there = {"a": (1, 0, b"123456"), "b": (1, 0, b"123456")}
    result = session.run(
        ("set", "a", 654321), ("set", "a", 1234), ("set_many", {"a": 12345, "b": 54321}), ("set", "a", 123456),
        there=there, limits={"max_total_bytes": 5},
    )
    assert result.body == [["ok", True], ["ok", True], ["ok", True], ["quota_exceeded", None]]


def test_a_limit_of_0_is_none(session):
    none = {"max_value_bytes": 0, "max_keys": 0, "max_total_bytes": 0}
    result = session.run(("set", "large", "x" * 100_000), *[("set", f"k{n}", n) for n in range(200)], limits=none)
    assert all(outcome == ["ok", True] for outcome in result.body)
    assert len(result.writes) == 201


def test_invocation_scope_is_counted_apart(session):
    limits = {"max_keys": 1, "max_value_bytes": 3}
    operations = [("invocation.set", "a", 1), ("invocation.set", "b", 1), ("invocation.set", "a", "long")]
    result = session.run(*operations, ("set", "a", 1), limits=limits)
    assert result.body == [["ok", True], ["quota_exceeded", None], ["too_large", None], ["ok", True]]


GOOD_KEYS = [
    "a", "x" * 256, "ä" * 128, "𝄞" * 64, " ", "a:b", "{a}", "*", "[a]", "a/b", "%41", "\\", "\u00a0", "\u2028", "null",
    "__proto__",
]  # fmt: skip
BAD_KEYS = ["", "x" * 257, "ä" * 128 + "x", "a\x00b", "a\nb", "\x1f", "\x7f", "\u0080", "\u009f"]


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_a_key_is_any_text_up_to_256_bytes(session, key):
    result = session.run(("set", key, 1), ("get", key), ("keys",), there={"there": (1, 0, b"1")})
    assert result.body == [["ok", True], ["ok", 1], ["ok", sorted([key, "there"])]]
    assert list(result.writes) == [key]


@pytest.mark.parametrize("key", [*BAD_KEYS, 5, None, True, ["a"], {"a": 1}])
def test_what_is_no_key_is_refused_everywhere(session, key):
    operations = [
        ("get", key), ("get_with_version", key), ("set", key, 1), ("set_with_version", key, 1), ("delete", key),
        ("incr", key), ("decr", key), ("exists", key), ("expire", key, 5), ("ttl", key), ("persist", key),
        ("get_many", ["a", key]), ("function.get", key), ("invocation.set", key, 1),
    ]  # fmt: skip
    result = session.run(*operations)
    assert result.body == [["invalid_argument", None]] * len(operations)
    assert result.changes == ({}, {}, {})


def test_a_key_that_is_not_unicode_is_refused(functions):
    instance = functions.load(
        """
        from nimbus import StateError

        def handle(event, state):
            codes = []
            for operation in (
                lambda: state.get("\\ud800"),
                lambda: state.set_many({"a": 1, "\\ud800": 1}),
                lambda: state.keys("\\ud800*"),
                lambda: state.function().get("\\ud800"),
                lambda: state.function().keys("\\ud800*"),
            ):
                try:
                    operation()
                except StateError as error:
                    codes.append(error.code)
            return codes
        """
    )
    result = instance.call()
    assert result.body == ["invalid_argument"] * 5
    assert result.changes == ({}, {}, {})


@pytest.mark.parametrize("scope", ["session", "function", "invocation"])
def test_a_function_without_state_is_refused_every_operation(session, scope):
    operations = [
        ("get", "a"), ("get_with_version", "a"), ("set", "a", 1), ("set_with_version", "a", 1), ("delete", "a"),
        ("incr", "a"), ("decr", "a"), ("exists", "a"), ("keys",), ("expire", "a", 5), ("ttl", "a"), ("persist", "a"),
        ("clear",), ("get_many", ["a"]), ("set_many", {"a": 1}),
    ]  # fmt: skip
    scoped = [(f"{scope}.{name}", *arguments) for name, *arguments in operations]
    result = session.run(*scoped, limits={"enabled": False})
    assert result.body == [["forbidden", None]] * len(operations)
