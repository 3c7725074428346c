"""Which versions keys get, and what of them the server is told."""

from host import HOUR, NOW, SoonAfter

LATER = NOW + HOUR
WRITTEN = SoonAfter(LATER)


def test_a_new_key_gets_the_version_above_the_floor(session):
    result = session.run(("set", "a", 1), ("get_with_version", "a"), floor=4)
    assert result.writes == {"a": (5, WRITTEN, b"1")}
    assert result.body[1] == ["ok", [1, 5]]


def test_all_new_keys_get_the_same_version(session):
    result = session.run(("set", "a", 1), ("set", "b", 2), ("set_many", {"c": 3, "d": 4}), floor=4)
    assert {key: version for key, (version, _, _) in result.writes.items()} == {"a": 5, "b": 5, "c": 5, "d": 5}


def test_a_write_gives_a_key_the_version_after_its_last_one(session):
    result = session.run(("set", "a", 2), there={"a": (7, LATER, b"1")}, floor=20)
    assert result.writes == {"a": (8, WRITTEN, b"2")}


def test_every_write_counts_and_the_last_is_told(session):
    result = session.run(
        ("set", "a", 2), ("incr", "a"), ("set_many", {"a": 5}), ("decr", "a"), there={"a": (7, LATER, b"1")}
    )
    assert result.writes == {"a": (11, WRITTEN, b"4")}


def test_a_deleted_key_is_told_with_its_last_version(session):
    result = session.run(("delete", "a"), there={"a": (7, LATER, b"1")})
    assert result.changes == ({}, {}, {"a": 7})


def test_a_key_that_is_written_and_deleted_is_told_with_the_version_it_got(session):
    result = session.run(("set", "a", 2), ("delete", "a"), there={"a": (7, LATER, b"1")})
    assert result.changes == ({}, {}, {"a": 8})


def test_a_key_that_only_this_call_knew_is_told_too(session):
    result = session.run(("set", "a", 1), ("delete", "a"), floor=4)
    assert result.changes == ({}, {}, {"a": 5})


def test_a_key_deleted_and_written_again_counts_as_new(session):
    result = session.run(
        ("delete", "a"), ("set", "a", 2), ("get_with_version", "a"), there={"a": (7, LATER, b"1")}, floor=20
    )
    assert result.changes == ({"a": (21, WRITTEN, b"2")}, {}, {})
    assert result.body[2] == ["ok", [2, 21]]


def test_a_deleted_key_raises_the_floor_for_others(session):
    result = session.run(("delete", "a"), ("set", "b", 1), there={"a": (7, LATER, b"1")}, floor=4)
    assert result.writes == {"b": (8, WRITTEN, b"1")}


def test_a_version_never_comes_back_in_a_call(session):
    again = [("set", "a", 1), ("delete", "a")] * 3
    result = session.run(*again, ("set", "a", 1), there={"a": (7, LATER, b"1")})
    assert result.writes == {"a": (11, WRITTEN, b"1")}


def test_clear_raises_the_floor_to_the_highest_version(session):
    result = session.run(
        ("clear",), ("set", "c", 1), there={"a": (7, LATER, b"1"), "b": (9, 0, b"2")}, floor=4
    )
    assert result.body[0] == ["ok", 2]
    assert result.changes == ({"c": (10, WRITTEN, b"1")}, {}, {"a": 7, "b": 9})


def test_an_expired_key_raises_the_floor(session):
    result = session.run(("set", "b", 1), there={"a": (7, NOW, b"1")}, floor=4)
    assert result.changes == ({"b": (8, WRITTEN, b"1")}, {}, {})


def test_an_expired_key_that_is_written_again_counts_as_new(session):
    result = session.run(("set", "a", 1), there={"a": (7, NOW, b"1")}, floor=20)
    assert result.changes == ({"a": (21, WRITTEN, b"1")}, {}, {})


def test_expire_gives_a_version_and_is_told_without_the_value(session):
    result = session.run(("expire", "a", 60), there={"a": (7, LATER, b"1")})
    assert result.changes == ({}, {"a": (8, SoonAfter(NOW + 60_000))}, {})


def test_persist_gives_a_version_and_is_told_without_the_value(session):
    result = session.run(("persist", "a"), there={"a": (7, LATER, b"1")})
    assert result.changes == ({}, {"a": (8, 0)}, {})


def test_a_key_that_is_written_and_then_touched_is_a_write(session):
    result = session.run(("set", "a", 2), ("expire", "a", 60), ("persist", "a"), there={"a": (7, LATER, b"1")})
    assert result.changes == ({"a": (10, 0, b"2")}, {}, {})


def test_a_key_that_is_touched_and_then_written_is_a_write(session):
    result = session.run(("persist", "a"), ("set", "a", 2), there={"a": (7, LATER, b"1")})
    assert result.changes == ({"a": (9, WRITTEN, b"2")}, {}, {})


def test_a_key_that_is_touched_and_then_deleted_is_a_delete(session):
    result = session.run(("persist", "a"), ("delete", "a"), there={"a": (7, LATER, b"1")})
    assert result.changes == ({}, {}, {"a": 8})


def test_reads_give_no_version_and_tell_nothing(session):
    reads = [
        ("get", "a"),
        ("get_with_version", "a"),
        ("get_many", ["a", "b"]),
        ("exists", "a"),
        ("keys",),
        ("ttl", "a"),
        ("get", "b"),
        ("delete", "b"),
    ]
    result = session.run(*reads, there={"a": (7, LATER, b"1")})
    assert [outcome[0] for outcome in result.body] == ["ok"] * len(reads)
    assert result.body[1] == ["ok", [1, 7]]
    assert result.changes == ({}, {}, {})


def test_a_write_of_the_same_value_is_a_write(session):
    result = session.run(("set", "a", 1), there={"a": (7, LATER, b"1")})
    assert result.writes == {"a": (8, WRITTEN, b"1")}


def test_set_with_version_sets_where_the_version_fits(session):
    operations = [("set_with_version", "a", 2, 7), ("set_with_version", "a", 3, 8)]
    result = session.run(*operations, there={"a": (7, LATER, b"1")})
    assert result.body == [["ok", 8], ["ok", 9]]
    assert result.writes == {"a": (9, WRITTEN, b"3")}


def test_set_with_version_names_the_version_where_it_does_not_fit(session):
    result = session.run(
        ("set_with_version", "a", 2, 6), ("set_with_version", "a", 2, 8), ("get", "a"), there={"a": (7, LATER, b"1")}
    )
    assert result.body == [["version_conflict", 7], ["version_conflict", 7], ["ok", 1]]
    assert result.changes == ({}, {}, {})


def test_version_0_creates_only(session):
    operations = [("set_with_version", "a", 2, 0), ("set_with_version", "b", 2, 0)]
    result = session.run(*operations, there={"a": (7, LATER, b"1")})
    assert result.body == [["version_conflict", 7], ["ok", 1]]
    assert result.writes == {"b": (1, WRITTEN, b"2")}


def test_a_version_does_not_fit_a_key_that_is_gone(session):
    result = session.run(("delete", "a"), ("set_with_version", "a", 2, 7), there={"a": (7, LATER, b"1")})
    assert result.body[1] == ["version_conflict", 0]


def test_without_a_version_set_with_version_always_sets(session):
    operations = [("set_with_version", "a", 2), ("set_with_version", "b", 2)]
    result = session.run(*operations, there={"a": (7, LATER, b"1")}, floor=3)
    assert result.body == [["ok", 8], ["ok", 4]]
