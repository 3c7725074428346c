"""Frames, the units of the protocol between server and instance. docs/protocol.md has their layout."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import pack as pack_header

HELLO, LOAD, READY, INVOKE, RESULT, CANCEL, STATE, LOG = range(1, 9)

MAX_LENGTH = 64 << 20
MAX_SEGMENTS = (1 << 16) - 1
_SURELY_FITS = MAX_LENGTH - 100

# Type, request, what it came in, where in there its segments begin, how long each of them is, and what
# time.monotonic() said when it was read. Who needs a segment cuts it out.
Frame = tuple[int, int, bytes, int, tuple[int, ...], float]

_HEADER = Struct("<IBBHQ")
_header_of = _HEADER.unpack_from
_header_with_2_sizes = Struct("<IBBHQ2I").pack
_header_with_3_sizes = Struct("<IBBHQ3I").pack


class _Sizes(dict[int, Callable[[bytes, int], tuple[int, ...]]]):
    """By how many segments a frame has, what reads their lengths. Made when first needed."""

    def __missing__(self, count: int) -> Callable[[bytes, int], tuple[int, ...]]:
        self[count] = made = Struct(f"<{count}I").unpack_from
        return made


_SIZES = _Sizes()


class ProtocolError(Exception):
    """What came is no frame. There is no way to find the next one."""


class TooLarge(Exception):
    """More than a frame can hold."""


def pack(kind: int, request: int, segments: list[bytes]) -> bytes:
    content = b"".join(segments)
    count = len(segments)
    length = 12 + 4 * count + len(content)
    if length > MAX_LENGTH or count > MAX_SEGMENTS:
        raise TooLarge
    return pack_header(f"<IBBHQ{count}I", length, kind, 0, count, request, *map(len, segments)) + content


def pack_result(request: int, head: bytes, body: bytes, values: list[bytes]) -> bytes:
    """What pack() makes of them, sooner where there is at most one value."""
    a, b = len(head), len(body)
    if len(values) == 1:
        content = head + body + values[0]
        length = len(content)
        if length < _SURELY_FITS:
            return _header_with_3_sizes(24 + length, RESULT, 0, 3, request, a, b, length - a - b) + content
    elif not values and a + b < _SURELY_FITS:
        return _header_with_2_sizes(20 + a + b, RESULT, 0, 2, request, a, b) + head + body
    return pack(RESULT, request, [head, body, *values])


def segment(frame: Frame, number: int) -> bytes:
    _, _, data, start, sizes, _ = frame
    start += sum(sizes[:number])
    return data[start : start + sizes[number]]


def segments_from(frame: Frame, number: int) -> list[bytes]:
    """That segment and all behind it."""
    _, _, data, start, sizes, _ = frame
    start += sum(sizes[:number])
    return [data[start : (start := start + size)] for size in sizes[number:]]


class Reader:
    """Takes bytes as they come and gives out the frames that are whole."""

    __slots__ = ("_needed", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()  # a frame that has begun
        self._needed = 0  # as long as _rest is shorter, it holds no whole frame

    def missing(self) -> int:
        """How many bytes must come, at least, before there is another frame."""
        return max(1, self._needed - len(self._rest))

    def feed(self, data: bytes, arrived: float) -> list[Frame]:
        """`arrived`: what time.monotonic() said when `data` was read."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        frames: list[Frame] = []
        at, size = 0, len(data)
        self._needed = 16
        while size - at >= 16:
            length, kind, _, count, request = _header_of(data, at)
            start = at + 16 + 4 * count
            end = at + 4 + length
            if end > size or start > end:
                if length > MAX_LENGTH or start > end:
                    raise ProtocolError("a frame with an impossible length")
                self._needed = end - at
                break
            sizes = _SIZES[count](data, at + 16)
            if start + sum(sizes) != end or not sizes:
                raise ProtocolError("a frame whose segments do not fill it")
            frames.append((kind, request, data, start, sizes, arrived))
            at = end
        if at < size:
            self._rest += data[at:]
        return frames
