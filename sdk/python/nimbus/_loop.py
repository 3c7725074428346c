"""Runs calls of an `async` handler, as tasks on one loop.

The loop is never closed, so that what a handler opened in one call is good for the next.
"""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from functools import partial
from typing import Any, NoReturn

from nimbus import _call, _result
from nimbus._call import Call
from nimbus._channel import DESCRIPTOR, Channel
from nimbus._failure import describe
from nimbus._loading import Handler
from nimbus._runner import Runner
from nimbus._space import Limits


class LoopRunner(Runner):
    def __init__(self, channel: Channel, handler: Handler, limits: Limits, concurrency: int) -> None:
        super().__init__(channel, handler, limits, concurrency)
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._reasons: dict[int, str] = {}  # of calls that were told to stop

    def serve(self) -> NoReturn:
        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(DESCRIPTOR, self._read)
        self._channel.on_inbox = partial(self._loop.call_soon_threadsafe, self._go_on)
        self._loop.call_soon(self._go_on)
        while True:
            try:
                self._loop.run_forever()
            except SystemExit as error:
                self._exit(error)
            except KeyboardInterrupt:
                pass  # raised by a handler: it is in the handler's task, too

    def _read(self) -> None:
        self._channel.poll()
        self._go_on()

    def _go_on(self) -> None:
        self._take_in()
        while self._waiting and len(self._tasks) < self._concurrency:
            call = self._begin(next(iter(self._waiting)))
            context = copy_context()
            context.run(_call.enter, call)
            task = self._loop.create_task(self._answer(call), context=context)
            self._tasks[call.request] = task
            task.add_done_callback(partial(self._done, call))

    async def _answer(self, call: Call) -> Any:
        answer = self._ask(call)
        return await answer if inspect.isawaitable(answer) else answer

    def _done(self, call: Call, task: asyncio.Task[Any]) -> None:
        """Not in the task itself: one that is cancelled before its first step never runs."""
        del self._tasks[call.request]
        reason = self._reasons.pop(call.request, "by itself")
        try:
            result = _result.returned(call, task.result())
        except asyncio.CancelledError:
            result = _result.failed(call, _result.cancelled(reason))
        except BaseException as error:
            result = _result.failed(call, describe(error))
        self._end(call, result)
        self._go_on()

    def _cancel(self, request: int, reason: str) -> None:
        task = self._tasks.get(request)
        if task is None:
            super()._cancel(request, reason)
        else:
            self._reasons[request] = reason
            task.cancel()
