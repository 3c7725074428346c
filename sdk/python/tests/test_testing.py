"""What the harness for authors has beyond state, which tests/state_cases is about."""

import asyncio
import sys

import pytest

import host

sys.path.insert(0, str(host.SDK))

from nimbus import state  # noqa: E402
from nimbus.testing import Function, FunctionError, Session, StateError, load  # noqa: E402


def test_handlers_take_as_many_arguments_as_they_want():
    assert Session(lambda event: event).invoke([1]) == [1]
    assert Session(lambda event, state: state.incr("n")).invoke() == 1
    assert Session(lambda event, state, context: context.session_key, "alice").invoke() == "alice"


def test_the_global_state_is_that_of_the_call():
    alice = Session(lambda event: state.incr("n"))
    assert [alice.invoke(), alice.invoke()] == [1, 2]
    with pytest.raises(StateError, match="only while a call runs"):
        state.get("n")


def test_async_handlers():
    async def handle(event, state):
        await asyncio.sleep(0)
        return state.incr("n")

    assert Session(handle).invoke() == 1


def test_what_the_handler_raises_is_raised():
    def handle(event):
        raise KeyError("item")

    answer = Session(handle).call()
    assert (answer.status_code, answer.status, answer.error["type"]) == (500, "failed", "KeyError")
    assert "in handle" in answer.error["trace"] and "testing.py" not in answer.error["trace"].replace("test_testing.py", "")
    with pytest.raises(KeyError):
        Session(handle).invoke()


def test_an_answer_that_is_not_json_is_an_error_and_rolls_back():
    def handle(event, state):
        state.set("a", 1)
        return {1, 2}

    alice = Session(handle)
    with pytest.raises(FunctionError, match="not JSON"):
        alice.invoke()
    assert alice.state == {}


def test_event_and_state_are_copies():
    def handle(event, state):
        event["list"].append(1)
        state.get("list").append(1)

    event = {"list": []}
    alice = Session(handle, state={"list": []})
    alice.invoke(event)
    alice.state["list"].append(2)
    assert event == {"list": []} and alice.state == {"list": []}


def test_state_ends_with_its_call():
    kept = []
    alice = Session(lambda event, state: kept.append(state))
    alice.invoke()
    with pytest.raises(StateError, match="ended"):
        kept[0].get("a")


def test_deliver_tries_again_with_longer_waits():
    attempts = []

    def handle(event, state, context):
        attempts.append((context.attempt, context.session_seq, context.request_id, function.clock.now_ms))
        raise ValueError("no")

    function = Function(handle, retry={"max_attempts": 4, "initial_ms": 100, "factor": 3, "max_ms": 500})
    begin = function.clock.now_ms
    answer = function.session("a").deliver()
    assert answer.attempts == 4 and answer.error["message"] == "no"
    assert [attempt[3] - begin for attempt in attempts] == [0, 100, 400, 900]
    assert {attempt[1:3] for attempt in attempts} == {(1, "request-1")}


def test_settings_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="'max_key'.*max_keys"):
        Function(print, state_config={"max_key": 1})
    with pytest.raises(StateError, match="quota_exceeded"):
        Session(print, state={"a": 1, "b": 2}, state_config={"max_keys": 1})


def test_modules_of_two_functions_do_not_meet(tmp_path):
    for name in ("one", "two"):
        host.write_function(tmp_path / name, f"from {name}_words import WORD\ndef handle(event):\n    return WORD\n",
                            **{f"{name}_words": f"WORD = {name!r}\n"})  # fmt: skip
    one, two = load(tmp_path / "one"), load(tmp_path / "two")
    assert (Session(one.handle).invoke(), Session(two.handle).invoke()) == ("one", "two")
