"""Keys and values that did not come along with the call."""

import pytest

from host import HOUR, NOW, SoonAfter

LATER = NOW + HOUR


class Store:
    """The server's side: what the session really holds, and what was asked for."""

    def __init__(self, there):
        self.there = there
        self.asked = []

    def __call__(self, head, values):
        assert head["scope"] == "session" and head["operation"] == "load"
        assert not values
        self.asked.append(head.get("keys"))
        found = [(key, *self.there[key]) for key in head.get("keys", self.there) if key in self.there]
        rows = [[key, version, expires, len(value)] for key, version, expires, value in found]
        return {"keys": rows}, [value for _, _, _, value in found] if "keys" in head else []


@pytest.fixture
def run(session):
    def run(*operations, store, there=None, complete=True, limits=None, **options):
        instance = session.instance(limits or {})
        instance.on_state = store
        return session.run(*operations, there=there, complete=complete, limits=limits, **options)

    return run


def without_values(there):
    return {key: (version, expires, None) for key, (version, expires, _) in there.items()}


def test_a_value_that_did_not_come_along_is_asked_for_once(run):
    store = Store({"a": (7, LATER, b"[1]"), "b": (8, LATER, b"2")})
    result = run(("get", "a"), ("get_with_version", "a"), ("get", "a"), store=store, there=without_values(store.there))
    assert result.body == [["ok", [1]], ["ok", [[1], 7]], ["ok", [1]]]
    assert store.asked == [["a"]]
    assert result.changes == ({}, {}, {})


def test_several_values_are_asked_for_together(run):
    store = Store({key: (7, 0, key.encode()) for key in "1234"})
    result = run(("get", "1"), ("get_many", ["1", "2", "3", "2", "x"]), store=store, there=without_values(store.there))
    assert result.body[1] == ["ok", {"1": 1, "2": 2, "3": 3}]
    assert store.asked == [["1"], ["2", "3"]]


def test_what_needs_no_value_does_not_ask_for_it(run):
    store = Store({"a": (7, LATER, b"1"), "b": (8, LATER, b"2"), "c": (9, LATER, b"3")})
    operations = [("exists", "a"), ("ttl", "a"), ("keys",), ("set", "a", 5), ("get", "a"), ("delete", "b"), ("clear",)]
    result = run(*operations, store=store, there=without_values(store.there))
    assert store.asked == []
    assert result.deletes == {"a": 8, "b": 8, "c": 9}


def test_incr_adds_to_a_value_that_did_not_come_along(run):
    store = Store({"a": (7, LATER, b"41")})
    result = run(("incr", "a"), store=store, there=without_values(store.there))
    assert result.body == [["ok", 42]]
    assert result.writes == {"a": (8, LATER, b"42")}


def test_the_lengths_of_values_elsewhere_count(session):
    instance = session.instance({"max_total_bytes": 10})
    instance.on_state = Store({})
    result = instance.call([["set", "b", 123]], keys=[["a", 1, 0, 8]])
    assert result.body == [["quota_exceeded", None]]


def test_a_value_that_expired_meanwhile_is_gone(run):
    store = Store({})
    there = {"a": (7, NOW + HOUR, None)}
    result = run(("exists", "a"), ("get", "a"), ("exists", "a"), ("set", "a", 1), store=store, there=there, floor=3)
    assert result.body == [["ok", True], ["ok", None], ["ok", False], ["ok", True]]
    assert result.writes == {"a": (8, SoonAfter(LATER), b"1")}


def test_a_key_that_gets_more_time_keeps_its_value(run):
    """The server may have let the key expire by the time the value is asked for."""
    store = Store({"a": (7, LATER, b"1")})
    result = run(("expire", "a", 86400), ("get", "a"), store=store, there=without_values(store.there))
    assert store.asked == [["a"]]
    assert result.body[1] == ["ok", 1]
    assert result.changes == ({}, {"a": (8, SoonAfter(NOW + 24 * HOUR))}, {})


def test_a_key_that_is_not_listed_is_asked_for_once(run):
    store = Store({"a": (7, LATER, b"1"), "b": (8, LATER, b"2")})
    operations = [("get", "b"), ("exists", "b"), ("get", "x"), ("exists", "x"), ("get", "a")]
    result = run(*operations, store=store, there={"a": store.there["a"]}, complete=False)
    assert result.body == [["ok", 2], ["ok", True], ["ok", None], ["ok", False], ["ok", 1]]
    assert store.asked == [["b"], ["x"]]


def test_a_key_that_is_not_listed_gets_the_version_after_its_last_one(run):
    store = Store({"b": (8, LATER, b"2")})
    result = run(("set", "b", 3), store=store, complete=False, limits={"max_keys": 0})
    assert result.writes == {"b": (9, SoonAfter(LATER), b"3")}
    assert store.asked == [["b"]]


def test_a_conflict_is_seen_on_a_key_that_is_not_listed(run):
    store = Store({"b": (8, LATER, b"2")})
    result = run(("set_with_version", "b", 3, 0), ("set_with_version", "b", 3, 8), store=store, complete=False)
    assert result.body == [["version_conflict", 8], ["ok", 9]]


def test_a_key_that_is_new_where_not_all_are_listed_counts_them_all(run):
    store = Store({key: (1, 0, b"1") for key in "abc"})
    given = {"there": {"a": (1, 0, b"1")}, "complete": False}
    result = run(("set", "d", 1), ("set", "e", 1), store=store, **given, limits={"max_keys": 4})
    assert result.body == [["ok", True], ["quota_exceeded", None]]
    assert store.asked.count(None) == 1


def test_bytes_are_counted_where_not_all_keys_are_listed(run):
    store = Store({"a": (1, 0, b"1"), "b": (1, 0, b"12345678")})
    given = {"there": {"a": (1, 0, b"1")}, "complete": False}
    result = run(("set", "a", 12), ("set", "a", 123), store=store, **given, limits={"max_total_bytes": 10})
    assert result.body == [["ok", True], ["quota_exceeded", None]]


def test_keys_lists_all_that_are_there_and_what_the_call_did(run):
    store = Store({key: (1, 0, b"1") for key in "abcd"})
    operations = [("delete", "a"), ("delete", "b"), ("set", "e", 1), ("keys",), ("keys",)]
    given = {"there": {"a": (1, 0, b"1")}, "complete": False}
    result = run(*operations, store=store, **given, limits={"max_keys": 0})
    assert result.body[3] == result.body[4] == ["ok", ["c", "d", "e"]]
    assert store.asked.count(None) == 1


def test_clear_deletes_what_is_not_listed(run):
    store = Store({"a": (7, 0, b"1"), "b": (9, 0, b"2")})
    given = {"there": {"a": (7, 0, b"1")}, "complete": False}
    result = run(("clear",), ("set", "a", 1), store=store, **given, limits={"max_keys": 0})
    assert result.body[0] == ["ok", 2]
    assert result.changes == ({"a": (10, SoonAfter(LATER), b"1")}, {}, {"b": 9})


def test_values_are_asked_for_where_the_list_was(run):
    store = Store({"a": (7, 0, b"1"), "b": (9, 0, b"2")})
    result = run(("keys",), ("get", "b"), store=store, complete=False)
    assert result.body == [["ok", ["a", "b"]], ["ok", 2]]
    assert store.asked == [None, ["b"]]


def test_what_the_server_refuses_is_an_error_of_the_operation(session):
    instance = session.instance({})
    instance.on_state = lambda head, values: ({"success": False, "error": "unavailable", "message": "later"}, ())
    result = instance.call([["get", "a"], ["set", "b", 1], ["get", "b"]], keys=[["a", 1, 0, 5]])
    assert result.body == [["unavailable", None], ["ok", True], ["ok", 1]]
