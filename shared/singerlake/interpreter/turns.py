"""Threads that run one at a time, and wait for a disk all at once.

At each call of the system a thread gives up the interpreter's lock, and must get it back from those that took it
meanwhile. To commit a small file takes a hundred such calls: with several threads that do so, handing the lock about
took longer than all else that they did. Where they take turns, a call that returns at once finds the lock free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

PATIENCE = 0.02
"""Seconds that a thread waits for its turn. Then it goes on without: the one whose turn it is may wait for something
that this thread holds."""

_own = threading.local()


class _Turn:
    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._has = False

    def take(self) -> None:
        self._has = self._lock.acquire(timeout=PATIENCE)

    def give_back(self) -> None:
        if self._has:
            self._has = False
            self._lock.release()


class Turns:
    """Of a group of threads. A turn is a courtesy: it keeps no two threads apart where that matters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A turn, once it is free, for the length of a block but for what is ``waiting`` in it. Not within another."""
        turn = _own.turn = _Turn(self._lock)
        turn.take()
        try:
            yield
        finally:
            _own.turn = None
            turn.give_back()


class _Waiting:
    def __enter__(self) -> None:
        turn = getattr(_own, "turn", None)
        if turn is not None:
            turn.give_back()

    def __exit__(self, *_: object) -> None:
        turn = getattr(_own, "turn", None)
        if turn is not None:
            turn.take()


_WAITING = _Waiting()


def waiting() -> AbstractContextManager[None]:
    """Around what waits for something other than the interpreter: a thread that has a turn gives it to another one for
    that time."""
    return _WAITING


@contextmanager
def holding(lock: threading.Lock) -> Iterator[None]:
    """``lock`` held for the length of a block. While a thread that has a turn waits for it, another one has the turn:
    the one that holds the lock may need it."""
    if not lock.acquire(blocking=False):
        with waiting():
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
