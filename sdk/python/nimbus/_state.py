"""The state API as functions see it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nimbus import _call
from nimbus._counts import (
    CLEAR,
    DECR,
    DELETE,
    EXISTS,
    EXPIRE,
    GET,
    GET_MANY,
    GET_WITH_VERSION,
    INCR,
    KEYS,
    PERSIST,
    SET,
    SET_MANY,
    SET_WITH_VERSION,
    TTL,
)
from nimbus._errors import StateError, invalid
from nimbus._json import dumps, loads
from nimbus._remote import Remote
from nimbus._space import INT64, Space

_MAX_KEY_BYTES = 256
_DEFAULT = 0  # as a ttl
_ONE = 1  # as a delta
_MAX_TTL = 10**11  # seconds, 3000 years; milliseconds since 1970 stay integers in every language
_CONTROLS = frozenset(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))


class _Scope:
    """A method that gives the state of a scope, on the class for the call that is running, on an object for
    the call that the object belongs to.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope

    def __get__(self, state: State | None, _: type[State]) -> Callable[[], State]:
        return lambda: State(self._scope, None if state is None else state._call)


class State:
    """The state of one scope. Values are whatever JSON can hold.

    What get() returns is the caller's own: changing it changes nothing until it is set() again. An
    operation that raises has changed nothing.
    """

    __slots__ = ("_call", "_scope")

    session = _Scope("session")
    function = _Scope("function")
    invocation = _Scope("invocation")

    def __init__(self, scope: str = "session", call: _call.Call | None = None) -> None:
        if scope not in ("session", "function", "invocation"):
            raise invalid(f"there is no scope {scope!r}: session, function and invocation are the ones")
        self._scope = scope
        self._call = call

    def get(self, key: str, default: Any = None) -> Any:
        """The value, `default` if the key is not there. A stored None is there."""
        space = self._space(GET)
        try:
            value, _ = space.get(_key(key))
            return default if value is None else _parse(key, value)
        except StateError as error:
            self._count_failure(GET, error)
            raise

    def get_with_version(self, key: str) -> tuple[Any, int]:
        """The value and its version, (None, 0) if the key is not there."""
        space = self._space(GET_WITH_VERSION)
        try:
            value, version = space.get(_key(key))
            return (None, 0) if value is None else (_parse(key, value), version)
        except StateError as error:
            self._count_failure(GET_WITH_VERSION, error)
            raise

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """The values of those of the keys that are there."""
        space = self._space(GET_MANY)
        try:
            if isinstance(keys, str):
                raise invalid("get_many() takes several keys, not one string")
            values = space.get_many([_key(key) for key in keys])
            return {key: _parse(key, value) for key, value in values.items()}
        except StateError as error:
            self._count_failure(GET_MANY, error)
            raise

    def set(self, key: str, value: Any, ttl: float = _DEFAULT) -> bool:
        """`ttl` in seconds: 0 is the function's default, -1 means that the value never expires."""
        space = self._space(SET)
        try:
            space.set(_key(key), _json(key, value), ttl if ttl is _DEFAULT else _ttl(ttl))
        except StateError as error:
            self._count_failure(SET, error)
            raise
        return True

    def set_with_version(self, key: str, value: Any, version: int | None = None, ttl: float = _DEFAULT) -> int:
        """Sets the value if the key has this version, 0 meaning that it must not be there, and returns the new
        one. Raises VersionConflict otherwise. Without `version` it always sets.
        """
        space = self._space(SET_WITH_VERSION)
        try:
            text = _json(_key(key), value)
            if version is None:
                return space.set(key, text, _ttl(ttl))
            if not _is_integer(version) or version < 0:
                raise invalid("a version is an integer, at least 0")
            return space.set_with_version(key, text, version, _ttl(ttl))
        except StateError as error:
            self._count_failure(SET_WITH_VERSION, error)
            raise

    def set_many(self, values: Mapping[str, Any], ttl: float = _DEFAULT) -> bool:
        """Sets all of them or, if it raises, none."""
        space = self._space(SET_MANY)
        try:
            space.set_many({_key(key): _json(key, value) for key, value in values.items()}, _ttl(ttl))
        except StateError as error:
            self._count_failure(SET_MANY, error)
            raise
        return True

    def delete(self, key: str) -> bool:
        """Whether there was anything to delete."""
        space = self._space(DELETE)
        try:
            return space.delete(_key(key))
        except StateError as error:
            self._count_failure(DELETE, error)
            raise

    def clear(self) -> int:
        """Deletes all keys of the scope and says how many there were."""
        space = self._space(CLEAR)
        try:
            return space.clear()
        except StateError as error:
            self._count_failure(CLEAR, error)
            raise

    def incr(self, key: str, delta: int = _ONE) -> int:
        """Adds to an integer of 64 bits and returns the sum. A key that is not there counts as 0."""
        space = self._space(INCR)
        try:
            return space.incr(_key(key), delta if delta is _ONE else _delta(delta))
        except StateError as error:
            self._count_failure(INCR, error)
            raise

    def decr(self, key: str, delta: int = _ONE) -> int:
        space = self._space(DECR)
        try:
            return space.decr(_key(key), _delta(delta))
        except StateError as error:
            self._count_failure(DECR, error)
            raise

    def exists(self, key: str) -> bool:
        space = self._space(EXISTS)
        try:
            return space.exists(_key(key))
        except StateError as error:
            self._count_failure(EXISTS, error)
            raise

    def keys(self, pattern: str = "*") -> list[str]:
        """The keys that match, sorted. `*`, `?` and `[a-z]` are as in a shell, `\\` makes them ordinary."""
        space = self._space(KEYS)
        try:
            return sorted(space.keys(_text(pattern, "pattern")))
        except StateError as error:
            self._count_failure(KEYS, error)
            raise

    def expire(self, key: str, ttl: float) -> bool:
        """Lets the key expire `ttl` seconds from now. It must be there."""
        space = self._space(EXPIRE)
        try:
            if _ttl(ttl) <= 0:
                raise invalid("expire() takes a ttl above 0")
            space.expire(_key(key), ttl)
        except StateError as error:
            self._count_failure(EXPIRE, error)
            raise
        return True

    def ttl(self, key: str) -> float:
        """The seconds until the key expires, -1 if it does not. It must be there."""
        space = self._space(TTL)
        try:
            return space.ttl(_key(key))
        except StateError as error:
            self._count_failure(TTL, error)
            raise

    def persist(self, key: str) -> bool:
        """The key, which must be there, will not expire."""
        space = self._space(PERSIST)
        try:
            space.persist(_key(key))
        except StateError as error:
            self._count_failure(PERSIST, error)
            raise
        return True

    def _space(self, operation: int) -> Space | Remote:
        """Where the operation is to be carried out. It is counted as one that succeeds.

        Each operation has a `try` of its own, because a wrapper around all of them costs more than they do.
        """
        call = self._call or _call.current()
        if call is None:
            raise StateError(
                "unavailable",
                "state is there only while a call runs; a thread that the handler starts must use the state that"
                " the handler was given",
            )
        space = call.spaces.get(self._scope) or self._open(call, operation)
        space.operations += operation
        return space

    def _open(self, call: _call.Call, operation: int) -> Space | Remote:
        try:
            return call.open(self._scope)
        except StateError as error:
            call.count_failure(self._scope, operation, error)
            raise

    def _count_failure(self, operation: int, error: StateError) -> None:
        call = self._call or _call.current()
        if call is None:
            return
        space = call.spaces.get(self._scope)
        if space is not None:
            space.operations -= operation
        if not error.answered:  # the server counts what it has been asked, whatever it answered
            call.count_failure(self._scope, operation, error)


# Functions use the same few keys again and again.
_good_keys: set[str] = set()
_MAX_GOOD_KEYS = 1000


def _key(key: str) -> str:
    if type(key) is str and key in _good_keys:
        return key
    if type(key) is str and key.isascii() and key.isprintable() and 0 < len(key) <= _MAX_KEY_BYTES:
        if len(_good_keys) < _MAX_GOOD_KEYS:
            _good_keys.add(key)
        return key
    size = len(_text(key, "key").encode())
    if not 0 < size <= _MAX_KEY_BYTES:
        raise invalid(f"a key has 1 to {_MAX_KEY_BYTES} bytes, not {size}")
    if not _CONTROLS.isdisjoint(key):
        raise invalid(f"the key {key!r} has control characters")
    return key


def _text(text: str, what: str) -> str:
    if not isinstance(text, str):
        raise invalid(f"a {what} is a string, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid(f"the {what} {text!r} is not Unicode text") from None
    return text


def _json(key: str, value: Any) -> bytes:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid(f"the value of {key!r} is not JSON: {error}") from None


def _parse(key: str, value: bytes) -> Any:
    try:
        return loads(value)
    except (ValueError, RecursionError) as error:
        raise StateError("invalid_json", f"the value of {key!r} cannot be read: {error}") from None


def _ttl(ttl: float) -> float:
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not -1 <= ttl <= _MAX_TTL or -1 < ttl < 0:
        raise invalid("a ttl is a number of seconds; 0 stands for the default, -1 for never")
    return ttl


def _delta(delta: int) -> int:
    if not _is_integer(delta) or delta not in INT64:
        raise invalid("a delta is an integer of 64 bits")
    return delta


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


state = State()
