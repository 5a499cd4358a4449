"""Many things, passed on without one of them being held for longer than it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def consumed(items: list[Item]) -> Iterator[Item]:
    """Items in their order, each taken out of the list."""
    items.reverse()
    while items:
        yield items.pop()


def batches(items: Iterable[Item], stored: Callable[[Item], int], *, size: int, most: int) -> Iterator[list[Item]]:
    """Items in their order, in batches of at most ``size`` bytes, as ``stored`` says of each, and ``most`` items; a
    larger one alone. Handing one over costs little beside the work on it."""
    batch: list[Item] = []
    held = 0
    for item in items:
        own = stored(item)
        if batch and (held + own > size or len(batch) == most):
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += own
    if batch:
        yield batch
