"""Reading with all processors of this machine: Python takes lines apart on one at a time in each process."""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib.abc import MetaPathFinder
from itertools import chain
from multiprocessing import get_context
from typing import Any

from singerlake.errors import StorageUnavailableError
from singerlake.storage.port import Storage
from singerlake.work.batches import grouped
from singerlake.work.engine import Answer, Item, Task, answers
from singerlake.work.machine import processors

_opened: Storage | None = None


class Processes:
    """The engine of at most ``most`` processes, and one for each core, started with the first work and kept until
    ``close``. ``reopen`` makes the lake's storage again in each; it is pickled, and goes through pipes of this user's
    alone."""

    def __init__(self, reopen: Callable[[], Storage], most: int) -> None:
        self._reopen = reopen
        self._count = min(most, processors())
        self._pool: ProcessPoolExecutor | None = None
        self._starting = threading.Lock()

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        groups = grouped(items, task.size)
        first = next(groups, None)
        if first is None:
            return
        waiting: deque[tuple[list[Item], Future[list[Answer]]]] = deque()
        pool = self._started()
        try:
            for group in chain((first,), groups):
                waiting.append((group, pool.submit(_answers, task, group)))
                if len(waiting) >= 2 * self._count:
                    yield from _answered(*waiting.popleft())
            while waiting:
                yield from _answered(*waiting.popleft())
        except BrokenProcessPool as error:
            # Others are started for what comes next: a task that one died of must not end all that come after it.
            self._end(pool)
            raise StorageUnavailableError(
                "a process that read files was killed",
                hint="it may have run out of memory: give fewer --threads",
            ) from error
        finally:
            # What runs yet must not work beside what the caller does next, such as removing what it made.
            wait([future for _, future in waiting if not future.cancel()])

    def close(self) -> None:
        """End the processes, once what they are at is done."""
        if self._pool is not None:
            self._end(self._pool)

    def _started(self) -> ProcessPoolExecutor:
        with self._starting:
            if self._pool is None:
                # Not by forking: threads of this process may hold locks that no thread would release in a copy of it.
                self._pool = ProcessPoolExecutor(self._count, get_context("spawn"), _start, (self._reopen,))
            return self._pool

    def _end(self, pool: ProcessPoolExecutor) -> None:
        with self._starting:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(cancel_futures=True)


def _answered(group: list[Item], future: Future[list[Answer]]) -> Iterator[tuple[Item, Answer]]:
    return zip(group, future.result(), strict=True)


class _WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas, where it is installed, for the first list that it converts. That takes a third of a
    second in each process, and no task uses it."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Raise ``ModuleNotFoundError`` for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError("tasks do without pandas", name=name)


def _start(reopen: Callable[[], Storage]) -> None:
    """Once in a process. A signal to the command also reaches the process that waits for it."""
    global _opened
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.meta_path.insert(0, _WithoutPandas())
    _opened = reopen()


def _answers(task: Task[Any, Any], group: list[Any]) -> list[Any]:
    assert _opened is not None
    return answers(task, _opened, group)
