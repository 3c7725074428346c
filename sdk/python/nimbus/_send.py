"""Calls that a function sends. They leave with what the call wrote, or not at all if it fails."""

from __future__ import annotations

import json
from typing import Any

from nimbus import _call
from nimbus._json import dumps

MOST = 1000  # of one call


def send(function: str, session: str | None = None, payload: Any = None, delay: float = 0) -> None:
    """Has `function` called with `payload`, later and once: in the order of `session`, or without one.

    Calls to one session arrive in the order in which they were sent. `delay` is in seconds.
    """
    call = _call.current()
    if call is None:
        raise RuntimeError("no call is running here: send() belongs to a call of a function on Nimbus")
    if not isinstance(function, str) or not function:
        raise TypeError("the first argument of send() is the id of a function")
    if session is not None and (not isinstance(session, str) or not session):
        raise TypeError("the second argument of send() is a session key, or None")
    if isinstance(delay, bool) or not isinstance(delay, (int, float)) or not 0 <= delay <= 366 * 86400:
        raise ValueError("a delay is a number of seconds, at most a year")
    value = dumps(payload)
    sent = call.sent = call.sent or []
    if len(sent) == MOST:
        raise ValueError(f"a call sends at most {MOST} others")
    sent.append(([function, session, round(delay * 1000)], value))


def add(call: _call.Call, members: str, values: list[bytes]) -> tuple[str, list[bytes]]:
    """What the call has sent, behind what it wrote."""
    sent = call.sent or []
    return f'{members},"sends":{json.dumps([head for head, _ in sent])}', [*values, *(value for _, value in sent)]
