"""The process that instances are forked from. It has loaded everything but the function.

Each message on its socket brings the descriptors of one instance. It answers nothing, and ends when the
socket is closed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import time
from socket import AF_UNIX, SOCK_SEQPACKET, recv_fds, socket

from nimbus import _cell, _process

DESCRIPTOR = 3
REQUEST = b"F"

_MAX_REQUEST = 1 << 17
_MAX_DESCRIPTORS = 16

_PR_SET_PDEATHSIG = 1
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

# What functions commonly import, with all that it imports in turn. Loaded here it costs an instance hardly
# anything; loaded there it costs milliseconds each.
_COMMON = (
    "asyncio",
    "base64",
    "dataclasses",
    "datetime",
    "decimal",
    "hashlib",
    "inspect",
    "logging",
    "pathlib",
    "random",
    "urllib.request",
    "uuid",
    "nimbus._loop",
)


def serve() -> int:
    """Returns in each instance, and never in the zygote: the number of its process, as the server knows it."""
    libc = ctypes.PyDLL(None)
    processes = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    for name in _COMMON:
        importlib.import_module(name)
    _prepare_process()
    gc.collect()
    gc.freeze()  # an instance that collects garbage need not touch, and thereby copy, these pages
    channel = socket(AF_UNIX, SOCK_SEQPACKET, 0, DESCRIPTOR)
    while True:
        request, descriptors, _, _ = recv_fds(channel, _MAX_REQUEST, _MAX_DESCRIPTORS)
        if not request:
            os._exit(0)
        namespaces = descriptors[3:]
        if _is_request(request, namespaces, len(descriptors)) and _fork(libc, namespaces):
            channel.detach()
            number = int(os.readlink("self", dir_fd=processes))  # in a cell it has another
            _take_over(descriptors[:3])
            if namespaces:
                _cell.confine(libc, request[1:])
            return number
        for descriptor in descriptors:
            os.close(descriptor)


def _is_request(request: bytes, namespaces: list[int], descriptors: int) -> bool:
    """A cell comes with a filter of system calls, and nothing else does."""
    if request[:1] != REQUEST or descriptors < 3:
        return False
    return len(request) > 1 if namespaces else request == REQUEST


def _prepare_process() -> None:
    """Does once what would have to be done in every instance."""
    _process.set_environment({})
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN and number not in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.setsid()  # what is typed at the server's terminal is for the server
    except PermissionError:
        pass  # leads one already


def _fork(libc: ctypes.PyDLL, namespaces: list[int]) -> bool:
    """Forks twice, so that the instance is not the zygote's child. True in the instance."""
    # The one in the middle only forks again. Python's own fork() would make it ready to run Python, which
    # takes as long as all the rest.
    middle = libc.fork()
    if middle:
        if middle > 0:
            os.waitpid(middle, 0)
        return False  # where there was no fork the server sees the instance's socket closed
    middle = os.getpid()
    if namespaces and not _cell.enter(libc, namespaces):
        os._exit(1)
    try:
        if os.fork():  # random and others see to it themselves that a forked process is not as its parent
            os._exit(0)
    except OSError:
        os._exit(1)
    os.setsid()
    if namespaces:
        return True  # it ends with the cell
    # Not before there is a new parent: the end of the old one would be the signal.
    while os.getppid() == middle:
        time.sleep(0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return True


def _take_over(descriptors: list[int]) -> None:
    for descriptor, place in zip(descriptors, (3, 1, 2)):
        os.dup2(descriptor, place)
    os.closerange(4, 1 << 20)
