"""The event log of the call's session: events.append(...), events.recent(n)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from nimbus import _call
from nimbus._errors import StateError, invalid
from nimbus._json import dumps, loads

MOST_EVENTS = 500
MOST_RECENT = 1000


class Events:
    """Events are appended when the call ends, together with its state, or not at all if it fails. An event is a
    mapping, or keyword arguments: content, author, request_id, invocation_id, tag, timestamp, state_delta, id.
    """

    __slots__ = ()

    def append(self, event: Mapping[str, Any] | None = None, /, **members: Any) -> str:
        """Returns the event's id, which is made if none is given."""
        if event is not None and not isinstance(event, Mapping):
            raise invalid(f"an event is a mapping, not {type(event).__name__}")
        whole = {**(event or {}), **members}
        if "content" not in whole:
            raise invalid("an event needs a content")
        if whole.get("id") is None:
            whole["id"] = "evt_" + secrets.token_hex(10)
        if not isinstance(whole["id"], str):
            raise invalid("an event's id is a string")
        try:
            text = dumps(whole)
        except (TypeError, ValueError, RecursionError) as error:
            raise invalid(f"the event is not JSON: {error}") from None
        call = _running()
        if len(call.events) >= MOST_EVENTS:
            raise StateError("quota_exceeded", f"a call appends at most {MOST_EVENTS} events")
        call.events.append(text)
        return whole["id"]

    def recent(self, n: int = 10) -> list[dict[str, Any]]:
        """The newest n events, oldest first: those of the log, then those that this call has appended, which have
        no seq yet.
        """
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MOST_RECENT:
            raise invalid(f"1 to {MOST_RECENT} events can be read")
        call = _running()
        own = [loads(text) for text in call.events[-n:]]
        if len(own) == n:
            return own
        return [loads(value) for value in call.recent_events(n - len(own))] + own


def _running() -> _call.Call:
    call = _call.current()
    if call is None:
        raise StateError("unavailable", "events belong to a call, and none is running here")
    if not call.has_session():
        raise invalid("a call without a session has no event log")
    return call


events = Events()
