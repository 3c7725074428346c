"""The head of Invoke: what is read without parsing all of it is what the whole of it says."""

import json
import random
import string
import sys

import pytest

import host

sys.path.insert(0, str(host.SDK))
from nimbus import _heads  # noqa: E402

sys.path.remove(str(host.SDK))

NUMBERS = (0, 1, 9, 10, 2**31, 2**53, 2**63 - 1, 2**64, 10**30)
CHARACTERS = string.printable + "äß漢字𝄞\u2028\x7f\x00"
PHRASES = ('},"now":', '"},"now":1,"state":{"floor":9', "}}", "\\", '\\"', '{"context":{', ",", "]]}}", "null")


def read(head):
    """As a call reads it. It lies between other bytes, as it does in what was received."""
    data = b"\xff{" + head + b'},"now":5}}'
    place = 2, 2 + len(head)
    if not data.startswith(_heads.BEGIN, place[0]):
        _heads.check(head)
    members = _heads.members_of(data, *place)
    return _heads.context_of(data, *place), members.get("now"), members.get("state")


def parse(head):
    members = json.loads(head)
    if not isinstance(members, dict):
        raise ValueError("no object")
    return members.get("context"), members.get("now"), members.get("state")


def any_text(generator):
    if generator.random() < 0.3:
        return generator.choice(PHRASES)
    return "".join(generator.choices(CHARACTERS, k=generator.randrange(12)))


def any_value(generator, depth=2):
    kinds = 7 if depth else 5
    match generator.randrange(kinds):
        case 0:
            return generator.choice([None, True, False])
        case 1:
            return generator.choice(NUMBERS)
        case 2:
            return generator.random() * 10 ** generator.randrange(-20, 20)
        case 3 | 4:
            return any_text(generator)
        case 5:
            return [any_value(generator, depth - 1) for _ in range(generator.randrange(4))]
        case _:
            names = [any_text(generator) for _ in range(generator.randrange(3))]
            names += generator.choices(["now", "state", "context"], k=generator.randrange(3))
            return {name: any_value(generator, depth - 1) for name in names}


def any_members(generator):
    """As the server writes them; each deviation now and then."""
    number = generator.choice
    context = {
        **host.CONTEXT,
        "request_id": any_text(generator),
        "session_key": generator.choice([None, any_text(generator)]),
        "deadline_ms": number(NUMBERS),
    }
    rows = [
        [any_text(generator), number(NUMBERS), number(NUMBERS), number(NUMBERS)] for _ in range(generator.randrange(4))
    ]
    state = {"floor": number(NUMBERS), "complete": generator.random() < 0.8, "keys": rows}
    members = {"context": context, "now": number(NUMBERS), "state": state}
    if generator.random() < 0.2:
        del members["state"]
    while generator.random() < 0.3:
        target = generator.choice([members, context, state])
        target[any_text(generator) or "future"] = any_value(generator)
    while generator.random() < 0.1:
        target = generator.choice([members, context, state])
        if target:
            del target[generator.choice(list(target))]
    if generator.random() < 0.2:
        shuffled = list(members.items())
        generator.shuffle(shuffled)
        members = dict(shuffled)
    return members


def any_spelling(generator, members):
    compact = generator.random() < 0.8
    text = json.dumps(
        members,
        ensure_ascii=generator.random() < 0.5,
        separators=(",", ":") if compact else None,
        indent=None if compact or generator.random() < 0.5 else 1,
    )
    return text.encode()


@pytest.fixture
def generator():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


def test_it_is_what_json_says(generator):
    for _ in range(20_000):
        head = any_spelling(generator, any_members(generator))
        assert read(head) == parse(head), head


def test_a_head_that_is_cut_off_is_none(generator):
    for _ in range(50):
        head = any_spelling(generator, any_members(generator))
        for length in range(len(head)):
            with pytest.raises(ValueError):
                read(head[:length])


def test_what_has_more_behind_its_end_is_none(generator):
    for _ in range(1000):
        head = any_spelling(generator, any_members(generator))
        for more in (b"}", b"]", b"x", b',"now":5}', b"{}"):
            with pytest.raises(ValueError):
                read(head + more)


STRANGE = [
    b'{"context":{"a":{},"now":1},"now":2}',
    b'{"context":{"a":{"b":1},"now":1,"state":{"floor":1,"complete":true,"keys":[]}},"now":2}',
    b'{"context":{"a":[{},"now",{"now":{}}]},"now":2,"state":null}',
    b'{"context":{} ,"now":2}',
    b' {"context":{},"now":2} ',
    b'{"now":2,"context":{}}',
    b'{"context":null,"now":2}',
    b'{"context":{"a":"},\\"now\\":1}"},"now":2}',
    b'{"context":{},"now":2.5e3}',
    b'{"context":{},"now":2,"state":{"keys":[["\\u0061",1,0,1]],"floor":0,"complete":false}}',
    b"{}",
]


@pytest.mark.parametrize("head", STRANGE)
def test_it_is_what_json_says_also_where_it_looks_strange(head):
    assert read(head) == parse(head)


NONE = [b"", b"[]", b"5", b"null", b'"{"', b"{", b'{"context":{', b'{"context":{},"now":}', b"\xff"]


@pytest.mark.parametrize("head", NONE)
def test_what_is_no_object_is_no_head(head):
    with pytest.raises(ValueError):
        read(head)
