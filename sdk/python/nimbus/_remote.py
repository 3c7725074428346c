"""State that the server keeps to itself: function scope, and session scope in a call without a session.

Each operation is one State frame and its reply. The methods are those of Space.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from nimbus import _frames
from nimbus._channel import Channel, Reply
from nimbus._errors import StateError, VersionConflict
from nimbus._json import dumps


class Requests:
    """The State frames of one call."""

    __slots__ = ("_channel", "_numbers", "_request")

    def __init__(self, channel: Channel, request: int) -> None:
        self._channel = channel
        self._request = request
        self._numbers = itertools.count(1)

    def send(self, head: dict[str, Any], values: Iterable[bytes] = ()) -> Reply:
        number = next(self._numbers)
        try:
            frame = _frames.pack(_frames.STATE, self._request, [dumps({"id": number, **head}), *values])
        except _frames.TooLarge:
            raise StateError("too_large", "the values are too large to be sent") from None
        reply = self._channel.exchange(self._request, number, frame)
        answer = reply[0]
        if answer.get("success"):
            return reply
        code = answer.get("error", "internal")
        message = answer.get("message", "the server gave no reason")
        if code == "version_conflict":
            error: StateError = VersionConflict(answer.get("current_version", 0), message)
        else:
            error = StateError(code, message)
        error.answered = True
        raise error


class Remote:
    __slots__ = ("_requests", "_scope", "operations")

    def __init__(self, requests: Requests, scope: str) -> None:
        self.operations = 0  # counted as in a Space, and of no interest: the server counts, too
        self._requests = requests
        self._scope = scope

    def _send(self, operation: str, values: Iterable[bytes] = (), **members: Any) -> Reply:
        return self._requests.send({"scope": self._scope, "operation": operation, **members}, values)

    def get(self, key: str) -> tuple[bytes | None, int]:
        head, values = self._send("get_with_version", key=key)
        return (values[0], head["version"]) if values else (None, 0)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        head, values = self._send("get_many", keys=list(keys))
        return dict(zip(head["keys"], values))

    def set(self, key: str, value: bytes, ttl: float) -> int:
        return self._send("set", [value], key=key, ttl=ttl)[0]["version"]

    def set_with_version(self, key: str, value: bytes, version: int, ttl: float) -> int:
        return self._send("set_with_version", [value], key=key, version=version, ttl=ttl)[0]["version"]

    def set_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        self._send("set_many", values.values(), keys=list(values), ttl=ttl)

    def incr(self, key: str, delta: int) -> int:
        return self._send("incr", key=key, delta=delta)[0]["value"]

    def decr(self, key: str, delta: int) -> int:
        return self._send("decr", key=key, delta=delta)[0]["value"]

    def delete(self, key: str) -> bool:
        return self._send("delete", key=key)[0]["value"]

    def clear(self) -> int:
        return self._send("clear")[0]["value"]

    def exists(self, key: str) -> bool:
        return self._send("exists", key=key)[0]["value"]

    def keys(self, pattern: str) -> list[str]:
        return self._send("keys", pattern=pattern)[0]["value"]

    def expire(self, key: str, ttl: float) -> None:
        self._send("expire", key=key, ttl=ttl)

    def persist(self, key: str) -> None:
        self._send("persist", key=key)

    def ttl(self, key: str) -> float:
        return self._send("ttl", key=key)[0]["value"]
