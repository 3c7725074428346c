"""What a call costs an instance, and how soon a forked one is ready.

    /usr/bin/python3 sdk/python/benchmark.py            # everything
    /usr/bin/python3 sdk/python/benchmark.py incr       # calls only, of the handlers that are named

Plays the server over a socketpair, as the server does it: one call at a time, or so many ahead that the
instance always finds some. The processor time is that of the instance alone, user and system. The handlers
find one key of state. Beside them runs a loop that does nothing but take the frames apart, parse, add and
answer, with the plain functions of json: what Python itself takes for such a call on this machine, at this time.
"""

import itertools
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tests"))
import host  # noqa: E402

HANDLERS = {
    "incr": "def handle(event, state): return state.incr('n')",
    "get and set": """
        def handle(event, state):
            n = state.get("n", 0) + 1
            state.set("n", n)
            return {"n": n}
    """,
    "imported state": """
        from nimbus import state
        def handle(event): return state.incr("n")
    """,
    "context": "def handle(event, state, context): return context.session_seq",
    "nothing": "def handle(event): return None",
    "async incr": "async def handle(event, state): return state.incr('n')",
}

BARE_LOOP = """
import json, socket, struct
channel = socket.socket(fileno=3)
while data := channel.recv(16384):
    at = 0
    while at < len(data):
        length, _, _, count, request = struct.unpack_from("<IBBHQ", data, at)
        a, b, c = struct.unpack_from("<3I", data, at + 16)
        start = at + 28
        head, event = json.loads(data[start : start + a]), json.loads(data[start + a : start + a + b])
        n = json.loads(data[start + a + b : start + a + b + c]) + 1
        writes = [["n", head["state"]["keys"][0][1] + 1, head["now"]]]
        segments = [json.dumps(value).encode() for value in ({"status": 200, "writes": writes}, n, n)]
        sizes = list(map(len, segments))
        header = struct.pack("<IBBHQ3I", 24 + sum(sizes), 5, 0, 3, request, *sizes)
        channel.sendall(header + b"".join(segments))
        at += 4 + length
"""

AHEAD = 16
BATCH = 320
BATCHES = 100
FORKS = 200

CONTEXT = {**host.CONTEXT, "request_id": "req-01k5v3x9q8z7", "function_id": "counter", "session_key": "session-0042"}
ROW = ["n", 12, host.NOW + host.HOUR, 4]
HEAD = host.encode({"context": CONTEXT, "now": host.NOW, "state": {"floor": 0, "complete": True, "keys": [ROW]}})


def cpu_seconds(pid):
    """On the processor so far, all threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def measure_calls(pid, channel, ahead):
    """Microseconds of CPU per call, when so many are under way: of each of many batches. What has been
    answered is made up for when half of it has.
    """
    more = max(1, ahead // 2)
    calls = [host.pack(host.INVOKE, n, HEAD, b'{"op":"inc"}', b"1234") for n in range(1, ahead + 1)]
    halves = itertools.cycle([b"".join(calls[at : at + more]) for at in range(0, ahead, more)])
    unread = bytearray()

    def receive(count):
        """Reads so many results, at least."""
        while count > 0:
            unread.extend(channel.recv(1 << 16))
            while len(unread) >= 4 and len(unread) >= (end := 4 + int.from_bytes(unread[:4], "little")):
                assert b'{"status":' in unread[:end]
                del unread[:end]
                count -= 1
        return count

    def run(count):
        surplus = 0
        for _ in range(count // more):
            surplus = receive(more + surplus)
            channel.sendall(next(halves))

    channel.sendall(b"".join(calls))
    run(2000)
    costs = []
    for _ in range(BATCHES):
        before = cpu_seconds(pid)
        run(BATCH)
        costs.append((cpu_seconds(pid) - before) / BATCH * 1e6)
    return costs


def start_bare_loop():
    ours, theirs = socket.socketpair()
    actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)]
    pid = os.posix_spawn(host.PYTHON, [host.PYTHON, "-I", "-c", BARE_LOOP], os.environ, file_actions=actions)
    theirs.close()
    return pid, ours


def start_function(zygote, directory, code):
    instance = host.Instance(zygote.start)
    assert instance.load(host.write_function(directory, code)) == {}
    return instance.hello["pid"], instance.socket


def measure_starts(start, count, directory):
    """Milliseconds from the request to Ready."""
    host.write_function(directory, HANDLERS["nothing"])
    times = []
    for _ in range(count):
        started = time.perf_counter()
        instance = host.Instance(start)
        assert instance.load(directory) == {}
        times.append((time.perf_counter() - started) * 1000)
        instance.close()
        if instance.process is not None:
            instance.process.wait()
    return times


def report(name, unit, values):
    values.sort()
    low, median, high = values[0], statistics.median(values), values[int(len(values) * 0.95)]
    print(f"{name:<48} median {median:6.2f} {unit}, lowest {low:6.2f}, 95 % below {high:6.2f}", flush=True)


def main():
    zygote = host.Zygote()
    print("load average", *os.getloadavg())
    with tempfile.TemporaryDirectory() as temporary:
        folders = (pathlib.Path(temporary, str(n)) for n in range(100))

        def folder():
            made = next(folders)
            made.mkdir()
            return made

        for ahead in (1, AHEAD):
            for name in sys.argv[1:] or ["bare loop", *HANDLERS]:
                bare = name == "bare loop"
                pid, channel = start_bare_loop() if bare else start_function(zygote, folder(), HANDLERS[name])
                report(f"CPU of a call, {ahead:2} under way: {name}", "us", measure_calls(pid, channel, ahead))
                channel.close()
        if not sys.argv[1:]:
            report("from the request to Ready: forked", "ms", measure_starts(zygote.start, FORKS, folder()))
            times = measure_starts(host.start_directly, 20, folder())
            report("from the request to Ready: started directly", "ms", times)
    zygote.close()


if __name__ == "__main__":
    main()
