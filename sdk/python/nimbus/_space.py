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

# Key, version, time of expiry (0: never), length of the value.
Row = Sequence[Any]

# Asks the server for the rows of these keys and their values, or for all rows without values.
Load = Callable[[list[str] | None], tuple[list[Row], list[bytes]]]


class Limits:
    """The `state` of Load. A 0 means no limit."""

    __slots__ = ("default_ttl_ms", "enabled", "max_keys", "max_total_bytes", "max_value_bytes")

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.enabled: bool = given.get("enabled", True)
        self.default_ttl_ms: int = given.get("default_ttl_ms", 0)
        self.max_value_bytes: int = given.get("max_value_bytes", 0)
        self.max_keys: int = given.get("max_keys", 0)
        self.max_total_bytes: int = given.get("max_total_bytes", 0)


class _Entry:
    __slots__ = ("expires", "size", "value", "version", "written")

    def __init__(self, version: int, expires: int, size: int, value: bytes) -> None:
        self.version = version
        self.expires = expires
        self.size = size
        self.value = value  # empty, as no JSON is: only the server has it
        self.written = False


class Space:
    """Each method is one atomic step, at one time, also for threads that the function starts."""

    def __init__(
        self,
        limits: Limits,
        clock: float,
        rows: Iterable[Row] = (),
        values: Iterable[bytes] = (),
        floor: int = 0,
        load: Load | None = None,
        complete: bool = True,
    ) -> None:
        """`clock`: how many milliseconds the store's clock is ahead of time.monotonic()."""
        self._limits = limits
        self._clock = clock
        self._floor = floor
        self._load = load
        self._complete = complete
        self._lock = _RLock()
        self._entries: dict[str, _Entry] = {}
        # Keys known not to be there, and the last version they had, 0 if they never were there.
        self._gone: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._bytes = 0
        self._time = 0.0
        self._soonest: float = math.inf  # no key expires before
        self._closed = False
        self.operations = 0  # how often which was called; the server does not see them
        self._take_in(rows, values)

    def get(self, key: str) -> tuple[bytes | None, int]:
        with self._lock:
            self._begin()
            entry = self._entries.get(key)
            if entry is None or not entry.value:
                entry = self._find_whole(key)
            return (None, 0) if entry is None else (entry.value, entry.version)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        with self._lock:
            self._begin()
            self._ask([key for key in dict.fromkeys(keys) if self._is_unknown(key)])
            entries = self._entries
            return {key: entries[key].value for key in keys if key in entries}

    def set(self, key: str, value: bytes, ttl: float) -> int:
        with self._lock:
            self._begin()
            return self._put(key, self._entries.get(key) or self._find(key), value, self._expiry(ttl))

    def set_with_version(self, key: str, value: bytes, version: int, ttl: float) -> int:
        with self._lock:
            self._begin()
            entry = self._find(key)
            if len(value) > self._limits.max_value_bytes > 0:  # is told before a conflict
                raise self._too_large(key, len(value))
            current = 0 if entry is None else entry.version
            if version != current:
                raise conflict(key, version, current)
            return self._put(key, entry, value, self._expiry(ttl))

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        with self._lock:
            self._begin()
            new = grown = 0
            for key, value in values.items():
                entry = self._find(key)
                if len(value) > self._limits.max_value_bytes > 0:
                    raise self._too_large(key, len(value))
                new += entry is None
                grown += len(value) - (0 if entry is None else entry.size)
            self._make_room(new, grown)
            expires = self._expiry(ttl)
            for key, value in values.items():
                self._write(key, self._entries.get(key), value, expires)

    def incr(self, key: str, delta: int) -> int:
        with self._lock:
            self._begin()
            entry = self._find_whole(key)
            number = delta if entry is None else delta + _integer(key, entry.value)
            if number not in INT64:
                raise invalid(f"{key!r} would not fit into 64 bits")
            self._put(key, entry, b"%d" % number, self._expiry(0) if entry is None else entry.expires)
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
            self._begin()
            self._change(key, self._find_lasting(key), self._expiry(ttl))

    def persist(self, key: str) -> None:
        with self._lock:
            self._begin()
            self._change(key, self._find_lasting(key), 0)

    def ttl(self, key: str) -> float:
        with self._lock:
            self._begin()
            expires = _existing(key, self._find(key)).expires
            return (expires - int(self._time)) / 1000 if expires else -1

    def close(self) -> tuple[str, list[bytes]]:
        """Ends all operations, and returns what became of the keys that were changed: members of the head of
        Result, each after a comma, and the values that go with them.
        """
        with self._lock:
            self._begin()
            self._closed = True
            self._soonest = -math.inf
            if not self._changed:
                return "", []
            writes: list[str] = []
            touches: list[str] = []
            deletes: list[str] = []
            values: list[bytes] = []
            for key in self._changed:
                entry = self._entries.get(key)
                if entry is None:
                    deletes.append(f"[{quote(key)},{self._gone[key]}]")
                elif entry.written:
                    writes.append(f"[{quote(key)},{entry.version},{entry.expires}]")
                    values.append(entry.value)
                else:
                    touches.append(f"[{quote(key)},{entry.version},{entry.expires}]")
            members = f',"writes":[{",".join(writes)}]' if writes else ""
            if touches:
                members += f',"touches":[{",".join(touches)}]'
            if deletes:
                members += f',"deletes":[{",".join(deletes)}]'
            return members, values

    # ---- steps of operations; the lock is held

    def _begin(self) -> None:
        """Removes what has expired, so that every entry an operation sees is there."""
        self._time = now = monotonic() * 1000 + self._clock
        if now < self._soonest:
            return
        if self._closed:
            raise StateError("unavailable", "the call that this state belongs to has ended")
        for key in [key for key, entry in self._entries.items() if 0 < entry.expires <= now]:
            self._remove(key)
        self._soonest = min((entry.expires for entry in self._entries.values() if entry.expires), default=math.inf)

    def _find(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None and not self._complete and key not in self._gone:
            return self._fetch(key)
        return entry

    def _find_whole(self, key: str) -> _Entry | None:
        entry = self._find(key)
        return entry if entry is None or entry.value else self._fetch(key)

    def _find_lasting(self, key: str) -> _Entry:
        """With its value: a key that gets more time may outlive what the server has of it."""
        return _existing(key, self._find_whole(key))

    def _expiry(self, ttl: float) -> int:
        if ttl < 0:
            return 0
        milliseconds = max(1, round(ttl * 1000)) if ttl else self._limits.default_ttl_ms
        return int(self._time) + milliseconds if milliseconds else 0

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
            if self._bytes + size > limits.max_total_bytes:
                raise StateError("quota_exceeded", f"at most {limits.max_total_bytes} bytes of values are allowed")

    def _put(self, key: str, entry: _Entry | None, value: bytes, expires: int) -> int:
        size = len(value)
        if size > self._limits.max_value_bytes > 0:
            raise self._too_large(key, size)
        if entry is None:
            self._make_room(1, size)
        elif size > entry.size:
            self._make_room(0, size - entry.size)
        return self._write(key, entry, value, expires)

    def _write(self, key: str, entry: _Entry | None, value: bytes, expires: int) -> int:
        if entry is None:
            entry = self._entries[key] = _Entry(self._floor, 0, 0, b"")
        size = len(value)
        self._bytes += size - entry.size
        entry.size = size
        entry.value = value
        entry.written = True
        return self._change(key, entry, expires)

    def _change(self, key: str, entry: _Entry, expires: int) -> int:
        entry.version += 1
        entry.expires = expires
        if 0 < expires < self._soonest:
            self._soonest = expires
        self._changed[key] = None
        return entry.version

    def _remove(self, key: str) -> None:
        entry = self._entries.pop(key)
        self._bytes -= entry.size
        self._gone[key] = entry.version
        if entry.version > self._floor:
            self._floor = entry.version

    # ---- what did not come along

    def _is_unknown(self, key: str) -> bool:
        entry = self._entries.get(key)
        if entry is None:
            return not self._complete and key not in self._gone
        return not entry.value

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

    def _take_in(self, rows: Iterable[Row], values: Iterable[bytes]) -> None:
        entries = self._entries
        for (key, version, expires, size), value in zip_longest(rows, values, fillvalue=b""):
            known = entries.get(key)
            if known is not None:
                known.value = known.value or value
            elif key not in self._gone:
                entries[key] = _Entry(version, expires, size, value)
                self._bytes += size
                if 0 < expires < self._soonest:
                    self._soonest = expires


def _existing(key: str, entry: _Entry | None) -> _Entry:
    if entry is None:
        raise StateError("not_found", f"there is no key {key!r}")
    return entry


def _integer(key: str, text: bytes) -> int:
    """The number `text` spells in the one way in which we write numbers."""
    try:
        number = int(text)
        if b"%d" % number == text and number in INT64:
            return number
    except ValueError:
        pass
    raise invalid(f"{key!r} is not an integer of 64 bits")
