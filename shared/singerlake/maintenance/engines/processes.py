"""Reading with all processors of this machine: Python takes lines apart on one at a time in each process."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from typing import Any

from singerlake.errors import StorageUnavailableError
from singerlake.maintenance.engines.engine import Answer, Item, Task, answers
from singerlake.maintenance.engines.groups import grouped
from singerlake.storage.port import Storage

_opened: Storage | None = None


@dataclass(frozen=True, slots=True)
class Processes:
    """The engine of several processes, at most ``most`` and as many as there are processors. ``reopen`` makes the
    lake's storage again in each of them; it is pickled, and goes through pipes of this user's alone."""

    reopen: Callable[[], Storage]
    most: int

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        groups = grouped(items, task.size)
        first = next(groups, None)
        if first is None:
            return
        count = max(1, min(self.most, os.cpu_count() or 1))
        # Not by forking: threads of this process may hold locks that no thread would release in a copy of it.
        with ProcessPoolExecutor(count, get_context("spawn"), _start, (self.reopen,)) as pool:
            waiting: deque[tuple[list[Item], Future[list[Answer]]]] = deque()
            try:
                for group in chain((first,), groups):
                    waiting.append((group, pool.submit(_answers, task, group)))
                    if len(waiting) >= 2 * count:
                        yield from _answered(*waiting.popleft())
                while waiting:
                    yield from _answered(*waiting.popleft())
            except BrokenProcessPool as error:
                raise StorageUnavailableError(
                    "a process that read files was killed",
                    hint="it may have run out of memory: give fewer --threads",
                ) from error
            finally:
                for _, future in waiting:
                    future.cancel()


def _answered(group: list[Item], future: Future[list[Answer]]) -> Iterator[tuple[Item, Answer]]:
    return zip(group, future.result(), strict=True)


def _start(reopen: Callable[[], Storage]) -> None:
    """Once in a process. A signal to the command also reaches the process that waits for it."""
    global _opened
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _opened = reopen()


def _answers(task: Task[Any, Any], group: list[Any]) -> list[Any]:
    assert _opened is not None
    return answers(task, _opened, group)
