"""Work on many things by threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

from singerlake.interpreter.threads import threads_ahead

THREADS = 8
"""Files read at once by default; each holds a few MiB."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_parallel(
    work: Callable[[Item], Answer],
    items: Iterable[Item],
    *,
    threads: int,
    most: Callable[[Item], int | None] = lambda _: None,
) -> Iterator[Answer]:
    """``work`` done on each item by up to ``threads`` threads; answers in order, few of them waiting. ``most`` says how
    many items may be under way with one, itself included, where that is fewer. The first exception ends it."""
    with threads_ahead(threads, "singerlake-read") as pool:
        waiting: deque[Future[Answer]] = deque()
        try:
            for item in items:
                room = most(item)
                while room is not None and len(waiting) >= room:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            # What is at work may change something, so that it has ended when this has.
            wait(waiting)
