"""Moving into a cell: namespaces that the server has prepared, with none of the rights of the process before.

What a program does that the server starts in a cell (src/runtime/cell_process.cpp), a fork of the zygote has to
do itself.
"""

from __future__ import annotations

import ctypes
import os
import resource

USER = 1000  # the only one there is in a cell
MAX_PROCESSES = 64

_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def enter(libc: ctypes.PyDLL, namespaces: list[int]) -> bool:
    """The next child is in the cell. False if it was not let."""
    return all(libc.setns(namespace, 0) == 0 for namespace in namespaces)


def confine(libc: ctypes.PyDLL, system_calls: bytes) -> None:
    """Takes all rights from this process, for good; `system_calls` is the filter of those."""
    try:
        os.setgroups([])
    except PermissionError:
        pass  # the server is not root, and has none to give away
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    os.chdir("/")
    os.environ["HOME"] = "/tmp"
    os.environ.pop("TMPDIR", None)
    resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
    capability = 0
    while libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    program = _Program(len(system_calls) // 8, system_calls)
    confined = (
        libc.capset(header, nothing) == 0
        and libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        and libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program)) == 0
    )
    if not confined:
        os._exit(1)
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # another user now: it could not read its own /proc/self
