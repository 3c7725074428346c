"""The event log of a call's session: what is appended goes with the Result, what is read is asked for."""

import json

import pytest

FUNCTION = """
    from nimbus import StateError, events, state

    def handle(event):
        try:
            return eval(event, {"events": events, "state": state})
        except StateError as error:
            return error.code
"""


@pytest.fixture
def instance(functions):
    return functions.load(FUNCTION)


def test_appended_events_go_with_the_result(instance):
    result = instance.call("[state.set('a', 1), events.append({'content': [], 'id': 'e1'}), events.append(content=2)]")
    assert result.body[:2] == [True, "e1"]
    first, second = [json.loads(event) for event in result.events]
    assert first == {"content": [], "id": "e1"}
    assert second == {"content": 2, "id": result.body[2]}
    assert set(result.writes) == {"a"}
    assert instance.call("1").events == [], "the next call begins without them"


def test_recent_events_are_those_of_the_log_and_the_calls_own(instance):
    asked = []

    def answer(head, values):
        asked.append(head)
        return {}, [b'{"id":"old","content":0}']

    instance.on_state = answer
    result = instance.call("[events.append(content=1, id='new'), [e['id'] for e in events.recent(2)]][1]")
    assert asked == [{"id": 1, "operation": "events.recent", "count": 1}]
    assert result.body == ["old", "new"]
    assert instance.call("[events.append(content=1, id='new'), len(events.recent(1))][1]").body == 1
    assert len(asked) == 1, "what the call has itself costs no message"


@pytest.mark.parametrize("wrong", ["events.append(7)", "events.append(author='x')", "events.append(content={1})",
                                   "events.append(content=1, id=3)", "events.recent(0)", "events.recent(1001)",
                                   "events.recent(True)"])
def test_what_makes_no_sense_is_refused(instance, wrong):
    result = instance.call(wrong)
    assert (result.body, result.events) == ("invalid_argument", [])


def test_a_stateless_call_has_no_log(instance):
    assert instance.call("events.append(content=1)", session=False).body == "invalid_argument"


def test_a_call_appends_a_bounded_number(instance):
    result = instance.call("[events.append(content=i) for i in range(501)]")
    assert (result.body, len(result.events)) == ("quota_exceeded", 500)
