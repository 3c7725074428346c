"""How often a call did what with its state, for the `operations` of its Result.

All counts of a space are one integer, each in bits of its own: adding to it is the quickest there is. Calls of a
function tend to do the same, so that the text is mostly there already.
"""

from __future__ import annotations

_BITS = 40  # more than anybody can count to
_MASK = (1 << _BITS) - 1

# What is common comes first: the integers stay small.
_NAMES = (
    "get", "set", "incr", "delete", "get_many", "set_many", "exists", "get_with_version", "set_with_version",
    "decr", "keys", "expire", "ttl", "persist", "clear",
)  # fmt: skip
(
    GET, SET, INCR, DELETE, GET_MANY, SET_MANY, EXISTS, GET_WITH_VERSION, SET_WITH_VERSION,
    DECR, KEYS, EXPIRE, TTL, PERSIST, CLEAR,
) = (1 << (_BITS * place) for place in range(len(_NAMES)))  # fmt: skip

_MOST_KEPT = 1000
_session_texts: dict[int, str] = {}


def name_of(scope: str, operation: int) -> str:
    """As docs/protocol.md has it."""
    name = _NAMES[operation.bit_length() // _BITS]
    return name if scope == "session" else f"{scope}/{name}"


def by_name(scope: str, counts: int) -> dict[str, int]:
    places = range(len(_NAMES))
    each = {name_of(scope, 1 << (_BITS * place)): counts >> (_BITS * place) & _MASK for place in places}
    return {name: count for name, count in each.items() if count}


def in_session(counts: int) -> str:
    """The whole member of a head, after a comma, for a call that did nothing but this."""
    text = _session_texts.get(counts)
    if text is None:
        text = member(by_name("session", counts))
        if len(_session_texts) < _MOST_KEPT:
            _session_texts[counts] = text
    return text


def member(counts: dict[str, int]) -> str:
    if not counts:
        return ""
    listed = ",".join(f'"{name}":{count}' for name, count in counts.items())
    return f',"operations":{{{listed}}}'
