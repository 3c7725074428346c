"""The process that runs one version of one function: it says Hello, loads what Load names, and runs calls."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, NoReturn

from nimbus import __version__, _call, _frames, _loading, _logs, _process
from nimbus._channel import Channel
from nimbus._failure import describe
from nimbus._json import dumps
from nimbus._runner import MainThreadRunner, Runner, ThreadsRunner, head_of
from nimbus._space import Limits

PROTOCOL = 1


def main(process: int) -> NoReturn:
    channel = Channel()
    hello = {
        "protocol": PROTOCOL,
        "language": "python",
        "language_version": "%d.%d.%d" % sys.version_info[:3],
        "sdk": __version__,
        "pid": process,
    }
    channel.send(_frames.pack(_frames.HELLO, 0, [dumps(hello)]))
    _logs.capture(channel)
    os.register_at_fork(after_in_child=lambda: _abandon(channel))
    load = _await_load(channel)
    error: dict[str, Any] = {}
    try:
        handler = _load(load)
    except _loading.LoadError as failure:
        error = {"error": failure.description}
    channel.send(_logs.last_lines(None) + _frames.pack(_frames.READY, 0, [dumps(error)]))
    if error:
        _process.leave(1)
    gc.freeze()  # what is loaded stays; collecting garbage need not look at it again and again
    _runner(channel, handler, load).serve()


def _abandon(channel: Channel) -> None:
    """In a child that the function forked: the call is the parent's, to change state in and to end."""
    channel.abandon()
    call = _call.current()
    if call is not None:
        call.end()


def _await_load(channel: Channel) -> dict[str, Any]:
    while True:
        channel.wait()
        frame = channel.inbox.popleft()
        if frame[0] == _frames.LOAD:
            return head_of(frame)


def _load(load: dict[str, Any]) -> _loading.Handler:
    directory = os.path.abspath(load["directory"])
    concurrency = load.get("concurrency", 1)
    try:
        os.chdir(directory)
        _process.set_environment(load.get("env") or {})
        _process.limit_memory(load.get("memory_mb", 0), concurrency if concurrency > 1 else 0)
    except (OSError, ValueError) as error:
        raise _loading.LoadError(describe(error)) from None
    _process.add_packages(load.get("dependencies"))
    return _loading.load(directory, load["handler"])


def _runner(channel: Channel, handler: _loading.Handler, load: dict[str, Any]) -> Runner:
    limits = Limits(load.get("state") or {})
    concurrency = load.get("concurrency", 1)
    if handler.is_async:
        from nimbus._loop import LoopRunner  # asyncio takes long to load where no zygote has done it

        return LoopRunner(channel, handler, limits, concurrency)
    if concurrency > 1:
        return ThreadsRunner(channel, handler, limits, concurrency)
    return MainThreadRunner(channel, handler, limits, concurrency)
