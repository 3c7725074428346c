"""Descriptor 3: frames to and from the server."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from socket import AF_UNIX, MSG_DONTWAIT, SOCK_STREAM, socket
from time import monotonic
from typing import Any

from nimbus import _process
from nimbus._frames import STATE, Frame, ProtocolError, Reader, segments_from
from nimbus._json import loads

DESCRIPTOR = 3

# The head of a reply, and its values.
Reply = tuple[dict[str, Any], list[bytes]]

# Python allocates what a recv() may bring before it knows what it brings. Calls are small; only where the
# rest of a large frame is to come is it worth asking for more.
_SMALL, _LARGE = 16 << 10, 256 << 10


class Channel:
    """Any thread may send, and any may wait for a reply. One of those who wait reads, for all of them: a
    call that runs on the main thread has nobody else to read its reply for it.
    """

    def __init__(self, descriptor: int = DESCRIPTOR) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket(AF_UNIX, SOCK_STREAM, 0, descriptor)
        self._receive = self._socket.recv
        self._send_all = self._socket.sendall
        self._sending = threading.RLock()  # a finalizer may print while its thread is sending
        self._reader = Reader()
        self._reading = threading.Lock()
        self._arrived = threading.Condition()
        self._waiting = 0
        self._replies: dict[tuple[int, int], Reply | None] = {}
        self.inbox: deque[Frame] = deque()  # all that are no replies
        # Called when who waited for a reply has read what belongs into the inbox, on whatever thread that was.
        self.on_inbox: Callable[[], object] | None = None
        self.abandoned = False

    def abandon(self) -> None:
        """In a forked child: the frames are the parent's. With the socket closed here the server sees it when
        the parent ends.
        """
        self.abandoned = True
        self._socket.close()

    def send(self, frames: bytes) -> None:
        if self.abandoned:
            os._exit(0)
        self._sending.acquire()
        try:
            self._send_all(frames)
        except OSError:
            _process.leave(1)
        finally:
            self._sending.release()

    def wait(self) -> None:
        """Returns when there is something in the inbox."""
        while not self.inbox:
            self._advance(self.inbox.__len__)

    def poll(self) -> None:
        """Takes in what has come, without waiting."""
        if self._reading.acquire(False):
            self._read(MSG_DONTWAIT)

    def exchange(self, request: int, number: int, frame: bytes) -> Reply:
        """Sends a State frame and waits for its reply."""
        slot = (request, number)
        replies = self._replies
        replies[slot] = None
        try:
            self.send(frame)
            while (reply := replies[slot]) is None:
                self._advance(lambda: replies[slot] is not None)
            return reply
        finally:
            del replies[slot]

    def _advance(self, arrived: Callable[[], object]) -> None:
        """Reads once, or waits while another thread does."""
        if self._reading.acquire(False):
            if arrived():
                self._release()
            else:
                self._read(0)
                if self.inbox and self.on_inbox is not None:
                    self.on_inbox()
            return
        with self._arrived:
            # Counted before looking: a reader lets go first and looks for waiters then, so one of the
            # two sees the other.
            self._waiting += 1
            if not arrived() and self._reading.locked():
                self._arrived.wait()
            self._waiting -= 1

    def _read(self, flags: int) -> None:
        try:
            data = self._receive(_SMALL if self._reader.missing() <= _SMALL else _LARGE, flags)
            if not data:
                _process.leave(0)
            for frame in self._reader.feed(data, monotonic()):
                if frame[0] != STATE:
                    self.inbox.append(frame)
                    continue
                text, *values = segments_from(frame, 0)
                head = loads(text)
                slot = (frame[1], head["id"])
                if slot in self._replies:
                    self._replies[slot] = (head, values)
        except BlockingIOError:
            pass
        except OSError:
            _process.leave(1)
        except (ProtocolError, ValueError, KeyError, TypeError) as error:
            _process.fail(f"what came on descriptor {DESCRIPTOR} is not the protocol: {error!r}")
        finally:
            self._release()

    def _release(self) -> None:
        self._reading.release()
        if self._waiting:
            with self._arrived:
                self._arrived.notify_all()
