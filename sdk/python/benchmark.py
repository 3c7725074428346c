"""What a call costs an instance, and how soon a forked one is ready.

    /usr/bin/python3 sdk/python/benchmark.py

Plays the server over a socketpair. The function reads one key, adds 1, sets it and returns a small object.
Beside it runs a loop that does nothing but take the frames apart, parse, add and answer, with the plain
functions of json: what Python itself takes for such a call on this machine, at this time.
"""

import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tests"))
import host  # noqa: E402

COUNTER = """
def handle(event, state):
    n = state.get("n", 0) + 1
    state.set("n", n)
    return {"n": n}
"""
ASYNC_COUNTER = COUNTER.replace("def", "async def")
EMPTY = "def handle(event): return None"

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
        segments = [json.dumps(value).encode() for value in ({"status": 200, "writes": writes}, {"n": n}, n)]
        sizes = list(map(len, segments))
        header = struct.pack("<IBBHQ3I", 24 + sum(sizes), 5, 0, 3, request, *sizes)
        channel.sendall(header + b"".join(segments))
        at += 4 + length
"""

BATCH = 200
BATCHES = 100
FORKS = 200

ROW = ["n", 12, host.NOW + host.HOUR, 4]
HEAD = host.encode({"context": host.CONTEXT, "now": host.NOW, "state": {"floor": 0, "complete": True, "keys": [ROW]}})


def cpu_seconds(pid):
    """On the processor so far, all threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def measure_calls(pid, channel, ahead):
    """Microseconds of CPU per call, when so many are under way at once: of each of many batches."""
    calls = b"".join(host.pack(host.INVOKE, n, HEAD, b'{"add":1}', b"1234") for n in range(1, ahead + 1))

    def run(count):
        for _ in range(count // ahead):
            channel.sendall(calls)
            received = b""
            while received.count(b'{"status"') < ahead or not received.endswith(b"1235"):
                received += channel.recv(65536)

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
    host.write_function(directory, EMPTY)
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

        for ahead in (1, 8):
            kinds = {
                "bare loop": start_bare_loop,
                "plain handler": lambda: start_function(zygote, folder(), COUNTER),
                "async handler": lambda: start_function(zygote, folder(), ASYNC_COUNTER),
            }
            for name, start in kinds.items():
                pid, channel = start()
                report(f"CPU of a call, {ahead} under way: {name}", "us", measure_calls(pid, channel, ahead))
                channel.close()
        report("from the request to Ready: forked", "ms", measure_starts(zygote.start, FORKS, folder()))
        report("from the request to Ready: started directly", "ms", measure_starts(host.start_directly, 20, folder()))
    zygote.close()


if __name__ == "__main__":
    main()
