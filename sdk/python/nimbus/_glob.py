"""Patterns for keys: `*`, `?`, `[a-z]`, and `\\` before a character that shall mean itself.

`?` and `[]` match one code point. There is no negation: `!` and `^` are characters like others. A `[`
that is never closed, and a `\\` at the end, mean themselves; `[]` matches nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

_CLOSE = ("]", False)
_NOTHING = "(?!)"


@functools.lru_cache(maxsize=64)
def matcher(pattern: str) -> Callable[[str], object]:
    """A function that is truthy for the keys that match."""
    return re.compile(_expression(pattern), re.DOTALL).fullmatch


def _expression(pattern: str) -> str:
    """Each `*` looks for the first place where what stands between it and the next one fits, and never
    looks again (the groups are atomic). For globs the first place is as good as any, and so no pattern
    takes more time than its length times that of the key.
    """
    pieces = [""]
    tokens = _tokens(pattern)
    last_close = max((at for at, token in enumerate(tokens) if token == _CLOSE), default=-1)
    at = 0
    while at < len(tokens):
        character, escaped = tokens[at]
        at += 1
        if escaped or character not in "*?[":
            pieces[-1] += re.escape(character)
        elif character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "."
        elif at <= last_close:
            end = tokens.index(_CLOSE, at)
            pieces[-1] += _one_of(tokens[at:end])
            at = end + 1
        else:
            pieces[-1] += r"\["
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{piece})" for piece in middle) + ".*" + last


def _tokens(pattern: str) -> list[tuple[str, bool]]:
    """The characters, and whether a `\\` made them ordinary."""
    tokens = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            tokens.append((escaped if escaped is not None else "\\", True))
        else:
            tokens.append((character, False))
    return tokens


def _one_of(members: list[tuple[str, bool]]) -> str:
    ranges = ""
    at = 0
    while at < len(members):
        low = high = members[at][0]
        if at + 2 < len(members) and members[at + 1] == ("-", False):
            low, high = sorted((low, members[at + 2][0]))
            at += 2
        at += 1
        ranges += f"{re.escape(low)}-{re.escape(high)}"
    return f"[{ranges}]" if ranges else _NOTHING
