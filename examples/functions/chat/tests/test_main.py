"""Runs without a server: PYTHONPATH=sdk/python python3 -m pytest examples/functions/chat"""

import pathlib

import pytest
from nimbus.testing import Session, load

main = load(pathlib.Path(__file__).parents[1])


def test_it_remembers_what_was_said():
    alice = Session(main.handle, "alice")
    assert "message 1" in alice.invoke({"message": "hello"})["answer"]
    assert alice.invoke({"message": "again"})["answer"] == "You said: again. That was message 2 that I remember."
    assert [message["role"] for message in alice.state["history"]] == ["user", "assistant"] * 2


def test_it_remembers_only_the_last_messages():
    alice = Session(main.handle, "alice")
    for number in range(15):
        alice.invoke({"message": f"m{number}"})
    assert len(alice.state["history"]) == main.KEPT
    assert alice.state["history"][0]["content"] == "m5"


def test_a_model_that_fails_leaves_no_trace(monkeypatch):
    def unreachable(history):
        raise ConnectionError("the model is away")

    alice = Session(main.handle, "alice")
    alice.invoke({"message": "hello"})
    before = alice.state
    monkeypatch.setattr(main, "ask_model", unreachable)
    with pytest.raises(ConnectionError):
        alice.invoke({"message": "lost"})
    assert alice.state == before


def test_a_conversation_is_forgotten_half_an_hour_after_its_last_message():
    alice = Session(main.handle, "alice", state_config={"default_ttl": 1800})
    alice.invoke({"message": "hello"})
    alice.advance(1799)
    alice.invoke({"message": "still here"})
    alice.advance(1799)
    assert len(alice.state["history"]) == 4
    alice.advance(1)
    assert alice.state == {}
