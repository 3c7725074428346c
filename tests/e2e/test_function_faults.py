"""What functions do to themselves and to the channel, under load: the call gets its typed error, the session goes
on with what was acknowledged, and nobody else notices."""

import contextlib
import threading
import time

import pytest

from harness import Server

PYTHON = '''
import ctypes, mmap, os, signal, struct, sys, time
import nimbus._call

def frame(kind, request, *segments):
    lengths = b"".join(struct.pack("<I", len(one)) for one in segments)
    body = struct.pack("<BBHQ", kind, 0, len(segments), request) + lengths + b"".join(segments)
    return struct.pack("<I", len(body)) + body

def forged(request, body=b'"forged"'):
    return frame(5, request, b'{"status":200}', body)

def stay(descriptor, alone):
    """A child that lives on with the descriptor open."""
    kept = os.dup(descriptor)
    told, tells = os.pipe()
    if os.fork() == 0:
        if alone: os.setsid()
        os.write(tells, b"!")
        while True: time.sleep(1000)
    os.read(told, 1)
    os.close(kept)

def grow():
    held = []
    while True: held.append(b"x" * (1 << 20))

def grow_unseen():
    shared = mmap.mmap(-1, 800 << 20)
    while shared.tell() < len(shared): shared.write(b"x" * (1 << 20))
    time.sleep(1000)

def recurse(n): return recurse(n + 1)

def own(): return nimbus._call.current().request

DEEDS = {
    "raise": lambda: [][0],
    "raise what is no Exception": lambda: (_ for _ in ()).throw(KeyboardInterrupt()),
    "sys.exit": lambda: sys.exit(3),
    "kill itself": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "abort": lambda: os.abort(),
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(1000),
    "hang and ignore signals": lambda: [signal.signal(one, signal.SIG_IGN) for one in (15, 2, 1)] and time.sleep(1000),
    "recurse": lambda: recurse(0),
    "garbage": lambda: os.write(3, b"garbage" * 100),
    "4 GB frame": lambda: os.write(3, struct.pack("<I", 0xffffffff) + bytes(12)) and time.sleep(1000),
    "frame without segments": lambda: os.write(3, struct.pack("<IBBHQ", 12, 5, 0, 0, own())) and time.sleep(1000),
    "segments beyond the frame": lambda: os.write(3, struct.pack("<IBBHQI", 16, 5, 0, 1, own(), 1000)) and time.sleep(1000),
    "half a frame, then the end": lambda: os.write(3, forged(own())[:-4]) and os._exit(4),
    "another hello": lambda: os.write(3, frame(1, 0, b'{"protocol":1}')) and time.sleep(1000),
    "another ready": lambda: os.write(3, frame(3, 0, b"{}")) and time.sleep(1000),
    "frame of an unknown type": lambda: os.write(3, frame(77, 1, b"{}")),
    "result for an unknown request": lambda: os.write(3, forged(1 << 60)),
    "result twice": lambda: os.write(3, forged(own())) and None,
    "result that is no JSON": lambda: os.write(3, forged(own(), b"[1,")) and time.sleep(1000),
    "result with a bad head": lambda: os.write(3, frame(5, own(), b'{"status":"x","writes":7}', b"1")) and time.sleep(1000),
    "result with a write that has no value": lambda: os.write(3, frame(5, own(), b'{"writes":[["n",99,0]]}', b"1")) and time.sleep(1000),
    "result with an old version": lambda: os.write(3, frame(5, own(), b'{"writes":[["n",1,0]]}', b"1", b"7")) and time.sleep(0),
    "state frame that is no JSON": lambda: os.write(3, frame(7, own(), b"nonsense")),
    "log frame that is no JSON": lambda: os.write(3, frame(8, own(), b"nonsense", b"line")),
    "too large an answer": lambda: "x" * (65 << 20),
    "return no JSON": lambda: object(),
    "print much": lambda: [print("y" * 1023) for _ in range(10 << 10)] and None,
    "write much": lambda: os.write(1, b"z" * (10 << 20)) and None,
    "close the channel": lambda: os.close(3) or time.sleep(1000),
    "leave a child behind and die": lambda: stay(3, alone=False) or os._exit(5),
    "leave a daemon behind and die": lambda: stay(3, alone=True) or os._exit(6),
    "leave a child behind and answer": lambda: stay(3, alone=False),
    "leave a daemon behind and answer": lambda: stay(1, alone=True),
    "fill the memory": grow,
    "fill memory that Python does not count": grow_unseen,
}

def handle(event, state):
    n = state.incr("n")
    done = DEEDS[event]() if event else None
    return done if event in ("too large an answer", "return no JSON") else n
'''

FINE = (200, None)
RAISED = (500, "function_error")
CRASHED = (502, "function_crashed")
LATE = (504, "timeout")
FULL = ((500, "function_error"), (502, "function_crashed"))  # the language may notice before we do

# What is done; what is answered; a part of what people are told.
PYTHON_FAULTS = [
    ("raise", RAISED, "index out of range"),
    ("raise what is no Exception", RAISED, ""),
    ("sys.exit", CRASHED, "exited with 3"),
    ("kill itself", CRASHED, "signal 9"),
    ("abort", CRASHED, "signal 6"),
    ("segfault", CRASHED, "signal 11"),
    ("hang", LATE, "did not end within"),
    ("hang and ignore signals", LATE, "did not end within"),
    ("recurse", RAISED, "recursion"),
    ("garbage", CRASHED, ""),
    ("4 GB frame", CRASHED, ""),
    ("frame without segments", CRASHED, ""),
    ("segments beyond the frame", CRASHED, ""),
    ("half a frame, then the end", CRASHED, "exited with 4"),
    ("another hello", CRASHED, "protocol"),
    ("another ready", CRASHED, "protocol"),
    ("frame of an unknown type", FINE, ""),
    ("result for an unknown request", FINE, ""),
    ("result twice", FINE, ""),
    ("result that is no JSON", CRASHED, "protocol"),
    ("result with a bad head", CRASHED, "protocol"),
    ("result with a write that has no value", CRASHED, "protocol"),
    ("result with an old version", RAISED, "protocol"),
    ("state frame that is no JSON", FINE, ""),
    ("log frame that is no JSON", FINE, ""),
    ("too large an answer", RAISED, "too large"),
    ("return no JSON", RAISED, "not JSON"),
    ("print much", FINE, ""),
    ("write much", FINE, ""),
    ("close the channel", CRASHED, ""),
    ("leave a child behind and die", CRASHED, "exited with 5"),
    ("leave a daemon behind and die", CRASHED, "exited with 6"),
    ("leave a child behind and answer", FINE, ""),
    ("leave a daemon behind and answer", FINE, ""),
    ("fill the memory", FULL, ""),
    ("fill memory that Python does not count", CRASHED, "it used more than its 384 MB of memory"),
]

NODE = '''
const fs = require('fs');
const { spawn } = require('child_process');

const sleep = () => new Promise((done) => setTimeout(done, 1e6));
function recurse(n) { return recurse(n + 1) + 1; }

const DEEDS = {
  'throw': () => { throw new RangeError('as told'); },
  'throw nothing': () => { throw undefined; },
  'throw later': async () => { setTimeout(() => { throw new Error('too late'); }, 1); await sleep(); },
  'process.exit': () => process.exit(3),
  'kill itself': () => process.kill(process.pid, 'SIGKILL') && sleep(),
  'abort': () => process.abort(),
  'hang': () => { for (;;); },
  'never settle': () => sleep(),
  'recurse': () => recurse(0),
  'garbage': () => { fs.writeSync(3, Buffer.alloc(700, 'garbage')); return sleep(); },
  '4 GB frame': () => { fs.writeSync(3, Buffer.alloc(16, 0xff)); return sleep(); },
  'close the channel': () => { fs.closeSync(3); return sleep(); },
  'leave a child behind and die': () => { spawn('sleep', ['1000'], { stdio: 'inherit' }); process.exit(5); },
  'leave a daemon behind and die': () => { spawn('sleep', ['1000'], { stdio: ['ignore', 1, 2, 3], detached: true }); process.exit(6); },
  'leave a daemon behind and answer': () => { spawn('sleep', ['1000'], { stdio: 'inherit', detached: true }).unref(); },
  'too large an answer': () => 'x'.repeat(65 << 20),
  'return no JSON': () => 1n,
  'return a circle': () => { const circle = {}; circle.circle = circle; return circle; },
  'print much': () => { for (let i = 0; i < 10 << 10; ++i) console.log('y'.repeat(1023)); },
  'fill the memory': () => { const held = []; for (;;) held.push(Buffer.alloc(1 << 20, 1)); },
  'fill the heap': () => { const held = []; for (;;) held.push({ n: held.length, text: 'x' + held.length }); },
};

exports.handle = async (event, state) => {
  const n = await state.incr('n');
  const done = event ? await DEEDS[event]() : undefined;
  return ['too large an answer', 'return no JSON', 'return a circle'].includes(event) ? done : n;
};
'''

NODE_FAULTS = [
    ("throw", RAISED, "as told"),
    ("throw nothing", RAISED, ""),
    ("throw later", CRASHED, "exited with 1"),
    ("process.exit", CRASHED, "exited with 3"),
    ("kill itself", CRASHED, "signal 9"),
    ("abort", CRASHED, "signal 6"),
    ("hang", LATE, "did not end within"),
    ("never settle", LATE, "did not end within"),
    ("recurse", RAISED, "call stack"),
    ("garbage", CRASHED, ""),
    ("4 GB frame", CRASHED, ""),
    ("close the channel", CRASHED, ""),
    ("leave a child behind and die", CRASHED, "exited with 5"),
    ("leave a daemon behind and die", CRASHED, "exited with 6"),
    ("leave a daemon behind and answer", FINE, ""),
    ("too large an answer", RAISED, "at most"),
    ("return no JSON", RAISED, "BigInt"),
    ("return a circle", RAISED, "circular"),
    ("print much", FINE, ""),
    ("fill the memory", FULL, ""),
    ("fill the heap", FULL, ""),
]


@pytest.fixture(scope="module")
def faulty(server):
    # One call at a time in each instance: who shares a process shares its end, whatever the language.
    settings = {"timeout_ms": 20000, "memory_mb": 384, "max_instances": 3, "concurrency": 1}
    server.deploy("python", PYTHON, **settings)
    server.deploy("node", NODE, runtime="node", **settings)
    return server


@contextlib.contextmanager
def bystanders(server, function, fault):
    """Sessions that are called all the time; at the end it is clear that each call of theirs was answered in order."""
    stop = threading.Event()
    strange = []
    counts = [0, 0, 0]

    def call(which):
        n = 0
        while not stop.is_set():
            answer = server.invoke(function, None, session=f"{fault} bystander {which}")
            n += 1
            seen = (answer.status, answer.json.get("body"), answer.headers["Nimbus-Session-Seq"])
            if seen != (200, n, str(n)):
                strange.append((which, n, seen, answer.text))
                return
            counts[which] = n

    threads = [threading.Thread(target=call, args=(which,)) for which in range(len(counts))]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: strange or min(counts) >= 2)
        yield
        before = list(counts)
        wait_for(lambda: strange or all(now > then for now, then in zip(counts, before)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not strange


def wait_for(is_so, patience=30):
    deadline = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < deadline, "it does not go on"
        time.sleep(0.002)


@pytest.mark.parametrize("runtime, fault, outcome, told", [
    *[("python", *row) for row in PYTHON_FAULTS],
    *[("node", *row) for row in NODE_FAULTS],
])
def test_a_fault_is_its_calls_alone(faulty, runtime, fault, outcome, told):
    with bystanders(faulty, runtime, fault):
        assert [faulty.invoke(runtime, None, session=fault).json["body"] for _ in range(2)] == [1, 2]
        options = {"timeout_ms": 400} if outcome == LATE else {}
        began = time.monotonic()
        answer = faulty.invoke(runtime, fault, session=fault, **options)
        took = time.monotonic() - began
        expected = outcome if outcome == FULL else (outcome,)
        assert (answer.status, answer.json.get("code")) in expected, answer.text[:500]
        assert answer.headers["Nimbus-Session-Seq"] == "3"
        kept = 3 if outcome == FINE else 2
        if outcome == FINE:
            assert answer.json["body"] == (kept if fault != "result twice" else "forged")
        else:
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert told in answer.json["detail"]
            assert ("error" in answer.json) == (answer.json["code"] == "function_error")
        assert took < 10, "its end was noticed only by its deadline"
        if fault == "result twice":
            kept = 2  # the first counts, and it wrote nothing
        after = faulty.invoke(runtime, None, session=fault)
        assert after.status == 200, after.text
        assert (after.json["body"], after.headers["Nimbus-Session-Seq"]) == (kept + 1, "4")


@pytest.mark.parametrize("runtime, fault", [("python", "leave a daemon behind and answer"), ("node", "leave a daemon behind and answer")])
def test_what_a_function_left_behind_does_not_keep_the_server(tmp_path, runtime, fault):
    with Server(tmp_path) as server:
        server.deploy("faulty", PYTHON if runtime == "python" else NODE, runtime=runtime)
        assert server.invoke("faulty", fault, session="s").status == 200
        code, seconds = server.stop()
        assert (code, seconds < 5) == (0, True), f"it took {seconds} s"


def test_a_daemon_that_loading_leaves_behind_does_not_keep_the_deployment(server):
    code = ("import os, time\n"
            "if os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\n    os._exit(0)\n"
            "def handle(event):\n    return 7\n")
    began = time.monotonic()
    server.deploy("daemon", code)
    assert server.invoke("daemon").json["body"] == 7
    assert time.monotonic() - began < 20


def test_who_shares_an_instance_shares_its_end_and_nothing_more(server):
    code = '''
exports.handle = async (event, state) => {
  const n = await state.incr('n');
  if (event === 'wait') await new Promise(() => {});
  if (event === 'die') process.exit(9);
  return n;
};
'''
    server.deploy("shared", code, runtime="node", max_instances=1)
    sessions = [f"shared {n}" for n in range(8)]
    assert [server.invoke("shared", None, session=one).json["body"] for one in sessions] == [1] * 8
    answers = {}

    def wait_in(session):
        answers[session] = server.invoke("shared", "wait", session=session)

    threads = [threading.Thread(target=wait_in, args=(one,)) for one in sessions]
    for thread in threads:
        thread.start()
    wait_for(lambda: all(server.api("GET", f"/functions/shared/sessions/{one.replace(' ', '%20')}").json["status"] == "running" for one in sessions))
    died = server.invoke("shared", "die", session="the one that dies")
    assert (died.status, died.headers["Nimbus-Session-Seq"]) == (502, "1")
    for thread in threads:
        thread.join()
    for session in sessions:
        assert (answers[session].status, answers[session].json["code"]) == CRASHED
        assert answers[session].headers["Nimbus-Session-Seq"] == "2"
        after = server.invoke("shared", None, session=session)
        assert (after.json["body"], after.headers["Nimbus-Session-Seq"]) == (2, "3")
