"""JSON as Nimbus speaks it: compact, UTF-8, without NaN.

json.loads() and json.dumps() build a scanner or an encoder for every call; these are built once.
"""

from __future__ import annotations

import json
from json import encoder
from typing import Any

quote = encoder.encode_basestring  # a string as JSON

# The value that begins at an index of a string, and the index behind it. Raises StopIteration if none begins there.
scan = json.JSONDecoder().scan_once

# No markers: what refers to itself ends in a RecursionError. The C encoder would leave markers behind
# when it fails, and take the next value for a circular one.
_chunks = encoder.c_make_encoder(
    None, json.JSONEncoder().default, encoder.c_encode_basestring, None, ":", ",", False, False, False
)


def loads(text: bytes) -> Any:
    string = text.decode()
    try:
        value, end = scan(string, 0)
        if end == len(string):
            return value
    except StopIteration:
        pass
    return json.loads(string)  # allows space around the value, and says what is wrong


def dumps(value: object) -> bytes:
    """Raises TypeError, ValueError or RecursionError if `value` cannot be JSON in UTF-8."""
    if type(value) is int:
        return str(value).encode()
    return "".join(_chunks(value, 0)).encode()
