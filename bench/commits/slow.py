"""A storage and a wire as far away as one wants: what a protocol costs where every call takes its time."""

from __future__ import annotations

import math
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

_PAGE = 1000
"""Keys that S3 lists in one answer."""
_PART = 1 << 16
_SHORTEST = 0.001
"""Seconds."""
_CALLS = frozenset(
    {"get", "head", "put", "upload", "compose", "read_range", "beginning", "open", "list_folder", "delete"}
)


@dataclass(frozen=True)
class SlowStorage:
    """A ``Storage`` each of whose calls begins with a wait; a listing waits for every page."""

    storage: Any
    seconds: float

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.storage, name)
        if name not in _CALLS:
            return found

        def slowly(*args: Any, **keywords: Any) -> Any:
            time.sleep(self.seconds)
            return found(*args, **keywords)

        return slowly

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Any]:
        """As the port says."""
        time.sleep(self.seconds)
        for number, entry in enumerate(self.storage.list(prefix, start_after=start_after), 1):
            yield entry
            if number % _PAGE == 0:
                time.sleep(self.seconds)


@contextmanager
def slow_wire(port: int, seconds: float, *, rate: float = math.inf) -> Iterator[int]:
    """A port of 127.0.0.1 that leads to another one; what is sent there takes ``seconds`` on its way, what comes back
    takes none. Each connection takes up to ``rate`` bytes a second each way."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        threading.Thread(target=_accept, args=(listening, port, seconds, rate), daemon=True).start()
        yield listening.getsockname()[1]


def _accept(listening: socket.socket, port: int, seconds: float, rate: float) -> None:
    with suppress(OSError):
        while True:
            near, _ = listening.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            for target, args in (
                (_take, (near, waiting, seconds, rate)),
                (_send, (waiting, far)),
                (_pass, (far, near, rate)),
            ):
                threading.Thread(target=target, args=args, daemon=True).start()


def _take(near: socket.socket, waiting: queue.SimpleQueue[tuple[float, bytes]], seconds: float, rate: float) -> None:
    part, free = b"-", 0.0
    while part:
        try:
            part = near.recv(_PART)
        except OSError:
            part = b""
        waiting.put((time.monotonic() + seconds, part))
        free = _paced(free, len(part), rate)


def _paced(free: float, size: int, rate: float) -> float:
    """Wait until a wire that was free at ``free`` has taken ``size`` bytes; when that is."""
    free = max(free, time.monotonic()) + size / rate
    # A sleep is never exact, so that small ones are made up for together.
    if (wait := free - time.monotonic()) > _SHORTEST:
        time.sleep(wait)
    return free


def _send(waiting: queue.SimpleQueue[tuple[float, bytes]], far: socket.socket) -> None:
    with suppress(OSError):
        while True:
            due, part = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not part:
                far.shutdown(socket.SHUT_WR)
                return
            far.sendall(part)


def _pass(far: socket.socket, near: socket.socket, rate: float) -> None:
    free = 0.0
    with suppress(OSError):
        while part := far.recv(_PART):
            near.sendall(part)
            free = _paced(free, len(part), rate)
        near.shutdown(socket.SHUT_WR)
