"""Runs calls of a plain handler: on the main thread, or with a concurrency above 1 on threads."""

from __future__ import annotations

import sys
from contextvars import copy_context
from time import monotonic
from types import CoroutineType
from typing import Any, NoReturn

from nimbus import _call, _logs, _process, _result
from nimbus._call import Call
from nimbus._channel import Channel
from nimbus._failure import describe
from nimbus._frames import CANCEL, INVOKE, Frame, segment
from nimbus._json import loads
from nimbus._loading import Handler
from nimbus._space import Limits
from nimbus._state import State


# Calls that were sent ahead may be cancelled while they wait for one that takes longer than this, in seconds.
LOOK_AGAIN = 0.001


def head_of(frame: Frame) -> dict[str, Any]:
    try:
        head = loads(segment(frame, 0))
    except ValueError as error:
        _process.fail(f"the head of a frame is not JSON: {error}")
    if not isinstance(head, dict):
        _process.fail("the head of a frame is not a JSON object")
    return head


class Runner:
    """What all ways to run calls have in common."""

    def __init__(self, channel: Channel, handler: Handler, limits: Limits, concurrency: int) -> None:
        self._channel = channel
        self._function = handler.function
        self._arguments = handler.arguments
        self._limits = limits
        self._concurrency = concurrency
        # Calls that have come and not begun, in the order they came.
        self._waiting: dict[int, Frame] = {}

    def serve(self) -> NoReturn:
        raise NotImplementedError

    def _take_in(self) -> None:
        """Sorts what is in the inbox. Frames of unknown types are for instances newer than this one."""
        inbox = self._channel.inbox
        while inbox:
            frame = inbox.popleft()
            if frame[0] == INVOKE:
                self._waiting[frame[1]] = frame
            elif frame[0] == CANCEL:
                self._cancel(frame[1], head_of(frame).get("reason", "cancelled"))

    def _cancel(self, request: int, reason: str) -> None:
        """A call that has not begun need not begin. One that runs cannot be stopped from outside: the server
        ends the process if it takes too long.
        """
        if request in self._waiting:
            call = self._begin(request)
            self._end(call, _result.failed(call, _result.cancelled(reason)))

    def _begin(self, request: int) -> Call:
        """A call, which no longer waits."""
        try:
            return Call(self._channel, self._limits, self._waiting.pop(request))
        except ValueError as error:
            _process.fail(f"what came is no Invoke: {error}")

    def _ask(self, call: Call) -> Any:
        """What the handler returns."""
        if self._arguments == 2:
            return self._function(call.event(), State("session", call))
        if self._arguments == 1:
            return self._function(call.event())
        return self._function(call.event(), State("session", call), call.context())

    def _run(self, call: Call) -> None:
        _call.enter(call)
        try:
            answer = self._ask(call)
            if type(answer) is CoroutineType:  # of a plain function that calls an async one
                answer = _complete(answer)
            result = _result.returned(call, answer)
        except SystemExit as error:
            self._exit(error, call)
        except BaseException as error:
            result = _result.failed(call, describe(error))
        self._end(call, result)

    def _end(self, call: Call, result: bytes) -> None:
        """Together in one send(), and at once: the next call may take long."""
        self._channel.send(_logs.last_lines(call) + result if call.half_lines else result)

    def _exit(self, error: SystemExit, call: Call | None = None) -> NoReturn:
        """The function ends its process; to the server it has crashed."""
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        if lines := _logs.last_lines(call):
            self._channel.send(lines)
        _process.leave(_process.exit_code(error))


class MainThreadRunner(Runner):
    def serve(self) -> NoReturn:
        channel, inbox, waiting = self._channel, self._channel.inbox, self._waiting
        look_again = 0.0
        while True:
            if inbox:
                self._take_in()
            for request in waiting:
                # What a handler sets in its context is not for the call after it.
                copy_context().run(self._run, self._begin(request))
                break
            else:
                channel.wait()
                look_again = monotonic() + LOOK_AGAIN
            if waiting and monotonic() > look_again:
                channel.poll()
                look_again = monotonic() + LOOK_AGAIN


class ThreadsRunner(Runner):
    def serve(self) -> NoReturn:
        from concurrent.futures import ThreadPoolExecutor  # loads logging, which most never need

        pool = ThreadPoolExecutor(self._concurrency)
        while True:
            self._channel.wait()
            self._take_in()
            for request in list(self._waiting):
                pool.submit(copy_context().run, self._run_or_die, self._begin(request))

    def _run_or_die(self, call: Call) -> None:
        try:
            self._run(call)
        except BaseException as error:  # a mistake of ours, which the pool would keep to itself
            _process.fail(f"a call did not come to its end: {error!r}")


def _complete(answer: CoroutineType[Any, Any, Any]) -> Any:
    import asyncio

    return asyncio.run(answer)
