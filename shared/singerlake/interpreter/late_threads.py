"""Threads for work that is mostly called off before it is due."""

from __future__ import annotations

import threading
from collections.abc import Callable


class LateThread:
    """One piece of work that was asked for. ``end`` calls it off, or waits for its end if it has begun."""

    def __init__(self, work: Callable[[], object], all_of_them: LateThreads) -> None:
        self.work = work
        self.thread: threading.Thread | None = None
        self._all = all_of_them

    def end(self) -> None:
        """After this, the work does not run, nor will it. What tells it to end is the caller's."""
        thread = self._all.forget(self)
        if thread is not None:
            thread.join()


class LateThreads:
    """Begins each piece of work on a thread of its own, between half of ``seconds`` and ``seconds`` after it was asked
    for, unless it was called off before. One thread waits for all of them, since to start one takes longer than most
    of what is called off. All threads are daemons, called ``name``."""

    def __init__(self, seconds: float, name: str) -> None:
        self._half = seconds / 2
        self._name = name
        # What a thread of ours runs may be cleared away in the midst of starting another, and end its own then.
        self._guard = threading.RLock()
        self._fresh: set[LateThread] = set()
        self._ripe: set[LateThread] = set()
        self._watched = False

    def begin(self, work: Callable[[], object]) -> LateThread:
        """Have ``work`` done later. Raises ``RuntimeError`` where no thread can be started."""
        late = LateThread(work, self)
        with self._guard:
            if not self._watched:
                threading.Thread(target=self._watch, name=self._name, daemon=True).start()
                self._watched = True
            self._fresh.add(late)
        return late

    def forget(self, late: LateThread) -> threading.Thread | None:
        """Begin ``late`` no more; its thread, where it has begun."""
        with self._guard:
            self._fresh.discard(late)
            self._ripe.discard(late)
            return late.thread

    def _watch(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(self._half)
            with self._guard:
                due, self._ripe, self._fresh = self._ripe, self._fresh, set()
                for late in due:
                    self._start(late)
                if not self._ripe:
                    self._watched = False
                    return

    def _start(self, late: LateThread) -> None:
        thread = threading.Thread(target=late.work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread is to be had at the moment.
            self._ripe.add(late)
        else:
            late.thread = thread
