"""The process that instances are forked from."""

import os
import signal
import socket

import pytest

import host


@pytest.fixture
def own_zygote():
    zygote = host.Zygote()
    yield zygote
    zygote.process.kill()
    zygote.socket.close()


def status_of(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(line.split()[1] for line in file if line.startswith(name + ":"))


def test_an_instance_is_nobodys_child_and_leads_its_session(functions, own_zygote):
    instance = functions.instance(own_zygote.start)
    pid = instance.hello["pid"]
    assert int(status_of(pid, "PPid")) not in (own_zygote.process.pid, os.getpid(), pid)
    assert os.getsid(pid) == os.getpgid(pid) == pid


def test_the_zygote_leaves_no_children_behind(functions, own_zygote):
    for _ in range(4):
        functions.instance(own_zygote.start)
    pid = own_zygote.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        assert len(file.read().split()) <= 1  # the last one may be on its way


def test_an_instance_has_its_own_descriptors_and_no_others(functions):
    instance = functions.load(
        """
        import os

        def handle(event):
            found = {}
            for name in os.listdir("/proc/self/fd"):
                try:
                    found[name] = os.readlink("/proc/self/fd/" + name)
                except FileNotFoundError:
                    pass  # the listing's own
            return found
        """
    )
    found = instance.call().body
    assert sorted(found) == ["0", "1", "2", "3"]
    assert found["0"] == "/dev/null"
    assert found["1"] == found["2"] and found["1"].startswith("pipe:")
    assert found["3"].startswith("socket:")


def test_an_instance_has_the_signals_of_any_python_program(functions, own_zygote):
    instance = functions.instance(own_zygote.start)
    pid = instance.hello["pid"]
    of_the_c_library = 1 << 31 | 1 << 32
    ignored = int(status_of(pid, "SigIgn"), 16) & ~of_the_c_library
    assert ignored == 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert int(status_of(pid, "SigBlk"), 16) == 0
    assert int(status_of(pid, "SigCgt"), 16) & 1 << (signal.SIGINT - 1)


def test_signals_that_the_server_ignores_or_blocks_are_not_passed_on(functions):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        zygote = host.Zygote()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, before)
    test_an_instance_has_the_signals_of_any_python_program(functions, zygote)
    zygote.close()


def test_instances_have_different_random_numbers(functions):
    code = "import random, uuid\ndef handle(event): return [random.random(), str(uuid.uuid4())]"
    first, second = functions.load(code).call().body, functions.load(code).call().body
    assert first[0] != second[0] and first[1] != second[1]


def test_instances_outlive_the_zygote(functions, own_zygote, tmp_path):
    directory = functions.directory("def handle(event): return event")
    instance = functions.instance(own_zygote.start)
    own_zygote.socket.close()
    assert own_zygote.process.wait() == 0
    assert instance.load(directory) == {}
    assert instance.call(5).body == 5


def test_an_instance_is_killed_when_its_new_parent_dies(tmp_path):
    """A process that adopts orphans stands for the server; the instance is in an endless call when it dies."""
    host.write_function(tmp_path, "def handle(event):\n    print('begun')\n    while True: pass")
    ours, theirs = socket.socketpair()
    adopter = os.fork()
    if adopter == 0:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
        zygote = host.Zygote()
        zygote.start(theirs.fileno(), 1, 2)
        signal.pause()
        os._exit(0)
    theirs.close()
    instance = host.Instance.__new__(host.Instance)
    instance.adopt(ours)
    pid = instance.hello["pid"]
    assert int(status_of(pid, "PPid")) == adopter
    assert instance.load(tmp_path) == {}
    instance.invoke()
    assert instance.receive().kind == host.LOG
    os.kill(adopter, signal.SIGKILL)
    os.waitpid(adopter, 0)
    with pytest.raises(host.Ended):
        instance.receive()
    ours.close()


@pytest.mark.parametrize("message, count", [(b"X", 3), (b"F", 2), (b"F", 0), (b"FF", 3), (b"F" * 1000, 3)])
def test_what_is_no_request_starts_nothing(functions, own_zygote, message, count):
    ours, theirs = socket.socketpair()
    if count:
        socket.send_fds(own_zygote.socket, [message], [theirs.fileno()] * count)
    else:
        own_zygote.socket.send(message)
    theirs.close()
    if count:
        assert ours.recv(1) == b""  # closed, and not answered
    ours.close()
    assert functions.instance(own_zygote.start).hello["protocol"] == 1


def test_many_instances_can_be_asked_for_at_once(functions, zygote):
    pairs = [socket.socketpair() for _ in range(10)]
    for _, theirs in pairs:
        zygote.start(theirs.fileno(), 1, 2)
        theirs.close()
    pids = set()
    for ours, _ in pairs:
        instance = host.Instance.__new__(host.Instance)
        instance.adopt(ours)
        pids.add(instance.hello["pid"])
        ours.close()
    assert len(pids) == 10


def test_the_zygote_does_not_mind_what_is_typed_at_the_servers_terminal(own_zygote, functions):
    functions.instance(own_zygote.start)
    pid = own_zygote.process.pid
    assert os.getpgid(pid) == os.getsid(pid) == pid
