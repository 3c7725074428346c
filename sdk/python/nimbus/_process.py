"""What a function finds around it: its environment and its share of memory; and how its process ends."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from typing import NoReturn

_KEPT = {"PATH", "HOME", "LANG", "TZ", "TMPDIR"}


def set_environment(given: Mapping[str, str]) -> None:
    """The server's own environment may hold secrets; a function sees what it needs and what it was given."""
    for name in list(os.environ):
        if name not in _KEPT and not name.startswith("LC_"):
            del os.environ[name]
    os.environ.update(given)
    if "TZ" in given:
        time.tzset()


def limit_memory(megabytes: int, threads: int) -> None:
    """Lets the function have `megabytes` beyond what the interpreter and `threads` stacks take, then
    Python raises MemoryError.
    """
    if megabytes <= 0:
        return
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[5]) * resource.getpagesize()
    except OSError:  # a cell in a container may have none
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    stacks = threads * (stack if stack != resource.RLIM_INFINITY else 8 << 20)
    limit = used + stacks + (megabytes << 20)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def add_packages(directory: str | None) -> None:
    """What was installed for the function is found as it would be in a virtual environment: behind the standard library,
    before what the machine has.
    """
    if directory:
        system = (place for place, entry in enumerate(sys.path) if entry.endswith("-packages"))
        sys.path.insert(next(system, len(sys.path)), directory)


def leave(code: int) -> NoReturn:
    """Ends the process at once: threads that the function left behind must not keep it."""
    os._exit(code)


def fail(message: str) -> NoReturn:
    os.write(2, f"nimbus: {message}\n".encode(errors="backslashreplace"))
    leave(1)


def exit_code(error: SystemExit) -> int:
    """The code Python would exit with."""
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1
