"""Threads that work ahead for a generator, that are mostly called off before they are due, and that take turns.

At each call of the system a thread gives up the interpreter's lock, and must get it back. To commit a small file takes
a hundred such calls: with several threads, handing the lock about took longer than all else that they did. Where they
take turns, a call that returns at once finds the lock free.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 0.02
"""Seconds to wait for a turn, then to go on without: whose turn it is may wait for what this thread holds."""

_own = threading.local()


@contextmanager
def threads_ahead(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Up to ``count`` threads for a generator, which end with it. What is left of a generator that nobody goes on with
    is cleared away anywhere, also where Python has just begun to start a thread, with its own locks held: to join a
    thread there waits for ever. So nothing is joined then; what runs ends by itself, and nothing else is begun."""
    executor = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield executor
    except GeneratorExit:
        executor.shutdown(wait=False, cancel_futures=True)
        raise
    except BaseException:
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


def in_order(pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], *, most: int) -> Iterator[Result]:
    """What ``work`` gives for each item, in their order, with up to ``most`` of them under way."""
    under_way: deque[Future[Result]] = deque()
    for item in items:
        under_way.append(pool.submit(work, item))
        if len(under_way) >= most:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], *, threads: int, name: str, few: int = 1
) -> list[Result]:
    """What ``work`` gives for each item, in their order; up to ``few`` are worked on one after the other."""
    if len(items) <= few or threads < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, thread_name_prefix=name) as executor:
        return list(executor.map(work, items))


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
    """Begins each piece of work on a daemon thread called ``name``, between half of ``seconds`` and ``seconds`` later,
    unless it was called off. One thread waits for all: to start one takes longer than most of what is called off."""

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
    """Around what waits for something other than the interpreter: another thread has the turn meanwhile."""
    return _WAITING


@contextmanager
def holding(lock: threading.Lock) -> Iterator[None]:
    """``lock`` held for a block. While a thread waits for it, another has its turn: who holds the lock may need it."""
    if not lock.acquire(blocking=False):
        with waiting():
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
