"""A server as small as the tests need it: it starts real instances and speaks the protocol with them.

The bytes of frames are written and read here once more, from docs/protocol.md and not with the SDK's own
code: two that share a mistake would understand each other.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import struct
import textwrap

SDK = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"

HELLO, LOAD, READY, INVOKE, RESULT, CANCEL, STATE, LOG = range(1, 9)

NOW = 1_790_000_000_000
HOUR = 3_600_000
CONTEXT = {
    "request_id": "r-1",
    "function_id": "cart",
    "version": 3,
    "session_key": "alice",
    "session_seq": 17,
    "attempt": 1,
    "deadline_ms": NOW + 30_000,
    "traceparent": None,
}
LIMITS = {"enabled": True, "default_ttl_ms": HOUR, "max_value_bytes": 65536, "max_keys": 100, "max_total_bytes": 0}

# A test that hangs should still end.
PATIENCE = 30.0


def encode(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def pack(kind, request, *segments):
    content = struct.pack("<BBHQ", kind, 0, len(segments), request)
    content += struct.pack(f"<{len(segments)}I", *map(len, segments)) + b"".join(segments)
    return struct.pack("<I", len(content)) + content


class Ended(Exception):
    """The instance has closed its end."""


class Frame:
    def __init__(self, content):
        self.kind, zero, count, self.request = struct.unpack_from("<BBHQ", content)
        assert zero == 0 and count >= 1
        sizes = struct.unpack_from(f"<{count}I", content, 12)
        at = 12 + 4 * count
        self.values = []
        for size in sizes:
            self.values.append(content[at : at + size])
            at += size
        assert at == len(content)
        self.head = json.loads(self.values.pop(0))

    def __repr__(self):
        return f"Frame({self.kind}, {self.request}, {self.head}, {self.values})"


class Result:
    """The end of a call, and what was logged before it."""

    def __init__(self, frame, logs):
        head = frame.head
        self.status = head.get("status")
        self.error = head.get("error")
        self.text = frame.values[0]
        self.body = json.loads(self.text) if self.text else None
        rows = head.get("writes", [])
        values = frame.values[1 : 1 + len(rows)]
        self.events = frame.values[1 + len(rows) :]
        assert (len(values), len(self.events)) == (len(rows), head.get("events", 0))
        self.writes = {key: (version, expires, value) for (key, version, expires), value in zip(rows, values)}
        self.touches = {key: (version, expires) for key, version, expires in head.get("touches", [])}
        self.deletes = dict(head.get("deletes", []))
        self.operations = head.get("operations")
        self.logs = logs
        names = [row[0] for name in ("writes", "touches", "deletes") for row in head.get(name, [])]
        assert len(names) == len(set(names)), "a key stands in more than one list"

    @property
    def changes(self):
        return self.writes, self.touches, self.deletes


class Instance:
    """One instance, from this side of its socket. State frames go to `on_state(head, values)`, which returns
    the head and the values of the reply; where a test gives none, there must be none.
    """

    def __init__(self, start):
        ours, theirs = socket.socketpair()
        self.output, output = os.pipe()
        self.process = start(theirs.fileno(), output, output)
        theirs.close()
        os.close(output)
        self.adopt(ours)

    def adopt(self, connection):
        self.socket = connection
        self.socket.settimeout(PATIENCE)
        self.on_state = None
        self._received = bytearray()
        self._numbers = iter(range(1, 1 << 40))
        self._results = {}
        self.logs = []  # request, stream, text
        self.hello = self.expect(HELLO).head

    def close(self):
        self.socket.close()
        os.close(self.output)

    def load(self, directory, handler="main.handle", concurrency=1, memory_mb=0, env=None, state=LIMITS):
        head = {
            "function_id": "cart",
            "version": 3,
            "handler": handler,
            "directory": str(directory),
            "env": env or {},
            "concurrency": concurrency,
            "memory_mb": memory_mb,
            "state": state,
        }
        self.socket.sendall(pack(LOAD, 0, encode(head)))
        return self.expect(READY).head

    def invoke(self, event=None, keys=(), values=(), floor=0, complete=True, now=NOW, session=True, context=None):
        """Sends a call and returns its request. An event of bytes goes out as it is."""
        request = next(self._numbers)
        head = {"context": {**CONTEXT, **(context or {})}, "now": now}
        if session:
            head["state"] = {"floor": floor, "complete": complete, "keys": list(keys)}
        else:
            head["context"] |= {"session_key": None, "session_seq": None}
        text = event if isinstance(event, bytes) else encode(event)
        self.socket.sendall(pack(INVOKE, request, encode(head), text, *values))
        return request

    def result(self, request):
        while request not in self._results:
            frame = self.expect(RESULT)
            logs = [entry for entry in self.logs if entry[0] == frame.request]
            assert frame.request not in self._results
            self._results[frame.request] = Result(frame, logs)
        return self._results.pop(request)

    def call(self, *arguments, **options):
        return self.result(self.invoke(*arguments, **options))

    def cancel(self, request, reason="timeout"):
        self.socket.sendall(pack(CANCEL, request, encode({"reason": reason})))

    def expect(self, kind):
        """The next frame that is neither a log nor about state."""
        while True:
            frame = self.receive()
            if frame.kind == LOG:
                self.logs.append((frame.request, frame.head["stream"], frame.values[0].decode()))
            elif frame.kind == STATE:
                assert self.on_state is not None, f"an operation that should cost no message: {frame}"
                head, values = self.on_state(frame.head, frame.values)
                self.reply(frame, head, values)
            else:
                assert frame.kind == kind, frame
                return frame

    def reply(self, frame, head, values=()):
        head = {"id": frame.head["id"], "success": True, **head}
        self.socket.sendall(pack(STATE, frame.request, encode(head), *values))

    def receive(self):
        size = struct.unpack("<I", self._read(4))[0]
        return Frame(self._read(size))

    def _read(self, size):
        while len(self._received) < size:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Ended
            self._received += data
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    def read_output(self):
        """What came through descriptors 1 and 2, when all that hold them have ended."""
        text = b""
        while data := os.read(self.output, 65536):
            text += data
        return text.decode()


class Process:
    """A child of ours that is gone when the test is."""

    def __init__(self, script, *descriptors):
        """`descriptors` become 3, 1 and 2."""
        actions = [(os.POSIX_SPAWN_DUP2, given, place) for given, place in zip(descriptors, (3, 1, 2))]
        arguments = [PYTHON, "-I", str(SDK / script)]
        self.pid = os.posix_spawn(PYTHON, arguments, os.environ, file_actions=actions)
        self._status = None

    def wait(self):
        """The exit code, or minus the signal."""
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def kill(self):
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()


def start_directly(*descriptors):
    return Process("instance.py", *descriptors)


class Zygote:
    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = Process("zygote.py", theirs.fileno())
        theirs.close()

    def start(self, *descriptors):
        socket.send_fds(self.socket, [b"F"], descriptors)

    def close(self):
        self.socket.close()
        return self.process.wait()


def write_function(directory, code="", **files):
    """Puts main.py, and others by name, into the directory."""
    for name, text in {"main": code, **files}.items():
        path = directory / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return directory


class SoonAfter(int):
    """A time in milliseconds that may be a little later: calls take time."""

    def __eq__(self, other):
        return 0 <= other - int(self) < PATIENCE * 1000

    __hash__ = None  # in a set it would be any time but a later one
