"""Calls of a C++ function as frames: what is handed over, what comes back, and how a process ends."""

import signal
import struct
import subprocess

import pytest

import host
from conftest import HERE, WARNINGS, compile_function
from host import NOW


@pytest.fixture
def instance(functions):
    return functions.load("calls")


def end_of(instance):
    """How an instance ended, after all it has sent."""
    with pytest.raises(host.Ended):
        while True:
            instance.receive()
    return instance.process.wait()


def test_hello_says_what_it_is(instance):
    assert instance.hello["protocol"] == 1
    assert instance.hello["language"] == "c++"
    assert instance.hello["pid"] == instance.process.pid


@pytest.mark.parametrize("source", ["operations", "calls"])
def test_clang_has_no_warning_either(tmp_path, source):
    compile_function(HERE / "functions" / f"{source}.cpp", tmp_path / "none", "-fsyntax-only", *WARNINGS, compiler="clang++-16")


TEXTS = [b"1", b"-0", b"1.50", b"1e999", b"123456789012345678901234567890", b' { "b" : [ 1,  2 ] , "a" : null } ', b'"\\u00e4\\/"', b"[]"]


@pytest.mark.parametrize("text", TEXTS)
def test_an_event_that_is_returned_comes_back_byte_for_byte(instance, text):
    assert instance.call(text).text == text


@pytest.mark.parametrize("text", [text for text in TEXTS if b" " not in text and b"\\" not in text])
def test_a_part_of_an_event_keeps_the_spelling_of_its_numbers(instance, text):
    assert instance.call(b'{"do":"answer","answer":%b}' % text).text == text


def test_a_value_passes_unread(instance):
    value = b'{ "big": 123456789012345678901234567890, "x":[ ] }'
    result = instance.call({"do": "raw"}, keys=[["value", 3, 0, len(value)]], values=[value])
    assert result.text == value
    assert result.writes["copy"][2] == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", "01", "nul", '"\\x"', '"\\ud800"', "1 2", "[" * 65 + "]" * 65, "NaN", "+1", ".5", "1."])
def test_a_text_that_is_no_json_is_not_stored(instance, text):
    result = instance.call({"do": "bad_raw", "text": text})
    assert result.body.startswith("invalid_argument: the value of \"copy\": this is not JSON")
    assert result.writes == {}


@pytest.mark.parametrize("answer, status, body", [
    ({"status_code": 404, "body": {"a": 1}}, 404, {"a": 1}),
    ({"body": None, "status_code": 204}, 204, None),
    ({"status_code": 199, "body": 1}, 200, {"status_code": 199, "body": 1}),
    ({"status_code": 600, "body": 1}, 200, {"status_code": 600, "body": 1}),
    ({"status_code": 200.0, "body": 1}, 200, {"status_code": 200.0, "body": 1}),
    ({"status_code": 201, "body": 1, "more": 1}, 200, {"status_code": 201, "body": 1, "more": 1}),
    ({"status_code": 201}, 200, {"status_code": 201}),
    (None, 200, None),
])
def test_a_function_may_choose_its_status(instance, answer, status, body):
    result = instance.call({"do": "answer", "answer": answer})
    assert (result.status, result.body) == (status, body)


@pytest.mark.parametrize("how, kind, message", [
    ("exception", "shop::SoldOut", 'no "tea" \ufffd left'),
    ("string", "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "a string"),
    ("number", "int", "something was thrown that is no std::exception"),
    ("nan", "nimbus::JsonError", "NaN and infinity cannot be JSON"),
    ("bytes", "nimbus::JsonError", "a string that is not UTF-8 cannot be JSON"),
    ("deep", "nimbus::JsonError", "more than 64 arrays or objects inside each other"),
])
def test_what_is_thrown_is_the_error_of_the_call(instance, how, kind, message):
    result = instance.call({"do": "fail", "how": how})
    assert result.error == {"type": kind, "message": message}
    assert result.text == b""
    assert list(result.writes) == ["before"]
    assert instance.call({"do": "echo"}).body == {"do": "echo"}


@pytest.mark.parametrize("how, status", [("abort", -signal.SIGABRT), ("segfault", -signal.SIGSEGV), ("exit", 3)])
def test_a_crash_is_the_end_of_the_process(instance, how, status):
    instance.invoke({"do": "fail", "how": how})
    assert end_of(instance) == status


def test_context_is_handed_over(instance):
    body = instance.call({"do": "context"}, context={"deadline_ms": 1 << 45, "traceparent": "00-ä"}).body
    raw = body.pop("raw")
    assert body == {**host.CONTEXT, "deadline_ms": 1 << 45, "traceparent": "00-ä", "remaining": True}
    assert raw == {**host.CONTEXT, "deadline_ms": 1 << 45, "traceparent": "00-ä"}
    stateless = instance.call({"do": "context"}, session=False).body
    assert (stateless["session_key"], stateless["session_seq"], stateless["remaining"]) == (None, 0, False)


def test_log_lines_know_their_call(functions):
    instance = functions.load("calls")
    result = instance.call({"do": "log"})
    assert [(stream, text) for _, stream, text in result.logs] == [
        ("stdout", 'INFO two\\nlines plain=word text="a b" number=1.5\n'),
        ("stdout", "ERROR bad \ufffd byte\n"),
    ]
    instance.socket.close()
    instance.process.wait()
    assert sorted(instance.read_output().splitlines()) == ["also printed", "printed"]


def test_a_function_finds_its_directory_and_environment(functions, tmp_path):
    instance = functions.load("calls", env={"GREETING": "hällo"})
    assert instance.call({"do": "surroundings"}).body == {"directory": str(tmp_path), "greeting": "hällo"}


def test_memory_that_is_too_much_is_an_error(tmp_path, functions):
    """Without sanitizers, which have an allocator of their own."""
    program = compile_function(HERE / "functions/calls.cpp", tmp_path / "calls", "-O0")
    functions._programs = lambda name: program
    instance = functions.load("calls", memory_mb=64)
    assert instance.call({"do": "memory", "bytes": 200 << 20}).error["type"] == "std::bad_alloc"
    assert instance.call({"do": "memory", "bytes": 20 << 20}).body is True


def test_calls_that_were_sent_ahead_run_in_order_and_their_results_do_not_wait(instance):
    first, second, third = instance.invoke(1), instance.invoke({"do": "function_get"}), instance.invoke(3)
    assert instance.receive().request == first
    asking = instance.receive()
    assert (asking.kind, asking.request) == (host.STATE, second)
    instance.reply(asking, {"version": 0})
    assert instance.receive().request == second
    assert instance.receive().request == third


def test_a_call_that_is_cancelled_before_it_began_does_not_begin(instance):
    running, waiting, last = instance.invoke({"do": "function_get"}), instance.invoke(2), instance.invoke(3)
    asking = instance.receive()
    instance.cancel(running)
    instance.cancel(waiting)
    instance.reply(asking, {"version": 0})
    assert instance.result(running).body is None
    assert instance.result(waiting).error == {"type": "nimbus::Cancelled", "message": "the call was cancelled: timeout"}
    assert instance.result(last).body == 3


def test_calls_run_at_once_where_they_may(functions):
    instance = functions.load("calls", concurrency=4)
    requests = [instance.invoke({"do": "meet", "count": 4}) for _ in range(4)]
    assert [instance.result(request).body for request in requests] == [4] * 4


def test_every_call_gets_its_own_reply(functions):
    instance = functions.load("calls", concurrency=8)
    requests = [instance.invoke({"do": "function_get"}) for _ in range(8)]
    asking = [instance.receive() for _ in requests]
    assert {frame.request for frame in asking} == set(requests)
    for frame in reversed(asking):
        instance.reply(frame, {"version": 1}, [str(frame.request).encode()])
    assert [instance.result(request).body for request in requests] == requests


def test_threads_of_a_handler_may_use_its_state(instance):
    instance.on_state = lambda head, values: ({"value": 1, "version": 1}, ())
    result = instance.call({"do": "threads", "count": 4})
    assert result.body == 400
    assert result.writes["n"][2] == b"400"


def test_a_forked_child_does_not_answer_for_its_parent(instance):
    assert instance.call({"do": "fork"}).body == {"child": 0, "visits": 1}
    assert instance.call({"do": "echo"}).body == {"do": "echo"}


def test_it_ends_with_its_server(instance):
    instance.socket.close()
    assert instance.process.wait() == 0


GARBAGE = [
    struct.pack("<IBBHQ", 12, 4, 0, 0, 1),  # no segment
    struct.pack("<IBBHQ", (64 << 20) + 1, 4, 0, 1, 1),
    struct.pack("<IBBHQI", 16, 4, 0, 1, 1, 5),  # a segment that is not there
    host.pack(host.INVOKE, 1, b"{}"),  # no event
    host.pack(host.INVOKE, 1, b'{"now":', b"null"),
    host.pack(host.INVOKE, 1, b"[]", b"null"),
    host.pack(host.STATE, 1, b"no JSON"),
    host.pack(host.INVOKE, 1, host.encode({"now": NOW, "context": {}, "state": "none"}), b'{"do":"raw"}'),
]


@pytest.mark.parametrize("bytes", GARBAGE)
def test_what_is_not_the_protocol_ends_it(instance, bytes):
    instance.socket.sendall(bytes)
    if bytes is GARBAGE[-1]:  # seen when the state is first used
        assert "nimbus::JsonError" in instance.expect(host.RESULT).head["error"]["type"]
        return
    assert end_of(instance) == 1
    assert instance.read_output().startswith("nimbus: what came ")


def test_frames_of_unknown_types_are_ignored(instance):
    instance.socket.sendall(host.pack(99, 7, b"{}", b"x"))
    assert instance.call({"do": "echo"}).body == {"do": "echo"}


@pytest.mark.parametrize("size, count", [(0, 3), (1, 3), (15, 3), (16, 3), (17, 3), (20_000, 3), (1_000_000, 1)])
def test_frames_may_come_in_any_pieces(instance, size, count):
    event = host.encode({"do": "echo", "fill": "x" * size})
    head = host.encode({"context": host.CONTEXT, "now": NOW})
    frames = b"".join(host.pack(host.INVOKE, request, head, event) for request in range(count))
    cuts = [0, 1, 3, 4, 15, 16, 17, len(frames) // 3, len(frames) // 2, len(frames) - 1, len(frames)]
    for start, end in zip(cuts, cuts[1:]):
        instance.socket.sendall(frames[start:end])
    for request in range(count):
        assert instance.result(request).text == event


def test_run_by_hand_it_says_what_it_is(programs):
    done = subprocess.run([programs("calls")], capture_output=True, text=True, close_fds=True)
    assert done.returncode == 2
    assert "function for Nimbus" in done.stderr
