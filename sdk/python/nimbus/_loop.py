"""Runs calls of an `async` handler, as tasks on one loop.

The loop is never closed, so that what a handler opened in one call is good for the next.
"""

from __future__ import annotations

import asyncio
import inspect
from contextvars import Context, copy_context
from functools import partial
from time import monotonic
from types import CoroutineType
from typing import Any, NoReturn

from nimbus import _call, _result
from nimbus._call import Call
from nimbus._channel import DESCRIPTOR, Channel
from nimbus._failure import describe
from nimbus._loading import Handler
from nimbus._runner import LOOK_AGAIN, Runner
from nimbus._space import Limits


class LoopRunner(Runner):
    def __init__(self, channel: Channel, handler: Handler, limits: Limits, concurrency: int) -> None:
        super().__init__(channel, handler, limits, concurrency)
        self._loop = asyncio.new_event_loop()
        # What the loop runs next; only of asyncio's own loop, a function may have chosen another.
        self._ready = self._loop._ready if isinstance(self._loop, asyncio.BaseEventLoop) else None
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
        look_again = monotonic() + LOOK_AGAIN
        while self._waiting and len(self._tasks) < self._concurrency:
            if monotonic() > look_again:  # others on the loop have waited long enough, and so has the channel
                self._loop.call_soon(self._read)
                break
            call = self._begin(next(iter(self._waiting)))
            context = copy_context()
            context.run(_call.enter, call)
            task = self._loop.create_task(self._answer(call), context=context)
            self._tasks[call.request] = task
            self._take_first_step(context)
            if task.done():
                self._finish(call, task)
            else:
                task.add_done_callback(partial(self._done, call))

    def _take_first_step(self, context: Context) -> None:
        """Runs what create_task() has just put on the loop, now. Most calls never wait for anything, and so need no
        more than this step; a turn of the loop costs as much as the rest of the call.
        """
        if self._ready and self._ready[-1]._context is context:
            try:
                self._ready.pop()._run()
            except KeyboardInterrupt:
                pass  # raised by a handler: it is in the handler's task, too

    async def _answer(self, call: Call) -> Any:
        answer = self._ask(call)
        return await answer if type(answer) is CoroutineType or inspect.isawaitable(answer) else answer

    def _done(self, call: Call, task: asyncio.Task[Any]) -> None:
        """Not in the task itself: one that is cancelled before its first step never runs."""
        self._finish(call, task)
        self._go_on()

    def _finish(self, call: Call, task: asyncio.Task[Any]) -> None:
        del self._tasks[call.request]
        reason = self._reasons.pop(call.request, "by itself")
        try:
            result = _result.returned(call, task.result())
        except asyncio.CancelledError:
            result = _result.failed(call, _result.cancelled(reason))
        except BaseException as error:
            result = _result.failed(call, describe(error))
        self._end(call, result)

    def _cancel(self, request: int, reason: str) -> None:
        task = self._tasks.get(request)
        if task is None:
            super()._cancel(request, reason)
        else:
            self._reasons[request] = reason
            task.cancel()
