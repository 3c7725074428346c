"""State that the server keeps: every operation is one State frame."""

import pytest

from host import RESULT, STATE, Result

OPERATIONS = [
    # operation and arguments; members and values of the frame; reply and its values; what it returns
    (("get", "a"), {"operation": "get_with_version", "key": "a"}, [], {"version": 3}, [b"[1]"], [1]),
    (("get", "a", 5), {"operation": "get_with_version", "key": "a"}, [], {"version": 0}, [], 5),
    (("get", "a", 5), {"operation": "get_with_version", "key": "a"}, [], {"version": 3}, [b"null"], None),
    (("get_with_version", "a"), {"operation": "get_with_version", "key": "a"}, [], {"version": 3}, [b"1"], [1, 3]),
    (("get_with_version", "a"), {"operation": "get_with_version", "key": "a"}, [], {"version": 0}, [], [None, 0]),
    (("set", "ä", "ö"), {"operation": "set", "key": "ä", "ttl": 0}, ['"ö"'.encode()], {"version": 1}, [], True),
    (("set", "a", 1, 2.5), {"operation": "set", "key": "a", "ttl": 2.5}, [b"1"], {"version": 1}, [], True),
    (("set_with_version", "a", 1), {"operation": "set", "key": "a", "ttl": 0}, [b"1"], {"version": 4}, [], 4),
    (("set_with_version", "a", 1, 0, -1), {"operation": "set_with_version", "key": "a", "version": 0, "ttl": -1},
     [b"1"], {"version": 4}, [], 4),
    (("delete", "a"), {"operation": "delete", "key": "a"}, [], {"value": True}, [], True),
    (("incr", "a"), {"operation": "incr", "key": "a", "delta": 1}, [], {"value": 2**62, "version": 2}, [], 2**62),
    (("decr", "a", -(2**63)), {"operation": "decr", "key": "a", "delta": -(2**63)}, [], {"value": 5}, [], 5),
    (("exists", "a"), {"operation": "exists", "key": "a"}, [], {"value": False}, [], False),
    (("keys",), {"operation": "keys", "pattern": "*"}, [], {"value": ["a", "b"]}, [], ["a", "b"]),
    (("expire", "a", 5), {"operation": "expire", "key": "a", "ttl": 5}, [], {"version": 2}, [], True),
    (("ttl", "a"), {"operation": "ttl", "key": "a"}, [], {"value": 2.5}, [], 2.5),
    (("persist", "a"), {"operation": "persist", "key": "a"}, [], {"version": 2}, [], True),
    (("clear",), {"operation": "clear"}, [], {"value": 7}, [], 7),
    (("get_many", ["a", "b"]), {"operation": "get_many", "keys": ["a", "b"]}, [], {"keys": ["b"]}, [b"2"], {"b": 2}),
    (("set_many", {"a": 1, "b": [2]}), {"operation": "set_many", "keys": ["a", "b"], "ttl": 0},
     [b"1", b"[2]"], {"versions": [1, 1]}, [], True),
]  # fmt: skip


@pytest.mark.parametrize("scope", ["function", "session"])
@pytest.mark.parametrize("operation, members, values, reply, reply_values, returned", OPERATIONS)
def test_an_operation_is_one_frame(session, scope, operation, members, values, reply, reply_values, returned):
    """In function scope, and in session scope where the call has no session."""
    name, *arguments = operation
    asked = []

    def answer(head, values):
        asked.append((head, values))
        return reply, reply_values

    instance = session.instance({})
    instance.on_state = answer
    result = instance.call([[f"{scope}.{name}", *arguments]], session=scope != "session")
    assert asked == [({"id": 1, "scope": scope, **members}, values)]
    assert result.body == [["ok", returned]]
    assert result.changes == ({}, {}, {})


def test_frames_of_a_call_are_numbered(session):
    numbers = []

    def answer(head, values):
        numbers.append(head["id"])
        return {"value": 1}, ()

    instance = session.instance({})
    instance.on_state = answer
    for _ in range(2):
        instance.call([["function.incr", "a"], ["function.incr", "b"], ["function.exists", "a"]])
    assert numbers == [1, 2, 3, 1, 2, 3]


def test_a_refusal_is_an_error_with_its_code(session):
    refusals = {
        "a": {"error": "version_conflict", "message": "no", "current_version": 7},
        "b": {"error": "quota_exceeded", "message": "no"},
    }
    instance = session.instance({})
    instance.on_state = lambda head, values: ({"success": False, **refusals[head["key"]]}, ())
    result = instance.call([["function.set_with_version", "a", 1, 3], ["function.set", "b", 1]])
    assert result.body == [["version_conflict", 7], ["quota_exceeded", None]]


def test_session_and_invocation_scope_need_no_frame_beside_it(session):
    instance = session.instance({})
    instance.on_state = lambda head, values: ({"value": 5}, ())
    writes = [["function.incr", "a"], ["set", "a", 1], ["invocation.set", "a", 2]]
    result = instance.call([*writes, ["get", "a"], ["invocation.get", "a"]])
    assert [value for _, value in result.body] == [5, True, True, 1, 2]
    assert {key: value for key, (_, _, value) in result.writes.items()} == {"a": b"1"}


def test_calls_that_come_while_one_waits_for_a_reply_run_after_it(session):
    instance = session.instance({})
    first = instance.invoke([["function.incr", "a"]])
    asking = instance.receive()
    assert asking.kind == STATE and asking.request == first
    second = instance.invoke([["set", "b", 1]])
    instance.reply(asking, {"value": 1})
    ends = [instance.receive() for _ in range(2)]
    assert [(frame.kind, frame.request) for frame in ends] == [(RESULT, first), (RESULT, second)]
    assert Result(ends[0], []).body == [["ok", 1]]


def test_a_reply_to_nobody_is_ignored(session):
    instance = session.instance({})
    first = instance.invoke([["function.incr", "a"]])
    asking = instance.receive()
    asking.head["id"] = 99
    instance.reply(asking, {"value": 5})
    asking.head["id"] = 1
    instance.reply(asking, {"value": 1})
    assert instance.result(first).body == [["ok", 1]]
    assert instance.call([["set", "b", 1]]).body == [["ok", True]]


def test_values_that_no_frame_can_hold_are_too_large(functions):
    instance = functions.load(
        """
        from nimbus import StateError

        def handle(event, state):
            try:
                state.function().set("a", "x" * (64 << 20))
            except StateError as error:
                return error.code
        """
    )
    assert instance.call().body == "too_large"
