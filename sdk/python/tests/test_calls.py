"""Calls as frames: their order, their end, and how a process ends."""

import os
import random
import signal
import struct

import pytest

import host
from host import NOW


def end_of(instance):
    """How a directly started instance ended, after all it has sent."""
    try:
        while True:
            frame = instance.receive()
            assert frame.kind == host.LOG
            instance.logs.append((frame.request, frame.head["stream"], frame.values[0].decode()))
    except host.Ended:
        return instance.process.wait()


@pytest.fixture
def start(functions):
    """Instances that are our children, so that we see how they end."""

    def start(code, **options):
        directory = functions.directory(code)
        instance = functions.instance(host.start_directly)
        assert instance.load(directory, **options) == {}
        return instance

    return start


@pytest.mark.parametrize("kind", ["", "async "])
def test_calls_that_were_sent_ahead_run_in_order(functions, kind):
    instance = functions.load(
        f"""
        seen = []

        {kind}def handle(event):
            seen.append(event)
            return seen
        """
    )
    requests = [instance.invoke(n) for n in range(20)]
    frames = [instance.expect(host.RESULT) for _ in requests]
    assert [frame.request for frame in frames] == requests
    assert [len(host.Result(frame, []).body) for frame in frames] == list(range(1, 21))
    assert host.Result(frames[-1], []).body == list(range(20))


@pytest.mark.parametrize("kind", ["", "async "])
def test_a_result_does_not_wait_for_the_next_call(functions, kind):
    instance = functions.load(
        f"""
        {kind}def handle(event, state):
            if event: state.function().get("a")
            return event
        """
    )
    quick, slow = instance.invoke(False), instance.invoke(True)
    assert instance.receive().request == quick
    asking = instance.receive()
    assert (asking.kind, asking.request) == (host.STATE, slow)
    instance.reply(asking, {"version": 0})
    assert instance.result(slow).body is True


def test_frames_may_come_in_any_pieces(functions):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator = random.Random(seed)
    instance = functions.load("def handle(event, state): return [len(event), state.get('a'), len(state.get('b'))]")
    frames, sizes = b"", []
    for request in range(1, 40):
        sizes.append((generator.choice([0, 1, 100, 5000, 70_000]), generator.choice([0, 10, 20_000, 400_000])))
        event, value = host.encode("e" * sizes[-1][0]), host.encode("v" * sizes[-1][1])
        state = {"floor": 0, "complete": True, "keys": [["a", 1, 0, 1], ["b", 1, 0, len(value)]]}
        head = host.encode({"context": host.CONTEXT, "now": NOW, "state": state})
        frames += host.pack(host.INVOKE, request, head, event, host.encode(request), value)
    at = 0
    while at < len(frames):
        step = generator.choice([1, 2, 3, 15, 16, 17, 20, 100, 4096, 100_000])
        instance.socket.sendall(frames[at : at + step])
        at += step
    results = [instance.result(request) for request in range(1, 40)]
    assert [result.body for result in results] == [[event, n, value] for n, (event, value) in enumerate(sizes, 1)]


def test_large_values_go_both_ways(functions):
    code = "def handle(event, state): state.set('b', state.get('a')); return event"
    instance = functions.load(code, state={"enabled": True})
    value, event = host.encode("v" * (20 << 20)), "e" * (10 << 20)
    result = instance.call(event, keys=[["a", 1, 0, len(value)]], values=[value])
    assert result.body == event
    assert result.writes["b"][2] == value


def test_many_keys_go_both_ways(functions):
    instance = functions.load(
        "def handle(event, state):\n    for key in state.keys(): state.incr(key)\n", state={"enabled": True}
    )
    keys = [[f"k{n}", 1, 0, 1] for n in range(3000)]
    result = instance.call(keys=keys, values=[b"5"] * 3000)
    assert {value for _, _, value in result.writes.values()} == {b"6"}
    assert len(result.writes) == 3000


def test_a_request_is_any_number_of_64_bits(functions):
    instance = functions.load("def handle(event, state): return state.function().incr('a')")
    instance.on_state = lambda head, values: ({"value": 1}, ())
    head = host.encode({"context": host.CONTEXT, "now": NOW})
    instance.socket.sendall(host.pack(host.INVOKE, 2**64 - 1, head, b"null"))
    assert instance.result(2**64 - 1).body == 1


def test_frames_and_members_of_the_future_are_ignored(functions):
    instance = functions.load("def handle(event, state): return state.incr('a')")
    instance.socket.sendall(host.pack(200, 5, b"?", b"", b"x"))
    state = {"floor": 0, "complete": True, "keys": [], "future": 1}
    head = {"future": 1, "context": {**host.CONTEXT, "future": {}}, "now": NOW, "state": state}
    instance.socket.sendall(host.pack(host.INVOKE, 77, host.encode(head), b"null"))
    assert instance.result(77).body == 1


def test_it_exits_when_the_server_closes_its_end(start):
    instance = start(
        """
        import threading, time
        threading.Thread(target=time.sleep, args=(1000,)).start()

        def handle(event):
            pass
        """
    )
    instance.call()
    instance.socket.close()
    assert instance.process.wait() == 0


@pytest.mark.parametrize("kind", ["", "async "])
def test_it_exits_when_the_server_closes_its_end_while_a_call_waits(start, kind):
    instance = start(f"{kind}def handle(event, state): state.function().get('a')")
    instance.invoke()
    instance.receive()
    instance.socket.close()
    assert instance.process.wait() == 0


def test_it_exits_before_load_when_the_server_closes_its_end():
    instance = host.Instance(host.start_directly)
    instance.close()
    assert instance.process.wait() == 0


GARBAGE = {
    "too long": struct.pack("<IBBHQ", (64 << 20) + 1, 4, 0, 1, 1),
    "no segments": struct.pack("<IBBHQ", 12, 4, 0, 0, 1),
    "shorter than its header": struct.pack("<IBBHQ", 3, 4, 0, 1, 1),
    "segments longer than it": struct.pack("<IBBHQI", 16, 4, 0, 1, 1, 5) + b"12345",
    "segments shorter than it": struct.pack("<IBBHQI", 26, 4, 0, 1, 1, 5) + b"1234567890",
    "a head that is no JSON": host.pack(host.INVOKE, 1, b"{", b"null"),
    "a head that is no object": host.pack(host.INVOKE, 1, b"[]", b"null"),
    "an Invoke without event": host.pack(host.INVOKE, 1, host.encode({"context": {}, "now": NOW})),
    "a reply that is no JSON": host.pack(host.STATE, 1, b"?"),
    "a reply without id": host.pack(host.STATE, 1, b"{}"),
}


@pytest.mark.parametrize("kind", ["", "async "])
@pytest.mark.parametrize("what", GARBAGE)
def test_it_ends_with_a_word_where_what_comes_is_no_frame(start, kind, what):
    instance = start(f"{kind}def handle(event): pass")
    instance.socket.sendall(GARBAGE[what])
    assert end_of(instance) == 1
    assert instance.read_output().startswith("nimbus: ")


EXITS = {
    "sys.exit()": 0,
    "sys.exit(3)": 3,
    "sys.exit(256 + 4)": 4,
    "sys.exit('words')": 1,
    "raise SystemExit(5)": 5,
    "os._exit(6)": 6,
    "os.abort()": -signal.SIGABRT,
}


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("kind", ["", "async "])
@pytest.mark.parametrize("statement", EXITS)
def test_a_function_that_exits_ends_its_process(start, kind, statement, concurrency):
    instance = start(f"import os, sys\n{kind}def handle(event): {statement}", concurrency=concurrency)
    instance.invoke()
    assert end_of(instance) == EXITS[statement]
    assert [text for _, _, text in instance.logs] == (["words\n"] if "words" in statement else [])


def test_what_was_printed_before_an_exit_is_sent(start):
    instance = start("import sys\ndef handle(event): print('bye', end=''); sys.exit(3)")
    request = instance.invoke()
    assert end_of(instance) == 3
    assert instance.logs == [(request, "stdout", "bye\n")]


def test_a_forked_child_sends_nothing(functions):
    instance = functions.load(
        """
        import os

        def handle(event, state):
            state.set("a", 1)
            pid = os.fork()
            if pid == 0:
                print("from the child")
                return "child"
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        """
    )
    result = instance.call()
    assert result.body == 0 and result.logs == []
    assert instance.call().body == 0
    instance.socket.close()
    assert instance.read_output() == "from the child\n" * 2


def test_a_forked_child_has_no_state(functions):
    instance = functions.load(
        """
        import os
        from nimbus import StateError

        def handle(event, state):
            pid = os.fork()
            if pid == 0:
                try:
                    state.set("a", 1)
                except StateError as error:
                    os._exit(5 if error.code == "unavailable" else 6)
                os._exit(7)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        """
    )
    assert instance.call().body == 5


def test_the_end_of_a_process_is_seen_though_its_children_live(functions):
    instance = functions.load(
        """
        import multiprocessing, os, subprocess, time

        def handle(event):
            subprocess.Popen(["sleep", "1000"])
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
            child.start()
            os._exit(1)
        """
    )
    request = instance.invoke()
    with pytest.raises(host.Ended):
        instance.result(request)
    os.killpg(instance.hello["pid"], signal.SIGKILL)


@pytest.mark.parametrize("kind", ["", "async "])
def test_cancel_stops_a_call_that_has_not_begun(functions, kind):
    instance = functions.load(
        f"""
        seen = []

        {kind}def handle(event, state):
            seen.append(event)
            if event == 1: state.function().get("a")
            return seen
        """
    )
    first = instance.invoke(1)
    asking = instance.receive()
    second, third = instance.invoke(2), instance.invoke(3)
    instance.cancel(second)
    instance.reply(asking, {"version": 0})
    assert instance.result(first).body == [1]
    result = instance.result(second)
    assert result.error == {"type": "CancelledError", "message": "the call was cancelled: timeout"}
    assert result.changes == ({}, {}, {})
    assert instance.result(third).body == [1, 3]


@pytest.mark.parametrize("kind", ["", "async "])
def test_cancel_stops_a_call_that_waits_for_a_slow_one(functions, kind):
    """Though the slow one asks the server for nothing, and all were read before the first began."""
    instance = functions.load(
        f"""
        import os, time
        seen = []

        {kind}def handle(event):
            seen.append(event)
            if event == 1:
                print("begun")
                open("go on").read()
                time.sleep(0.01)
            return seen
        """
    )
    pipe = functions.last_directory / "go on"
    os.mkfifo(pipe)
    head = host.encode({"context": host.CONTEXT, "now": NOW})
    instance.socket.sendall(b"".join(host.pack(host.INVOKE, n, head, host.encode(n)) for n in (1, 2, 3)))
    assert instance.receive().kind == host.LOG
    instance.cancel(2)
    pipe.write_text("")
    assert instance.result(1).body == [1]
    assert instance.result(2).error["type"] == "CancelledError"
    assert instance.result(3).body == [1, 3]


def test_cancel_of_a_call_that_runs_or_has_ended_harms_nobody(functions):
    instance = functions.load("def handle(event, state): return state.function().incr('a')")
    request = instance.invoke()
    asking = instance.receive()
    instance.cancel(request)
    instance.reply(asking, {"value": 5})
    assert instance.result(request).body == 5
    instance.cancel(request)
    instance.cancel(12345)
    instance.on_state = lambda head, values: ({"value": 6}, ())
    assert instance.call().body == 6
