"""What one transaction asks of storage for each of its files, several at once where storage is far."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TypeVar

AT_ONCE = 4
"""Files: an upload in parts has eight connections, and all streams share those of a client."""
_LOOK_AGAIN = 0.01
"""Seconds, of the 0.1 that an upload takes at least where it is worth not to wait for it."""

Item = TypeVar("Item")


def for_each(items: Iterable[Item | None], work: Callable[[Item], object], pool: Executor | None) -> list[Item]:
    """Do ``work`` for each item, on ``pool`` up to ``AT_ONCE`` at a time, or one after the other where that is None;
    the items, in their order. None in the place of an item means that there is none yet: the next one is asked for as
    long as work is under way, and then no more. All that was begun has ended when this returns or raises. Raises what
    ``items`` raises, and what came of the first work that failed, after which none is begun."""
    taken: list[Item] = []
    begun: list[Future[object]] = []
    try:
        for item in items:
            under_way = _under_way(begun)
            if item is None:
                if not under_way:
                    break
                wait(under_way, timeout=_LOOK_AGAIN, return_when=FIRST_COMPLETED)
                continue
            taken.append(item)
            if pool is None:
                work(item)
                continue
            if len(under_way) >= AT_ONCE:
                wait(under_way, return_when=FIRST_COMPLETED)
                _under_way(begun)
            begun.append(pool.submit(work, item))
    finally:
        try:
            if isinstance(items, Generator):
                # Where no thread could be started, say: work may wait for what comes between two items.
                items.close()
        finally:
            wait(begun)
    _under_way(begun)
    return taken


def followed(items: Iterable[Item], end: Callable[[], object]) -> Iterator[Item]:
    """The items of ``for_each``, and ``end`` once the work for the last one is under way. It is not done where work has
    failed by then."""
    yield from items
    end()


def _under_way(begun: list[Future[object]]) -> list[Future[object]]:
    """Those that have not ended. Raises what came of the first one that failed."""
    under_way = [each for each in begun if not each.done()]
    for each in begun:
        if each not in under_way:
            each.result()
    return under_way
