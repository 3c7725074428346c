"""Patterns for keys()."""

import pathlib
import random
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from nimbus._glob import matcher  # noqa: E402

MATCHES = [
    ("*", ["", "a", "a:b", "*", "ä𝄞", "a\u2028b"], []),
    ("", [""], ["a"]),
    ("abc", ["abc"], ["ab", "abcd", "xabc", "ABC"]),
    ("a*", ["a", "ab", "a*"], ["ba", ""]),
    ("*a", ["a", "ba"], ["ab"]),
    ("a*b*c", ["abc", "aXbYc", "abbcc", "abcbc"], ["acb", "ab", "ac"]),
    ("ab*ba", ["abba", "abXba"], ["aba"]),
    ("**", ["", "ab"], []),
    ("a?c", ["abc", "aäc", "a𝄞c", "a?c"], ["ac", "abbc"]),
    ("?", ["a", "𝄞"], ["", "ab"]),
    ("[abc]", ["a", "b", "c"], ["d", "", "ab"]),
    ("[a-c]x", ["ax", "bx", "cx"], ["dx", "-x"]),
    ("[a-cx-z]", ["b", "y"], ["d", "-"]),
    ("[ä-ö]", ["ä", "é", "ö"], ["a", "z"]),
    ("[c-a]", ["a", "b", "c"], ["d"]),
    ("[!a]", ["!", "a"], ["b"]),
    ("[^a]", ["^", "a"], ["b"]),
    ("[a-]", ["a", "-"], ["b"]),
    ("[-a]", ["a", "-"], ["b"]),
    ("[a\\-c]", ["a", "-", "c"], ["b"]),
    ("[\\]]", ["]"], ["\\", "\\]"]),
    ("[\\\\]", ["\\"], ["]"]),
    ("[[]", ["["], ["]"]),
    ("[*?]", ["*", "?"], ["a"]),
    ("[]", [], ["", "]", "[]"]),
    ("a[]b", [], ["ab", "a]b"]),
    ("[a", ["[a"], ["a"]),
    ("a[", ["a["], ["a"]),
    ("[[[", ["[[["], []),
    ("[a\\]", ["[a]"], ["a"]),
    ("*[", ["[", "a["], ["a"]),
    ("]", ["]"], []),
    ("\\*", ["*"], ["a", "\\*"]),
    ("\\?", ["?"], ["a"]),
    ("\\[a]", ["[a]"], ["a"]),
    ("\\\\", ["\\"], ["\\\\"]),
    ("\\a", ["a"], ["\\a"]),
    ("a\\", ["a\\"], ["a"]),
    ("a.c", ["a.c"], ["abc"]),
    ("(a|b)+$^{1}", ["(a|b)+$^{1}"], []),
]


@pytest.mark.parametrize("pattern, fitting, others", MATCHES)
def test_a_pattern_matches(pattern, fitting, others):
    matches = matcher(pattern)
    assert [key for key in fitting if not matches(key)] == []
    assert [key for key in others if matches(key)] == []


def test_keys_uses_it(session):
    keys = ["user:1", "user:2", "user:10", "cart:1", "user*"]
    matching = {
        "user:*": ["user:1", "user:10", "user:2"],
        "user:?": ["user:1", "user:2"],
        "*:[1-1]": ["cart:1", "user:1"],
        "user\\*": ["user*"],
        "none": [],
        "*": sorted(keys),
    }
    result = session.run(*(("keys", pattern) for pattern in matching), there={key: (1, 0, b"1") for key in keys})
    assert [value for _, value in result.body] == list(matching.values())


@pytest.mark.parametrize(
    "pattern", ["*a" * 120 + "b", "*" * 5000 + "b", "?*" * 100 + "b", "[a-z]*" * 100 + "1", "[" * 20_000]
)
def test_no_pattern_takes_long(pattern):
    started = time.process_time()
    assert not matcher(pattern)("a" * 256)
    assert time.process_time() - started < 2


def plainly(pattern, key):
    """The same in the most obvious way: all ways to divide the key."""
    if not pattern:
        return not key
    kind, argument = pattern[0]
    if kind == "many":
        return any(plainly(pattern[1:], key[at:]) for at in range(len(key) + 1))
    return bool(key) and (kind == "any" or key[0] in argument) and plainly(pattern[1:], key[1:])


def test_it_agrees_with_the_obvious_way():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator = random.Random(seed)
    for _ in range(3000):
        pattern, text = [], ""
        for _ in range(generator.randrange(7)):
            kind = generator.choice(["many", "any", "one", "set", "plain", "plain"])
            if kind == "many":
                pattern.append(("many", None))
                text += "*"
            elif kind == "any":
                pattern.append(("any", None))
                text += "?"
            elif kind == "set":
                low, high = sorted(generator.choices("abcd", k=2))
                pattern.append(("one", [chr(c) for c in range(ord(low), ord(high) + 1)] + ["*"]))
                text += f"[{low}-{high}*]"
            else:
                character = generator.choice("ab*[]?")
                pattern.append(("one", character))
                text += "\\" + character if character in "*[]?" else character
        for _ in range(10):
            key = "".join(generator.choices("aabbcd*[]?", k=generator.randrange(7)))
            assert bool(matcher(text)(key)) == plainly(pattern, key), (seed, text, key)
