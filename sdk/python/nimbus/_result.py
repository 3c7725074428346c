"""The end of a call, as a Result frame."""

from __future__ import annotations

from typing import Any

from nimbus import _frames, _send
from nimbus._call import Call
from nimbus._failure import Description, describe
from nimbus._json import dumps


def returned(call: Call, answer: Any) -> bytes:
    """`answer` is what the function returned."""
    status = 200
    if isinstance(answer, dict) and len(answer) == 2 and "status_code" in answer and "body" in answer:
        code = answer["status_code"]
        if isinstance(code, int) and not isinstance(code, bool) and 200 <= code <= 599:
            status, answer = int(code), answer["body"]
    try:
        body = dumps(answer)
    except (TypeError, ValueError, RecursionError) as error:
        return failed(call, describe(TypeError(f"the answer is not JSON: {error}")))
    members, values = call.end()
    if call.sent is not None:
        members, values = _send.add(call, members, values)
    head = f'{{"status":{status}{members}}}'.encode()
    try:
        return _frames.pack_result(call.request, head, body, values)
    except _frames.TooLarge:
        return _failure(call, describe(ValueError("the answer is too large")), members, values)


def failed(call: Call, description: Description) -> bytes:
    members, values = call.end()
    if call.sent is not None:
        members, values = _send.add(call, members, values)
    return _failure(call, description, members, values)


def _failure(call: Call, description: Description, members: str, values: list[bytes]) -> bytes:
    head = b'{"error":%b%b}' % (dumps(description), members.encode())
    try:
        return _frames.pack_result(call.request, head, b"", values)
    except _frames.TooLarge:
        return _failure(call, describe(ValueError("what the call wrote is too large")), "", [])


def cancelled(reason: str) -> Description:
    return {"type": "CancelledError", "message": f"the call was cancelled: {reason}"}
