"""Keys and values of one scope, as one call sees and changes them.

The server hands a call its session's state and takes back what became of it, so that an operation costs
no message, but for values and keys that did not come along. The rules are those of docs/protocol.md,
"What an instance must do for session scope"; the server refuses a result that breaks them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from time import monotonic
from typing import Any

from nimbus._errors import StateError, conflict, invalid
from nimbus._glob import matcher
from nimbus._json import quote

_RLock = type(threading.RLock())  # threading.RLock() takes longer to find it than to make one

INT64 = range(-(1 << 63), 1 << 63)

_LEAST, _MOST = INT64[0], INT64[-1]
_NEVER = math.inf
_ZERO = ord("0")

# Key, version, time of expiry (0: never), length of the value.
Row = list[Any]

# Asks the server for the rows of these keys and their values, or for all rows without values.
Load = Callable[[list[str] | None], tuple[list[Row], list[bytes]]]


_NO_LIMIT = 1 << 62


class Limits:
    """The `state` of Load. A 0 means no limit."""

    __slots__ = ("default_ttl_ms", "enabled", "max_keys", "max_total_bytes", "max_value_bytes")

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.enabled: bool = given.get("enabled", True)
        self.default_ttl_ms: int = given.get("default_ttl_ms", 0)
        self.max_value_bytes: int = given.get("max_value_bytes", 0) or _NO_LIMIT
        self.max_keys: int = given.get("max_keys", 0)
        self.max_total_bytes: int = given.get("max_total_bytes", 0)


# An entry is the row the server sent, and two things more: the value, empty, as no JSON is, if only the server has
# it; and whether this call has written it.
_VERSION, _EXPIRES, _SIZE, _VALUE, _WRITTEN = range(1, 6)

_Entry = list[Any]


class Space:
    """Each method is one atomic step, at one time, also for threads that the function starts."""

    __slots__ = (
        "_bytes",
        "_changed",
        "_clock",
        "_closed",
        "_complete",
        "_entries",
        "_floor",
        "_gone",
        "_limits",
        "_load",
        "_lock",
        "_soonest",
        "operations",
    )

    def __init__(
        self,
        limits: Limits,
        clock: float,
        rows: Sequence[Row] = (),
        values: Sequence[bytes] = (),
        floor: int = 0,
        load: Load | None = None,
        complete: bool = True,
    ) -> None:
        """`clock`: how many milliseconds the store's clock is ahead of time.monotonic(). Keeps the rows."""
        self._limits = limits
        self._clock = clock
        self._floor = floor
        self._load = load
        self._complete = complete
        self._lock = _RLock()
        self._entries: dict[str, _Entry] = {}
        # Keys known not to be there, and the last version they had, 0 if they never were there.
        self._gone: dict[str, int] = {}
        self._changed: dict[str, _Entry | None] = {}  # None: it is gone
        self._bytes: int | None = None  # of all values; counted from when it matters
        self._soonest: float = _NEVER  # no key expires before, by time.monotonic()
        self._closed = False
        self.operations = 0  # how often which was called; the server does not see them
        if len(values) < len(rows):
            values = [*values, *[b""] * (len(rows) - len(values))]
        for entry, value in zip(rows, values):
            key, _, expires, _ = entry
            entry += (value, False)
            self._entries[key] = entry
            if expires and (soon := (expires - clock) / 1000) < self._soonest:
                self._soonest = soon

    def get(self, key: str) -> tuple[bytes | None, int]:
        with self._lock:
            self._begin()
            entry = self._entries.get(key)
            if entry is None or not entry[_VALUE]:
                entry = self._find_whole(key)
            return (None, 0) if entry is None else (entry[_VALUE], entry[_VERSION])

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        with self._lock:
            self._begin()
            self._ask([key for key in dict.fromkeys(keys) if self._is_unknown(key)])
            entries = self._entries
            return {key: entries[key][_VALUE] for key in keys if key in entries}

    def set(self, key: str, value: bytes, ttl: float) -> int:
        with self._lock:
            now = self._begin()
            return self._put(key, self._entries.get(key) or self._find(key), value, self._expiry(ttl, now))

    def set_with_version(self, key: str, value: bytes, version: int, ttl: float) -> int:
        with self._lock:
            now = self._begin()
            entry = self._find(key)
            if len(value) > self._limits.max_value_bytes:  # is told before a conflict
                raise self._too_large(key, len(value))
            current = 0 if entry is None else entry[_VERSION]
            if version != current:
                raise conflict(key, version, current)
            return self._put(key, entry, value, self._expiry(ttl, now))

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        with self._lock:
            now = self._begin()
            new = grown = 0
            for key, value in values.items():
                entry = self._find(key)
                if len(value) > self._limits.max_value_bytes:
                    raise self._too_large(key, len(value))
                new += entry is None
                grown += len(value) - (0 if entry is None else entry[_SIZE])
            self._make_room(new, grown)
            expires = self._expiry(ttl, now)
            for key, value in values.items():
                entry = self._entries.get(key) or self._add(key)
                self._write(entry, value)
                self._change(key, entry, expires)

    def incr(self, key: str, delta: int) -> int:
        with self._lock:
            now = self._begin()
            entry = self._entries.get(key)
            if entry is None or not entry[_VALUE]:
                entry = self._find_whole(key)
            if entry is None:
                number = delta
                expires = self._expiry(0, now)
            else:
                number = delta + _integer(key, entry[_VALUE])
                expires = entry[_EXPIRES]
            if not _LEAST <= number <= _MOST:
                raise invalid(f"{key!r} would not fit into 64 bits")
            self._put(key, entry, str(number).encode(), expires)
            return number

    def decr(self, key: str, delta: int) -> int:
        return self.incr(key, -delta)

    def delete(self, key: str) -> bool:
        with self._lock:
            self._begin()
            if self._find(key) is None:
                return False
            self._remove(key)
            self._changed[key] = None
            return True

    def clear(self) -> int:
        with self._lock:
            self._begin()
            self._list()
            keys = list(self._entries)
            for key in keys:
                self._remove(key)
                self._changed[key] = None
            return len(keys)

    def exists(self, key: str) -> bool:
        with self._lock:
            self._begin()
            return self._find(key) is not None

    def keys(self, pattern: str) -> list[str]:
        with self._lock:
            self._begin()
            self._list()
            return list(filter(matcher(pattern), self._entries))

    def expire(self, key: str, ttl: float) -> None:
        with self._lock:
            now = self._begin()
            self._change(key, self._find_lasting(key), self._expiry(ttl, now))

    def persist(self, key: str) -> None:
        with self._lock:
            self._begin()
            self._change(key, self._find_lasting(key), 0)

    def ttl(self, key: str) -> float:
        with self._lock:
            now = self._begin()
            expires = _existing(key, self._find(key))[_EXPIRES]
            return (expires - self._time(now)) / 1000 if expires else -1

    def close(self) -> tuple[str, list[bytes]]:
        """Ends all operations, and returns what became of the keys that were changed: members of the head of
        Result, each after a comma, and the values that go with them.
        """
        with self._lock:
            self._begin()
            self._closed = True
            self._soonest = -_NEVER
            if not self._changed:
                return "", []
            writes = touches = deletes = ""
            values: list[bytes] = []
            for key, entry in self._changed.items():
                if entry is None:
                    deletes += f",[{quote(key)},{self._gone[key]}]"
                elif entry[_WRITTEN]:
                    writes += f",[{quote(key)},{entry[_VERSION]},{entry[_EXPIRES]}]"
                    values.append(entry[_VALUE])
                else:
                    touches += f",[{quote(key)},{entry[_VERSION]},{entry[_EXPIRES]}]"
            members = f',"writes":[{writes[1:]}]' if writes else ""
            if touches:
                members += f',"touches":[{touches[1:]}]'
            if deletes:
                members += f',"deletes":[{deletes[1:]}]'
            return members, values

    # ---- steps of operations; the lock is held

    def _begin(self) -> float:
        """Removes what has expired, so that every entry an operation sees is there. Returns time.monotonic()."""
        now = monotonic()
        if now >= self._soonest:
            self._remove_expired(now)
        return now

    def _remove_expired(self, now: float) -> None:
        if self._closed:
            raise StateError("unavailable", "the call that this state belongs to has ended")
        time = self._time(now)
        for key in [key for key, entry in self._entries.items() if 0 < entry[_EXPIRES] <= time]:
            self._remove(key)
        self._soonest = _NEVER
        for entry in self._entries.values():
            self._look_out_for(entry[_EXPIRES])

    def _time(self, now: float) -> int:
        """That of the store, in milliseconds."""
        return int(now * 1000 + self._clock)

    def _look_out_for(self, expires: int) -> None:
        if expires:
            self._soonest = min(self._soonest, (expires - self._clock) / 1000)

    def _find(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None and not self._complete and key not in self._gone:
            return self._fetch(key)
        return entry

    def _find_whole(self, key: str) -> _Entry | None:
        entry = self._find(key)
        return entry if entry is None or entry[_VALUE] else self._fetch(key)

    def _find_lasting(self, key: str) -> _Entry:
        """With its value: a key that gets more time may outlive what the server has of it."""
        return _existing(key, self._find_whole(key))

    def _expiry(self, ttl: float, now: float) -> int:
        if ttl < 0:
            return 0
        milliseconds = max(1, round(ttl * 1000)) if ttl else self._limits.default_ttl_ms
        return self._time(now) + milliseconds if milliseconds else 0

    def _too_large(self, key: str, size: int) -> StateError:
        most = self._limits.max_value_bytes
        return StateError("too_large", f"the value of {key!r} has {size} bytes, at most {most} are allowed")

    def _make_room(self, keys: int, size: int) -> None:
        """Refuses so many more keys or bytes if that is too much. What adds nothing always passes."""
        limits = self._limits
        if keys > 0 and limits.max_keys:
            self._list()
            if len(self._entries) + keys > limits.max_keys:
                raise StateError("quota_exceeded", f"at most {limits.max_keys} keys are allowed")
        if size > 0 and limits.max_total_bytes:
            self._list()
            if self._bytes is None:
                self._bytes = sum(entry[_SIZE] for entry in self._entries.values())
            if self._bytes + size > limits.max_total_bytes:
                raise StateError("quota_exceeded", f"at most {limits.max_total_bytes} bytes of values are allowed")

    def _put(self, key: str, entry: _Entry | None, value: bytes, expires: int) -> int:
        limits = self._limits
        if len(value) > limits.max_value_bytes:
            raise self._too_large(key, len(value))
        if entry is None:
            self._make_room(1, len(value))
            entry = self._add(key)
        elif limits.max_total_bytes:
            self._make_room(0, len(value) - entry[_SIZE])
        self._write(entry, value)
        return self._change(key, entry, expires)

    def _add(self, key: str) -> _Entry:
        """What a key is before its first version."""
        self._entries[key] = entry = [key, self._floor, 0, 0, b"", False]
        return entry

    def _write(self, entry: _Entry, value: bytes) -> None:
        if self._bytes is not None:
            self._bytes += len(value) - entry[_SIZE]
        entry[_SIZE:] = len(value), value, True

    def _change(self, key: str, entry: _Entry, expires: int) -> int:
        entry[_VERSION] = version = entry[_VERSION] + 1
        if expires != entry[_EXPIRES]:
            entry[_EXPIRES] = expires
            self._look_out_for(expires)
        self._changed[key] = entry
        return version

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key)
        if self._bytes is not None:
            self._bytes -= entry[_SIZE]
        if key in self._changed:
            self._changed[key] = None
        self._gone[key] = entry[_VERSION]
        if entry[_VERSION] > self._floor:
            self._floor = entry[_VERSION]

    # ---- what did not come along

    def _is_unknown(self, key: str) -> bool:
        entry = self._entries.get(key)
        if entry is None:
            return not self._complete and key not in self._gone
        return not entry[_VALUE]

    def _fetch(self, key: str) -> _Entry | None:
        self._ask([key])
        return self._entries.get(key)

    def _ask(self, keys: list[str]) -> None:
        """Takes in these keys and their values. One the server does not have any more has expired."""
        if not keys or self._load is None:
            return
        rows, values = self._load(keys)
        self._take_in(rows, values)
        for key in set(keys).difference(row[0] for row in rows):
            if key in self._entries:
                self._remove(key)
            else:
                self._gone[key] = 0

    def _list(self) -> None:
        if not self._complete and self._load is not None:
            self._take_in(self._load(None)[0], ())
            self._complete = True

    def _take_in(self, rows: Sequence[Row], values: Sequence[bytes]) -> None:
        entries = self._entries
        for row, value in zip_longest(rows, values, fillvalue=b""):
            key, _, expires, size = row
            known = entries.get(key)
            if known is not None:
                known[_VALUE] = known[_VALUE] or value
            elif key not in self._gone:
                entries[key] = [*row, value, False]
                if self._bytes is not None:
                    self._bytes += size
                self._look_out_for(expires)


def _existing(key: str, entry: _Entry | None) -> _Entry:
    if entry is None:
        raise StateError("not_found", f"there is no key {key!r}")
    return entry


def _integer(key: str, text: bytes) -> int:
    """The number `text` spells in the one way in which we write numbers."""
    if text.isdigit() and len(text) < 19 and (text[0] != _ZERO or text == b"0"):
        return int(text)
    try:
        number = int(text)
        if b"%d" % number == text and number in INT64:
            return number
    except ValueError:
        pass
    raise invalid(f"{key!r} is not an integer of 64 bits")
