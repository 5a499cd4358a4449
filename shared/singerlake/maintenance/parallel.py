"""Work on many things by threads of this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

THREADS = 8
"""Files read at once unless told otherwise; each holds a few MiB."""

Progress = Callable[[int], None]
"""Called on the caller's thread with the stored bytes of each file once it has been read."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_parallel(
    work: Callable[[Item], Answer],
    items: Iterable[Item],
    *,
    threads: int,
    at_once: Callable[[Item], bool] = lambda _: False,
) -> Iterator[Answer]:
    """``work`` done on each item by up to ``threads`` threads; answers in the order of the items, few of them waiting
    at any time. What ``at_once`` is true of is done on the caller's thread while no other is at work. The first
    exception ends it."""
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="singerlake-read") as pool:
        waiting: deque[Future[Answer]] = deque()
        try:
            for item in items:
                if at_once(item):
                    while waiting:
                        yield waiting.popleft().result()
                    yield work(item)
                    continue
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
