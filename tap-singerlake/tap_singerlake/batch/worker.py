"""A thread that does what it is given in order, while more is prepared."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future


class Worker:
    """One thread. ``room`` is the most bytes that may be under way, but one piece of work of any size. After an error
    nothing more is done: later work fails with it, too. It keeps no process alive."""

    def __init__(self, name: str, room: int) -> None:
        self._name = name
        self._room = room
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Callable[[], None], int, Future[None]]] = deque()
        self._under_way = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._error: BaseException | None = None

    def do(self, work: Callable[[], None], size: int = 0) -> Future[None]:
        """Have ``work`` done after all that came before. Waits while too much is under way. Raises what earlier work
        raised."""
        done = Future[None]()
        with self._changed:
            self._changed.wait_for(lambda: self._error or not self._under_way or self._under_way + size <= self._room)
            if self._error is not None:
                raise self._error
            self._under_way += size
            self._waiting.append((work, size, done))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return done

    def close(self) -> None:
        """Begin nothing more, and return when nothing is under way. What waited is cancelled."""
        with self._changed:
            self._closed = True
            for _, _, done in self._waiting:
                done.cancel()
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                work, size, done = self._waiting.popleft()
            try:
                if self._error is None:
                    work()
            except BaseException as error:
                self._error = error
            if self._error is None:
                done.set_result(None)
            else:
                done.set_exception(self._error)
            # What it holds is let go before there is room for more.
            del work
            with self._changed:
                self._under_way -= size
                self._changed.notify_all()
