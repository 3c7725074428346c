"""Runs a function without a server, for the tests of whoever writes it.

    import pathlib
    from nimbus.testing import Session, load

    main = load(pathlib.Path(__file__).parents[1])      # the folder of the function

    def test_counts():
        alice = Session(main.handle, "alice")
        assert alice.invoke({"add": 2}) == {"count": 2}
        assert alice.state == {"count": 2}

State is kept between calls, is rolled back when a call fails, and expires by a clock that only the test moves. It is the
SDK's own state, and the rules are the server's: both are held to the cases in tests/state_cases. What is the server's
alone is not here: time-outs, processes, memory limits, calls that overlap.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from types import ModuleType
from typing import Any

from nimbus import _call, _frames, _loading, _result
from nimbus._call import Call
from nimbus._errors import StateError, VersionConflict
from nimbus._failure import describe
from nimbus._json import dumps, loads
from nimbus._space import Limits, Row, Space
from nimbus._state import State

__all__ = ["Answer", "Clock", "FunctionError", "Function", "Session", "StateError", "VersionConflict", "load"]

_DEFAULT_SESSION = "_default"  # what calls without a session use


def load(folder: str | os.PathLike[str], file: str = "main.py") -> ModuleType:
    """The module of a function in a folder, as an instance would load it: what lies beside it can be imported. A name of
    its own keeps it apart from those of other functions.
    """
    folder = os.path.abspath(folder)
    name = f"function_{os.path.basename(folder)}_{os.path.splitext(file)[0]}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, os.path.join(folder, file))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


class FunctionError(Exception):
    """The handler returned what cannot be an answer. What it raises itself is raised as it is."""


class Clock:
    """The time that state expires by. It stands still until advance() is called."""

    def __init__(self) -> None:
        self.now_ms = time.time_ns() // 1_000_000

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self.now_ms += round(seconds * 1000)


class Answer:
    """What a caller of the function gets."""

    def __init__(self, context: Mapping[str, Any], status_code: int, body: Any, error: Any) -> None:
        self.request_id: str = context["request_id"]
        self.session_key: str | None = context["session_key"]
        self.session_seq: int | None = context["session_seq"]
        self.attempts: int = context["attempt"]
        self.status_code = status_code
        self.body = body
        self.error: dict[str, Any] | None = error  # type, message and trace, if the call failed
        self.exception: BaseException | None = None  # what was raised, if the call failed

    @property
    def status(self) -> str:
        return "succeeded" if self.error is None else "failed"

    def __repr__(self) -> str:
        return f"Answer({self.status_code}, {self.body if self.error is None else self.error})"


class Function:
    """A function with all its sessions. `settings` are those of function.yaml that matter here: `id`, `timeout_ms`,
    `state_config` and `retry`.
    """

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        id: str = "function",
        timeout_ms: int = 30_000,
        state_config: Mapping[str, Any] | None = None,
        retry: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        config = _with_defaults("state_config", _STATE_CONFIG, state_config)
        self.id = id
        self.clock = clock or Clock()
        self._handler = _loading.examine(handler)
        self._timeout_ms = timeout_ms
        self._retry = _with_defaults("retry", _RETRY, retry)
        self._keeps = config["on_error"] == "keep"
        self._limits = Limits(
            {
                "enabled": config["enabled"],
                "default_ttl_ms": round(config["default_ttl"] * 1000),
                "max_value_bytes": config["max_state_size"],
                "max_keys": config["max_keys"],
                "max_total_bytes": config["max_total_size"],
            }
        )
        self._requests = 0
        self._function_keys = _Keys(self)
        self._sessions: dict[str, _Keys] = {}
        self._next_seq: dict[str, int] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}
        self.sent: list[dict[str, Any]] = []  # function, session, payload and delay of what calls have sent

    def session(self, key: str, state: Mapping[str, Any] | None = None) -> Session:
        return Session(self, key, state)

    @property
    def state(self) -> dict[str, Any]:
        """What is in function scope."""
        return self._function_keys.values()

    def invoke(self, event: Any = None) -> Any:
        """A call without a session: what it returned. Raises what the handler raises."""
        return _body_of(self.call(event))

    def call(self, event: Any = None) -> Answer:
        """A call without a session: the whole answer, whether it failed or not."""
        return self._run(event, self._context(None, None))

    # ---- for sessions

    def _keys_of(self, session: str) -> _Keys:
        return self._sessions.setdefault(session, _Keys(self))

    def _forget(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._next_seq.pop(session, None)
        self._events.pop(session, None)

    def _events_of(self, session: str) -> list[dict[str, Any]]:
        return self._events.setdefault(session, [])

    def _call_session(self, event: Any, session: str) -> Answer:
        return self._run(event, self._context(session, self._take_seq(session)))

    def _deliver(self, event: Any, session: str) -> Answer:
        retry, wait = self._retry, self._retry["initial_ms"]
        context = self._context(session, self._take_seq(session))
        for attempt in range(1, retry["max_attempts"] + 1):
            if attempt > 1:
                self.clock.advance(min(wait, retry["max_ms"]) / 1000)
                wait *= retry["factor"]
            answer = self._run(event, {**context, "attempt": attempt})
            if answer.error is None:
                break
        return answer

    def _take_seq(self, session: str) -> int:
        seq = self._next_seq.get(session, 1)
        self._next_seq[session] = seq + 1
        return seq

    # ---- one call

    def _context(self, session: str | None, seq: int | None) -> dict[str, Any]:
        self._requests += 1
        return {
            "request_id": f"request-{self._requests}",
            "function_id": self.id,
            "version": 1,
            "session_key": session,
            "session_seq": seq,
            "attempt": 1,
            "deadline_ms": time.time_ns() // 1_000_000 + self._timeout_ms,
            "traceparent": None,
        }

    def _run(self, event: Any, context: dict[str, Any]) -> Answer:
        call = _HarnessCall(self, event, context)
        raised, result = copy_context().run(self._ask, call)
        frame = _frames.Reader().feed(result, 0.0)[0]
        head, (body, *values) = loads(_frames.segment(frame, 0)), _frames.segments_from(frame, 1)
        error = head.get("error")
        if error is None or self._keeps:
            self._commit(context["session_key"], head, values)
        if error is not None:
            answer = Answer(context, 500, None, error)
            answer.exception = raised or FunctionError(f"{error['type']}: {error['message']}")
            return answer
        return Answer(context, head["status"], loads(body), None)

    def _commit(self, session: str | None, head: dict[str, Any], values: list[bytes]) -> None:
        """Keeps what the Result of a call leaves: values that it wrote, then events, then payloads that it sent."""
        written = len(head.get("writes", ()))
        appended = written + head.get("events", 0)
        if session is not None:
            self._keys_of(session).commit(head, values)
        if session is not None and "error" not in head:
            events = self._events_of(session)
            for value in values[written:appended]:
                events.append({**loads(value), "seq": len(events) + 1, "version": 1})
        if "error" not in head:
            for (function, target, delay_ms), value in zip(head.get("sends", ()), values[appended:]):
                payload = loads(value)
                self.sent.append({"function": function, "session": target, "payload": payload, "delay": delay_ms / 1000})

    def _ask(self, call: Call) -> tuple[BaseException | None, bytes]:
        """What the handler raised, and its Result."""
        _call.enter(call)
        arguments = (call.event(), State("session", call), call.context())[: self._handler.arguments]
        try:
            answer = self._handler.function(*arguments)
            if asyncio.iscoroutine(answer):
                answer = asyncio.run(answer)
            return None, _result.returned(call, answer)
        except Exception as error:
            return error, _result.failed(call, describe(error))


class Session:
    """A session of a function, or of a handler that has no others: then `settings` are those of Function."""

    def __init__(
        self,
        function: Function | Callable[..., Any],
        key: str = "session",
        state: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.function = function if isinstance(function, Function) else Function(function, **settings)
        self.key = key
        if state:
            values = {name: dumps(value) for name, value in state.items()}
            self.function._keys_of(key).perform(lambda space: space.set_many(values, 0))

    @property
    def state(self) -> dict[str, Any]:
        """What is in it now, a copy."""
        return self.function._keys_of(self.key).values()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What its calls have appended to its event log, oldest first."""
        return list(self.function._events_of(self.key))

    def invoke(self, event: Any = None) -> Any:
        """What the call returned. Raises what the handler raises."""
        return _body_of(self.call(event))

    def call(self, event: Any = None) -> Answer:
        """The whole answer, whether the call failed or not."""
        return self.function._call_session(event, self.key)

    def deliver(self, event: Any = None) -> Answer:
        """An asynchronous call: one that fails is tried again as `retry` says, and the clock goes on by the time in
        between. The answer is the last attempt's.
        """
        return self.function._deliver(event, self.key)

    def delete(self) -> None:
        """As DELETE of the session: its state goes, and its numbers begin at 1 again."""
        self.function._forget(self.key)

    def advance(self, seconds: float) -> None:
        self.function.clock.advance(seconds)


_STATE_CONFIG: dict[str, Any] = {
    "enabled": True,
    "default_ttl": 3600,
    "max_state_size": 65536,
    "max_keys": 100,
    "max_total_size": 0,
    "session_affinity": True,
    "session_timeout": 3600,
    "on_error": "rollback",
}
_RETRY: dict[str, Any] = {"max_attempts": 3, "initial_ms": 1000, "factor": 2, "max_ms": 300_000}


def _with_defaults(what: str, defaults: dict[str, Any], given: Mapping[str, Any] | None) -> dict[str, Any]:
    for name in given or {}:
        if name not in defaults:
            raise ValueError(f"{what} has no {name!r}; it has {', '.join(defaults)}")
    return {**defaults, **(given or {})}


def _body_of(answer: Answer) -> Any:
    if answer.exception is not None:
        raise answer.exception
    return answer.body


class _Keys:
    """What the server would keep of one scope."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._entries: dict[str, tuple[int, int, bytes]] = {}  # version, expiry in Unix milliseconds or 0, value
        self._floor = 0

    def open(self) -> Space:
        """All that is there now, to be worked on."""
        rows: list[Row] = []
        values: list[bytes] = []
        for key, version, expires, value in self._live():
            rows.append([key, version, expires, len(value)])
            values.append(value)
        return _ClockedSpace(self._function, rows, values, self._floor)

    def values(self) -> dict[str, Any]:
        return {key: loads(value) for key, _, _, value in sorted(self._live())}

    def perform(self, act: Callable[[Space], Any]) -> Any:
        """One operation that is a commit of its own."""
        space = self.open()
        answer = act(space)
        members, values = space.close()
        self.commit(loads(f"{{{members[1:]}}}".encode()), values)
        return answer

    def commit(self, head: Mapping[str, Any], values: Sequence[bytes]) -> None:
        """Takes over what the head of a Result says became of the keys."""
        for (key, version, expires), value in zip(head.get("writes", ()), values):
            self._entries[key] = version, expires, value
        for key, version, expires in head.get("touches", ()):
            self._entries[key] = version, expires, self._entries[key][2]
        for key, version in head.get("deletes", ()):
            self._entries.pop(key, None)
            self._floor = max(self._floor, version)

    def _live(self) -> Iterator[tuple[str, int, int, bytes]]:
        for key, (version, expires, value) in list(self._entries.items()):
            if 0 < expires <= self._function.clock.now_ms:
                del self._entries[key]
                self._floor = max(self._floor, version)
            else:
                yield key, version, expires, value


class _ClockedSpace(Space):
    """A space whose time is the test's clock."""

    __slots__ = ("_function",)

    def __init__(self, function: Function, rows: Sequence[Row] = (), values: Sequence[bytes] = (), floor: int = 0) -> None:
        self._function = function
        super().__init__(function._limits, 0, rows, values, floor)

    def _begin(self) -> float:
        now = self._function.clock.now_ms / 1000
        if now >= self._soonest:
            self._remove_expired(now)
        return now

    def _time(self, now: float) -> int:
        return self._function.clock.now_ms


class _AtOnce:
    """Has the methods of a Space; each is carried out and kept at once, whatever becomes of the call."""

    def __init__(self, keys: _Keys) -> None:
        self.operations = 0
        self._keys = keys

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return lambda *arguments: self._keys.perform(lambda space: getattr(space, operation)(*arguments))


class _HarnessCall(Call):
    """A call whose state is the harness's. All else, from the Invoke to the Result, is as in an instance."""

    __slots__ = ("_function", "_session")

    def __init__(self, function: Function, event: Any, context: dict[str, Any]) -> None:
        self._function = function
        self._session: str | None = context["session_key"]
        head = dumps({"context": context, "now": function.clock.now_ms})
        invoke = _frames.pack(_frames.INVOKE, 1, [head, dumps(event)])
        super().__init__(_NO_CHANNEL, function._limits, _frames.Reader().feed(invoke, 0.0)[0])

    def recent_events(self, count: int) -> list[bytes]:
        return [dumps(event) for event in self._function._events_of(self._session or "")[-count:]]

    def _make(self, scope: str) -> Any:
        if scope == "invocation":
            return _ClockedSpace(self._function)
        if scope == "function":
            return _AtOnce(self._function._function_keys)
        if self._session is None:
            return _AtOnce(self._function._keys_of(_DEFAULT_SESSION))
        return self._function._keys_of(self._session).open()


_NO_CHANNEL: Any = None  # nothing goes to a server
