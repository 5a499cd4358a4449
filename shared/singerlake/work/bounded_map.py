"""What one transaction asks of storage for each of its files, several at once where storage is far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from types import TracebackType
from typing import Generic, Self, TypeVar

AT_ONCE = 4
"""Files: an upload in parts has eight connections, and all streams share those of a client."""
_LOOK_AGAIN = 0.01
"""Seconds, of the 0.1 that an upload takes at least where it is worth not to wait for it."""

Item = TypeVar("Item")


def for_each(items: Iterable[Item | None], work: Callable[[Item], object], pool: Executor | None) -> list[Item]:
    """Do ``work`` for each item; the items, in their order. As ``BoundedMap``."""
    with BoundedMap(work, pool) as under_way:
        return under_way.all(items)


class BoundedMap(Generic[Item]):
    """Does ``work`` for items, on ``pool`` up to ``AT_ONCE`` at a time, None: one after the other. A context: all that
    was begun has ended when it is left. It raises the first error, after which none is begun."""

    def __init__(self, work: Callable[[Item], object], pool: Executor | None) -> None:
        self._work = work
        self._pool = pool
        self._taken: list[Item] = []
        self._begun: list[Future[object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        wait(self._begun)
        if error is None:
            self._under_way()

    def begin(self, item: Item) -> None:
        """Begin the work for an item once there is room for it; without a pool, do it."""
        under_way = self._under_way()
        self._taken.append(item)
        if self._pool is None:
            self._work(item)
            return
        if len(under_way) >= AT_ONCE:
            wait(under_way, return_when=FIRST_COMPLETED)
            self._under_way()
        self._begun.append(self._pool.submit(self._work, item))

    def all(self, items: Iterable[Item | None]) -> list[Item]:
        """Begin the work for each item and wait for all; gives all items that were begun, in their order. None for an
        item: there is none yet, and the next one is asked for while work is under way. Raises what ``items`` raises."""
        try:
            for item in items:
                if item is not None:
                    self.begin(item)
                elif under_way := self._under_way():
                    wait(under_way, timeout=_LOOK_AGAIN, return_when=FIRST_COMPLETED)
                else:
                    break
        finally:
            wait(self._begun)
        self._under_way()
        return self._taken

    def _under_way(self) -> list[Future[object]]:
        """The work that has not ended."""
        under_way = [each for each in self._begun if not each.done()]
        for each in self._begun:
            if each not in under_way:
                each.result()
        return under_way
