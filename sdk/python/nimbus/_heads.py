"""The head of Invoke, of which only what is asked for is parsed.

The context is the longest part of it, and few handlers look at it; many look at nothing. So the form in which the
server writes it is known here: the context first, the time of the store behind it. Whatever looks different is
parsed as the JSON it is.
"""

from __future__ import annotations

from typing import Any

from nimbus._json import loads, scan

_CONTEXT = '{"context":'
BEGIN = b'{"context":{'
# The end of the context, usually: no string in JSON holds these quotes. Where an object inside of the context is
# followed by a "now" of its own, what comes behind it is not the end of the head.
_NOW = b'},"now":'
_STATE = b'"state":'


def check(head: bytes) -> dict[str, Any]:
    """All of a head that looks unusual. Raises ValueError if it is none."""
    members = loads(head)
    if not isinstance(members, dict):
        raise ValueError("the head of an Invoke is not an object")
    return members


def members_of(data: bytes, start: int, end: int) -> dict[str, Any]:
    """All members of a head, but perhaps not its context, which need not even be JSON then. Raises ValueError if
    the rest is none.
    """
    at = data.find(_NOW, start, end)
    if at > 0:
        try:
            text = "{" + data[at + 2 : end].decode()
            members, behind = scan(text, 0)
            if behind == len(text) and ("state" in members or data.find(_STATE, start, at) < 0):
                return members
        except (StopIteration, ValueError):
            pass
    return check(data[start:end])


def context_of(data: bytes, start: int, end: int) -> Any:
    """Raises ValueError if the head is none."""
    text = data[start:end].decode()
    if text.startswith(_CONTEXT):
        try:
            context, behind = scan(text, len(_CONTEXT))
            if text.startswith(',"now":', behind):
                return context
        except (StopIteration, ValueError):
            pass
    return check(data[start:end]).get("context")
