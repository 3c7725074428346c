"""A call while it runs, and what belongs to it."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Any

from nimbus import _counts, _process
from nimbus._channel import Channel
from nimbus._errors import StateError
from nimbus._frames import Frame
from nimbus._heads import BEGIN, check, context_of, members_of
from nimbus._json import loads
from nimbus._remote import Remote, Requests
from nimbus._space import Limits, Row, Space


class Context(dict[str, Any]):
    """The third argument of a handler: context.request_id, or context["request_id"]."""

    request_id: str
    function_id: str
    version: int
    session_key: str | None
    session_seq: int | None
    attempt: int
    deadline_ms: int
    traceparent: str | None

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the context has no {name!r}") from None

    def remaining_ms(self) -> int:
        """How long the call may still take; 0 if its time is over."""
        return max(0, self.deadline_ms - time.time_ns() // 1_000_000)


class Call:
    __slots__ = (
        "_channel",
        "_events",
        "_failures",
        "_frame",
        "_limits",
        "_requests",
        "ended",
        "half_lines",
        "request",
        "sent",
        "spaces",
    )

    def __init__(self, channel: Channel, limits: Limits, frame: Frame) -> None:
        """Raises ValueError if it is easily seen that `frame` is no Invoke."""
        _, self.request, data, start, sizes, _ = frame
        if len(sizes) < 2:
            raise ValueError("it has no event")
        if not data.startswith(BEGIN, start):
            check(data[start : start + sizes[0]])
        self._channel = channel
        self._limits = limits
        self._frame = frame
        self._requests: Requests | None = None
        self._events: list[bytes] | None = None  # that were appended, as JSON
        self._failures: dict[str, int] | None = None  # operations that failed, as docs/protocol.md names them
        self.spaces: dict[str, Space | Remote] = {}  # by scope, those that have been used
        self.sent: list[tuple[list[Any], bytes]] | None = None  # calls: function, session and delay; payload
        self.half_lines: dict[str, bytes] | None = None  # by stream: what was printed without an end of line
        self.ended = False

    def event(self) -> Any:
        _, _, data, start, sizes, _ = self._frame
        start += sizes[0]
        return loads(data[start : start + sizes[1]])

    def context(self) -> Context:
        _, _, data, start, sizes, _ = self._frame
        return Context(context_of(data, start, start + sizes[0]))

    def open(self, scope: str) -> Space | Remote:
        """The state of a scope that is not among `spaces` yet. Where several threads want it, they get the same."""
        if not self._limits.enabled:
            raise StateError("forbidden", "this function has no state: state_config.enabled is false")
        space = self.spaces.setdefault(scope, self._make(scope))
        if self.ended:  # looked at last: end() may not have seen what was added
            raise StateError("unavailable", "the call that this state belongs to has ended")
        return space

    @property
    def events(self) -> list[bytes]:
        """What it has appended to its session's event log, as JSON."""
        if self._events is None:
            self._events = []
        return self._events

    def recent_events(self, count: int) -> list[bytes]:
        return self._state_requests().send({"operation": "events.recent", "count": count})[1]

    def has_session(self) -> bool:
        return self.context()["session_key"] is not None

    def end(self) -> tuple[str, list[bytes]]:
        """What the call did, as members of the head of its Result, and the values that go with them."""
        members, values = self._end_state()
        if not self._events:
            return members, values
        return f'{members},"events":{len(self._events)}', values + self._events

    def _end_state(self) -> tuple[str, list[bytes]]:
        """No operation comes through any more. Returns what the call did to its session, see Space.close(), and how
        often it did what.

        Lets go of the spaces, which refer back to the call: without that only the garbage collector could
        free the two.
        """
        self.ended = True
        spaces = self.spaces
        self.spaces = {}
        session = spaces.get("session")
        if not isinstance(session, Space):
            return self._operations(spaces), []
        members, values = session.close()
        if len(spaces) > 1 or self._failures is not None:
            return members + self._operations(spaces), values
        return members + _counts.in_session(session.operations), values

    def count_failure(self, scope: str, operation: int, error: StateError) -> None:
        """Without a lock: threads of one call that race cost a count, not each other's time."""
        failures = self._failures = self._failures or {}
        name = f"{_counts.name_of(scope, operation)}:{error.code}"
        failures[name] = failures.get(name, 0) + 1

    def _operations(self, spaces: dict[str, Space | Remote]) -> str:
        """The member of the head, whatever the call did."""
        counts: dict[str, int] = {}
        for scope, space in spaces.items():
            if isinstance(space, Space):  # the others are the server's to count
                counts |= _counts.by_name(scope, space.operations)
        return _counts.member(counts | (self._failures or {}))

    def _make(self, scope: str) -> Space | Remote:
        if scope == "function":
            return self._remote(scope)
        _, _, data, start, sizes, arrived = self._frame
        at = start + sizes[0]
        try:
            members = members_of(data, start, at)
            clock = members["now"] - arrived * 1000
            state = members.get("state")
            if state is not None:
                rows, floor, complete = state["keys"], state["floor"], state["complete"]
        except (ValueError, KeyError, TypeError) as error:
            _process.fail(f"what came is no Invoke: {error!r}")
        if scope == "invocation":
            return Space(self._limits, clock)
        if state is None:
            return self._remote(scope)
        at += sizes[1]
        values = []
        for size in sizes[2:]:
            values.append(data[at : at + size])
            at += size
        return Space(self._limits, clock, rows, values, floor, self._load, complete)

    def _load(self, keys: list[str] | None) -> tuple[list[Row], list[bytes]]:
        members = {} if keys is None else {"keys": keys}
        head, values = self._state_requests().send({"scope": "session", "operation": "load", **members})
        return head["keys"], values

    def _remote(self, scope: str) -> Remote:
        return Remote(self._state_requests(), scope)

    def _state_requests(self) -> Requests:
        if self._requests is None:
            self._requests = Requests(self._channel, self.request)
        return self._requests


_current: ContextVar[Call | None] = ContextVar("nimbus_call", default=None)

enter = _current.set


def current() -> Call | None:
    """The call that this code belongs to, if it is still running."""
    call = _current.get()
    return None if call is None or call.ended else call
