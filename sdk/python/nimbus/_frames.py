"""Frames, the units of the protocol between server and instance. docs/protocol.md has their layout."""

from __future__ import annotations

from struct import Struct

HELLO, LOAD, READY, INVOKE, RESULT, CANCEL, STATE, LOG = range(1, 9)

MAX_LENGTH = 64 << 20
MAX_SEGMENTS = (1 << 16) - 1

# Type, request, segments.
Frame = tuple[int, int, list[bytes]]

_HEADER = Struct("<IBBHQ")
_header_of = _HEADER.unpack_from


class _Structs(dict[int, Struct]):
    """Structs by how many segments a frame has, made when first needed."""

    def __init__(self, form: str) -> None:
        self._form = form

    def __missing__(self, count: int) -> Struct:
        self[count] = made = Struct(self._form % count)
        return made


_SIZES = _Structs("<%dI")
_WHOLE_HEADERS = _Structs("<IBBHQ%dI")


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
    return _WHOLE_HEADERS[count].pack(length, kind, 0, count, request, *map(len, segments)) + content


class Reader:
    """Takes bytes as they come and gives out the frames that are whole."""

    def __init__(self) -> None:
        self.rest = bytearray()  # a frame that has begun
        self._needed = 0  # as long as rest is shorter, it holds no whole frame

    def feed(self, data: bytes) -> list[Frame]:
        if self.rest:
            self.rest += data
            if len(self.rest) < self._needed:
                return []
            data = bytes(self.rest)
            self.rest.clear()
        frames: list[Frame] = []
        at, size = 0, len(data)
        self._needed = _HEADER.size
        while size - at >= _HEADER.size:
            length, kind, _, count, request = _header_of(data, at)
            start = at + _HEADER.size + 4 * count
            end = at + 4 + length
            if length > MAX_LENGTH or count == 0 or start > end:
                raise ProtocolError("a frame with an impossible length")
            if end > size:
                self._needed = end - at
                break
            segments = []
            for length in _SIZES[count].unpack_from(data, at + _HEADER.size):
                segments.append(data[start : start + length])
                start += length
            if start != end:
                raise ProtocolError("a frame whose segments do not fill it")
            frames.append((kind, request, segments))
            at = end
        if at < size:
            self.rest += data[at:]
        return frames
