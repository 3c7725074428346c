"""What the author of a function sees of our types. A line that must be wrong says so; mypy refuses it if it is not."""

import pathlib
from typing import Any

from nimbus import State, StateError, VersionConflict, log, state
from nimbus.testing import Answer, Clock, Function, Session, load


def handle(event: dict[str, Any], state: State) -> dict[str, int]:
    visits: int = state.incr("visits")
    version: int = state.set_with_version("name", event["name"], version=0, ttl=1.5)
    found: bool = state.delete("old")
    keys: list[str] = state.function().keys("cart:*")
    value, current = state.get_with_version("name")
    log.info("called", visits=visits, found=found, keys=keys, value=value)
    return {"visits": visits, "version": version + current}


def refused(error: StateError) -> str:
    return f"{error.code} {error.current_version if isinstance(error, VersionConflict) else 0}"


def wrong() -> None:
    state.incr(5)  # type: ignore[arg-type]
    state.set("a", 1, ttl="soon")  # type: ignore[arg-type]
    state.lookup("a")  # type: ignore[attr-defined]


def test_it() -> None:
    function = Function(handle, id="visits", state_config={"max_keys": 3}, clock=Clock())
    alice: Session = function.session("alice", {"visits": 1})
    answer: Answer = alice.call({"name": "Alice"})
    status: int = answer.status_code
    seq: int | None = alice.deliver({"name": "Alice"}).session_seq
    alice.advance(60.5)
    Session(load(pathlib.Path("."), "main.py").handle, "bob", state={"a": [1]}).invoke()
    assert status and seq and alice.state == {}
    alice.call(1, 2)  # type: ignore[call-arg]
    Function("handle")  # type: ignore[arg-type]
