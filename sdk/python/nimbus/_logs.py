"""What the function prints, as Log frames of the call that printed it."""

from __future__ import annotations

import io
import os
import sys
import threading

from nimbus import _call, _frames
from nimbus._channel import Channel

# A line without an end must not take all memory.
_MAX_HALF_LINE = 64 << 10
_MAX_FRAME = 1 << 20

_HEADS = {"stdout": b'{"stream":"stdout"}', "stderr": b'{"stream":"stderr"}'}

_half_lines: dict[str, bytes] = {}  # of no call


class Stream(io.RawIOBase):
    """The bytes below sys.stdout or sys.stderr. A line is sent when it is whole, at once: the lines before a
    crash are those that are looked for.
    """

    def __init__(self, channel: Channel, stream: str, descriptor: int) -> None:
        self.name = f"<{stream}>"
        self._channel = channel
        self._stream = stream
        self._descriptor = descriptor
        self._lock = threading.RLock()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        if self._channel.abandoned:
            return os.write(self._descriptor, data)
        with self._lock:
            call = _call.current()
            half_lines = _half_lines_of(call)
            text = half_lines.pop(self._stream, b"") + data
            end = text.rfind(b"\n") + 1
            if len(text) - end > _MAX_HALF_LINE:
                end = len(text)
            elif end < len(text):
                half_lines[self._stream] = text[end:]
            if end:
                self._channel.send(_pack(self._stream, 0 if call is None else call.request, text[:end]))
        return len(data)


def capture(channel: Channel) -> None:
    """From here on sys.stdout and sys.stderr write Log frames."""
    for stream, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = Stream(channel, stream, descriptor)
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)
        setattr(sys, stream, text)


def _half_lines_of(call: _call.Call | None) -> dict[str, bytes]:
    if call is None:
        return _half_lines
    if call.half_lines is None:
        call.half_lines = {}
    return call.half_lines


def last_lines(call: _call.Call | None) -> bytes:
    """Log frames of what the call, or no call, printed without an end of line."""
    half_lines, request = _half_lines_of(call), 0 if call is None else call.request
    frames = b""
    while half_lines:
        stream, text = half_lines.popitem()
        frames += _pack(stream, request, text + b"\n")
    return frames


def _pack(stream: str, request: int, text: bytes) -> bytes:
    frames = b""
    while text:
        end = len(text)
        if end > _MAX_FRAME:
            end = text.rfind(b"\n", 0, _MAX_FRAME) + 1 or _MAX_FRAME
        # sys.stdout.buffer takes any bytes; the log is text.
        lines = text[:end].decode(errors="backslashreplace").encode()
        frames += _frames.pack(_frames.LOG, request, [_HEADS[stream], lines])
        text = text[end:]
    return frames
