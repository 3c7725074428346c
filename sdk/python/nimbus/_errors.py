"""The errors that functions meet."""

from __future__ import annotations


class StateError(Exception):
    """An operation on state that was refused, and changed nothing.

    `code` is one of the codes of the API: invalid_argument, not_found, too_large, quota_exceeded,
    version_conflict, forbidden, unavailable, …
    """

    current_version: int | None = None
    answered = False  # the server said so

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class VersionConflict(StateError):
    """The key does not have the version that was expected; it has `current_version`, 0 if it is not there."""

    def __init__(self, current_version: int, message: str) -> None:
        super().__init__("version_conflict", message)
        self.args = (current_version, message)
        self.current_version: int = current_version


def invalid(message: str) -> StateError:
    return StateError("invalid_argument", message)


def conflict(key: str, expected: int, current: int) -> VersionConflict:
    return VersionConflict(current, f"{key!r} has version {current}, expected was {expected}")
