"""Exceptions of functions, as they are told to the server."""

from __future__ import annotations

import os
import traceback

_SDK = os.path.dirname(os.path.abspath(__file__)) + os.sep
_MAX_MESSAGE = 8 << 10
_MAX_TRACE = 64 << 10

Description = dict[str, str | int]


def describe(error: BaseException) -> Description:
    description: Description = {"type": utf8(type(error).__name__), "message": _message(error)}
    try:
        if error.__traceback__ is not None:
            description["trace"] = _trace(error)
    except Exception:
        # Where memory is short, what the function left on its stack is worth less than an answer.
        traceback.clear_frames(error.__traceback__)
    return description


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "its message cannot be had: __str__ failed"
    return utf8(text).encode()[:_MAX_MESSAGE].decode(errors="ignore")


def _trace(error: BaseException) -> str:
    """The end of a long one: it says what happened and where."""
    trace = traceback.TracebackException.from_exception(error)
    _strip(trace)
    return utf8("".join(trace.format())).encode()[-_MAX_TRACE:].decode(errors="ignore")


def _strip(trace: traceback.TracebackException) -> None:
    """Removes the frames of this SDK: they say nothing about the function."""
    traces = [trace]
    while traces:
        trace = traces.pop()
        trace.stack[:] = [frame for frame in trace.stack if not frame.filename.startswith(_SDK)]
        related = (trace.__cause__, trace.__context__, *(trace.exceptions or ()))
        traces += [other for other in related if other is not None]


def utf8(text: str) -> str:
    """The same text; what UTF-8 has no bytes for is spelled out."""
    return text.encode(errors="backslashreplace").decode()
