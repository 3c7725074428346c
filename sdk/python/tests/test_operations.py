"""What the operations of the state API do and return."""

import json

import pytest

from host import HOUR, NOW

LATER = NOW + HOUR


def test_get_tells_a_missing_key_from_a_stored_null(session):
    result = session.run(("get", "a", 5), ("get", "b", 5), ("get", "b"), ("exists", "a"), there={"a": (1, 0, b"null")})
    assert result.body == [["ok", None], ["ok", 5], ["ok", None], ["ok", True]]


def test_get_with_version_of_a_missing_key_is_none_and_0(session):
    assert session.run(("get_with_version", "a")).body == [["ok", [None, 0]]]


def test_a_call_sees_its_own_writes(session):
    writes = [("set", "a", 1), ("get", "a"), ("incr", "a"), ("get", "a"), ("delete", "a"), ("get", "a")]
    assert [value for _, value in session.run(*writes, ("exists", "a")).body] == [True, 1, 2, 2, True, None, False]


def test_delete_says_whether_there_was_anything(session):
    result = session.run(("delete", "a"), ("delete", "a"), ("delete", "b"), there={"a": (1, 0, b"1")})
    assert [value for _, value in result.body] == [True, False, False]


def test_clear_says_how_much_there_was(session):
    there = {"a": (1, 0, b"1"), "b": (2, 0, b"1")}
    result = session.run(("set", "c", 1), ("delete", "a"), ("clear",), ("clear",), ("keys",), there=there)
    assert [value for _, value in result.body[2:]] == [2, 0, []]
    assert result.deletes == {"a": 1, "b": 2, "c": 1}


def test_get_many_leaves_out_what_is_missing(session):
    there = {"a": (1, 0, b"1"), "b": (1, 0, b"null")}
    result = session.run(("get_many", ["b", "x", "a", "b"]), ("get_many", []), there=there)
    assert result.body == [["ok", {"b": None, "a": 1}], ["ok", {}]]


def test_get_many_takes_no_string(session):
    assert session.run(("get_many", "ab")).body == [["invalid_argument", None]]


def test_set_many_sets_all(session):
    result = session.run(("set_many", {"a": 1, "b": [2]}), ("set_many", {}), ("get_many", ["a", "b"]))
    assert result.body == [["ok", True], ["ok", True], ["ok", {"a": 1, "b": [2]}]]
    assert {key: value for key, (_, _, value) in result.writes.items()} == {"a": b"1", "b": b"[2]"}


def test_keys_are_sorted_by_their_bytes(session):
    keys = ["b", "a", "B", "é", "z", "𝄞", "\uffff", "aa", "10", "9"]
    result = session.run(*(("set", key, 1) for key in keys), ("keys",))
    assert result.body[-1] == ["ok", sorted(keys, key=str.encode)]


@pytest.mark.parametrize(
    "start, delta, sum",
    [(b"0", 1, 1), (b"41", 1, 42), (b"-1", 1, 0), (b"5", -10, -5), (b"5", 0, 5),
     (b"9223372036854775806", 1, 2**63 - 1), (b"-9223372036854775808", 2**63 - 1, -1)],
)  # fmt: skip
def test_incr_adds(session, start, delta, sum):
    result = session.run(("incr", "a", delta), ("get", "a"), there={"a": (1, 0, start)})
    assert result.body == [["ok", sum], ["ok", sum]]
    assert result.writes == {"a": (2, 0, str(sum).encode())}


def test_incr_and_decr_go_by_1(session):
    result = session.run(("incr", "a"), ("incr", "a"), ("decr", "a"), ("decr", "b"))
    assert [value for _, value in result.body] == [1, 2, 1, -1]


def test_decr_subtracts_the_least_number_too(session):
    result = session.run(("decr", "a", -(2**63)), there={"a": (1, 0, b"-1")})
    assert result.body == [["ok", 2**63 - 1]]


@pytest.mark.parametrize(
    "value",
    [b"1.0", b"1e3", b'"5"', b"null", b"true", b"[1]", b"{}", b"9223372036854775808", b"-9223372036854775809",
     b"-0", b" 5", b"5\n", b"9" * 5000],
)  # fmt: skip
def test_incr_adds_to_nothing_but_integers(session, value):
    result = session.run(("incr", "a"), ("decr", "a"), ("exists", "a"), there={"a": (1, 0, value)})
    assert result.body == [["invalid_argument", None]] * 2 + [["ok", True]]
    assert result.changes == ({}, {}, {})


def test_a_sum_that_does_not_fit_changes_nothing(session):
    there = {"a": (1, 0, b"9223372036854775807"), "b": (1, 0, b"-9223372036854775808")}
    result = session.run(("incr", "a"), ("decr", "b"), ("decr", "c", -(2**63)), there=there)
    assert result.body == [["invalid_argument", None]] * 3
    assert result.changes == ({}, {}, {})


@pytest.mark.parametrize("delta", [1.0, "1", True, None, 2**63, -(2**63) - 1, [1]])
def test_a_delta_is_an_integer_of_64_bits(session, delta):
    operations = [("incr", "a", delta), ("decr", "a", delta), ("function.incr", "a", delta)]
    assert session.run(*operations).body == [["invalid_argument", None]] * 3


@pytest.mark.parametrize("version", [-1, 1.0, "1", True, []])
def test_a_version_is_an_integer_from_0_on(session, version):
    operations = [("set_with_version", "a", 1, version), ("function.set_with_version", "a", 1, version)]
    assert session.run(*operations).body == [["invalid_argument", None]] * 2


@pytest.mark.parametrize("pattern", [5, None, ["a"]])
def test_a_pattern_is_a_string(session, pattern):
    assert session.run(("keys", pattern)).body == [["invalid_argument", None]]


VALUES = [
    None, True, False, 0, -1, 2**80, 1.5, 1e300, "", "text", "ä€𝄞", '"\\\n\u2028', [], {}, [[]], {"": None},
    {"b": 1, "a": [1, 2.5, {"c": "d"}]},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_stored_as_compact_json_in_utf_8(session, value):
    result = session.run(("set", "a", value), ("get", "a"))
    assert result.body[1] == ["ok", value]
    assert result.writes["a"][2] == json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def test_a_value_is_read_however_it_was_written(session):
    there = {"a": (1, 0, b' { "b" : [ 1 ] } \n'), "b": (1, 0, b'"\\u00e4\\ud834\\udd1e"'), "c": (1, 0, b"1E2")}
    result = session.run(("get_many", ["a", "b", "c"]), there=there)
    assert result.body == [["ok", {"a": {"b": [1]}, "b": "ä𝄞", "c": 100.0}]]


def test_what_is_no_json_is_refused_and_named(functions):
    instance = functions.load(
        """
        import math
        from nimbus import StateError

        circle = []
        circle.append(circle)
        deep = []
        for _ in range(100_000):
            deep = [deep]

        def handle(event, state):
            messages = []
            values = [object(), {1, 2}, b"bytes", math.nan, math.inf, {(1, 2): 3}, circle, deep, "\\ud800", 10**5000]
            for value in values:
                for operation in (
                    lambda: state.set("the-key", value),
                    lambda: state.set_with_version("the-key", value),
                    lambda: state.set_many({"other": 1, "the-key": value}),
                    lambda: state.function().set("the-key", value),
                    lambda: state.invocation().set("the-key", value),
                ):
                    try:
                        operation()
                    except StateError as error:
                        messages.append([error.code, "the-key" in error.message])
            state.set("after", {"still": "well"})
            return messages
        """
    )
    result = instance.call()
    assert result.body == [["invalid_argument", True]] * 50
    assert list(result.writes) == ["after"]


def test_what_is_nearly_json_is_stored_as_json(functions):
    instance = functions.load(
        """
        import collections, enum

        class Colour(enum.IntEnum):
            RED = 1

        class Name(str):
            pass

        def handle(event, state):
            ordered = collections.OrderedDict(b=1, a=2)
            state.set(Name("a"), [(1, 2), Colour.RED, Name("x"), {2: 2, None: 3, True: 4}, ordered])
            return state.get("a")
        """
    )
    result = instance.call()
    assert result.body == [[1, 2], 1, "x", {"2": 2, "null": 3, "true": 4}, {"b": 1, "a": 2}]


def test_changing_what_get_returned_changes_nothing(functions):
    instance = functions.load(
        """
        def handle(event, state):
            state.set("b", [1])
            for key in ("a", "b"):
                state.get(key).append(2)
                state.get_many([key])[key].append(2)
                state.get_with_version(key)[0].append(2)
            value = [1]
            state.set("c", value)
            value.append(2)
            return [state.get(key) for key in "abc"]
        """
    )
    result = instance.call(keys=[["a", 1, 0, 3]], values=[b"[1]"])
    assert result.body == [[1], [1], [1]]
    assert list(result.writes) == ["b", "c"]


def test_an_operation_that_fails_changes_nothing(session):
    limits = {"max_keys": 2, "max_value_bytes": 10}
    there = {"a": (7, LATER, b"1")}
    failing = [
        ("set", "b", "x" * 20), ("set_many", {"b": 1, "c": 2}), ("set_many", {"b": 1, "": 2}),
        ("set_many", {"a": 2}, -7), ("set_with_version", "a", 2, 6), ("incr", "a", 2**63 - 1), ("expire", "a", -3),
        ("expire", "z", 5), ("persist", "z"),
    ]  # fmt: skip
    result = session.run(*failing, ("get_with_version", "a"), ("keys",), there=there, limits=limits)
    assert all(code != "ok" for code, _ in result.body[:-2])
    assert result.body[-2:] == [["ok", [1, 7]], ["ok", ["a"]]]
    assert result.changes == ({}, {}, {})


def test_invocation_scope_is_gone_when_the_call_ends(session):
    operations = [("invocation.set", "a", 1), ("invocation.incr", "a"), ("invocation.get_with_version", "a")]
    result = session.run(*operations, ("get", "a"), ("invocation.keys",), floor=9)
    assert [value for _, value in result.body] == [True, 2, [2, 2], None, ["a"]]
    assert result.changes == ({}, {}, {})
    assert session.run(("invocation.keys",)).body == [["ok", []]]


def test_an_error_says_what_it_is(functions):
    instance = functions.load(
        """
        import pickle
        from nimbus import StateError, VersionConflict

        def handle(event, state):
            try:
                state.set_with_version("a", 1, 5)
            except VersionConflict as error:
                again = pickle.loads(pickle.dumps(error))
                assert isinstance(error, StateError)
                assert (again.code, again.message, again.current_version) == (error.code, error.message, 7)
            state.set("", 1)
        """
    )
    result = instance.call(keys=[["a", 7, 0, 1]], values=[b"1"])
    assert result.error["type"] == "StateError"
    assert result.error["message"] == "invalid_argument: a key has 1 to 256 bytes, not 0"
