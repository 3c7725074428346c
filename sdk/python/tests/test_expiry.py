"""When keys are gone, by the clock of the store."""

import pytest

from host import HOUR, NOW, SoonAfter

LATER = NOW + HOUR
DAY = 24 * HOUR


@pytest.mark.parametrize(
    "operation, missing",
    [
        (("get", "a"), None),
        (("get_with_version", "a"), [None, 0]),
        (("exists", "a"), False),
        (("delete", "a"), False),
        (("keys",), []),
        (("get_many", ["a"]), {}),
    ],
)
def test_a_key_is_gone_from_the_millisecond_of_its_expiry_on(session, operation, missing):
    result = session.run(operation, there={"a": (7, NOW, b"1")})
    assert result.body == [["ok", missing]]
    assert result.changes == ({}, {}, {})


def test_until_then_it_is_there(session):
    result = session.run(("get", "a"), there={"a": (7, LATER, b"1")}, now=LATER - 1 - 20_000)
    assert result.body == [["ok", 1]]


@pytest.mark.parametrize("operation", [("expire", "a", 5), ("persist", "a"), ("ttl", "a")])
def test_what_needs_a_key_does_not_find_one_that_expired(session, operation):
    assert session.run(operation, there={"a": (7, NOW, b"1")}).body == [["not_found", None]]
    assert session.run(operation).body == [["not_found", None]]


def test_incr_begins_anew_where_the_number_expired(session):
    result = session.run(("incr", "a"), there={"a": (7, NOW, b"41")})
    assert result.body == [["ok", 1]]
    assert result.writes == {"a": (8, SoonAfter(LATER), b"1")}


def test_a_key_that_expires_while_the_call_runs_is_gone(session):
    result = session.run(("exists", "a"), ("wait", 30), ("exists", "a"), ("keys",), there={"a": (7, NOW + 25, b"1")})
    assert result.body[2:] == [["ok", False], ["ok", []]]
    assert result.changes == ({}, {}, {})


def test_time_passes_from_the_arrival_of_the_call(session):
    result = session.run(("wait", 30), ("exists", "a"), there={"a": (7, NOW + 25, b"1")})
    assert result.body[1] == ["ok", False]


def test_a_key_that_expires_after_it_was_written_is_told_as_deleted(session):
    result = session.run(("set", "a", 1, 0.002), ("wait", 4), ("get", "a"), floor=4)
    assert result.body[2] == ["ok", None]
    assert result.changes == ({}, {}, {"a": 5})


def test_a_key_that_expires_unseen_after_it_was_written_is_told_as_deleted(session):
    result = session.run(("set", "a", 1, 0.002), ("wait", 4), floor=4)
    assert result.changes == ({}, {}, {"a": 5})


def test_a_key_whose_new_expiry_passes_is_told_as_deleted(session):
    result = session.run(("expire", "a", 0.002), ("wait", 4), there={"a": (7, LATER, b"1")})
    assert result.changes == ({}, {}, {"a": 8})


@pytest.mark.parametrize("ttl", [0, 0.0, -0.0])
def test_a_ttl_of_0_is_the_default(session, ttl):
    result = session.run(("set", "a", 1, ttl), ("set_with_version", "b", 1, None, ttl), ("set_many", {"c": 1}, ttl))
    assert [expires for _, expires, _ in result.writes.values()] == [SoonAfter(LATER)] * 3


def test_a_ttl_of_minus_1_is_never(session):
    writes = [("set", "a", 1, -1), ("set_with_version", "b", 1, None, -1), ("set_many", {"c": 1}, -1)]
    result = session.run(*writes, ("ttl", "a"))
    assert [expires for _, expires, _ in result.writes.values()] == [0] * 3
    assert result.body[3] == ["ok", -1]


def test_a_ttl_counts_seconds_and_their_fractions(session):
    result = session.run(("set", "a", 1, 86400), ("set", "b", 1, 86400.5))
    assert result.writes["a"][1] == SoonAfter(NOW + DAY)
    assert result.writes["b"][1] == SoonAfter(NOW + DAY + 500)


def test_no_ttl_is_so_short_that_it_is_none(session):
    result = session.run(("set", "a", 1, 1e-9), ("wait", 2), ("exists", "a"))
    assert result.body[2] == ["ok", False]


def test_a_default_ttl_of_0_is_never(session):
    result = session.run(("set", "a", 1), ("incr", "b"), limits={"default_ttl_ms": 0})
    assert [expires for _, expires, _ in result.writes.values()] == [0] * 2


def test_a_write_without_ttl_replaces_the_expiry(session):
    result = session.run(("set", "a", 2), there={"a": (7, 0, b"1")})
    assert result.writes == {"a": (8, SoonAfter(LATER), b"2")}


@pytest.mark.parametrize("expires", [0, NOW + 2 * DAY])
def test_incr_keeps_the_expiry(session, expires):
    result = session.run(("incr", "a"), ("decr", "a", 5), there={"a": (7, expires, b"1")})
    assert result.writes == {"a": (9, expires, b"-3")}


def test_incr_creates_with_the_default(session):
    assert session.run(("incr", "a")).writes == {"a": (1, SoonAfter(LATER), b"1")}
    assert session.run(("decr", "a")).writes == {"a": (1, SoonAfter(LATER), b"-1")}


def test_ttl_tells_the_seconds_that_are_left(session):
    (_, left), (_, never) = session.run(
        ("ttl", "a"), ("ttl", "b"), there={"a": (7, LATER, b"1"), "b": (7, 0, b"1")}
    ).body
    assert 3570 < left <= 3600
    assert never == -1


def test_expire_and_persist_return_true(session):
    assert session.run(("expire", "a", 5), ("persist", "a"), there={"a": (7, LATER, b"1")}).body == [["ok", True]] * 2


def test_expire_takes_no_ttl_that_is_not_above_0(session):
    result = session.run(("expire", "a", 0), ("expire", "a", -1), ("expire", "a", -5), there={"a": (7, LATER, b"1")})
    assert result.body == [["invalid_argument", None]] * 3
    assert result.changes == ({}, {}, {})


BAD_TTLS = ["nan", "inf", "-inf", "-2", "-0.5", "-1.5", "True", "False", "'5'", "None", "[]", "1e300", "10**5000", "1j"]


def test_a_ttl_that_is_none_is_refused_everywhere(functions):
    instance = functions.load(
        f"""
        from math import inf, nan
        from nimbus import StateError

        def handle(event, state):
            accepted = []
            for ttl in [{", ".join(BAD_TTLS)}]:
                for operation in (
                    lambda: state.set("a", 1, ttl),
                    lambda: state.set_with_version("a", 1, ttl=ttl),
                    lambda: state.set_many({{"a": 1}}, ttl),
                    lambda: state.expire("b", ttl),
                ):
                    try:
                        operation()
                        accepted.append(repr(ttl))
                    except StateError as error:
                        assert error.code == "invalid_argument", error
            return accepted
        """
    )
    result = instance.call(keys=[["b", 1, 0, 1]], values=[b"1"])
    assert result.body == []
    assert result.changes == ({}, {}, {})
