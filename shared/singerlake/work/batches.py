"""Many things, passed on without one being held for longer than needed, in groups for other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")

GROUP_BYTES = 32 << 20
"""Stored bytes of a group: long enough at work that sending it there does not matter, short enough to share out."""
GROUP_FILES = 1000


def consumed(items: list[Item]) -> Iterator[Item]:
    """Items in their order, each taken out of the list."""
    items.reverse()
    while items:
        yield items.pop()


def batches(items: Iterable[Item], stored: Callable[[Item], int], *, size: int, most: int) -> Iterator[list[Item]]:
    """Items in order, in batches of at most ``size`` bytes, as ``stored`` says, and ``most`` items, or of one."""
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


def grouped(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Items in their order, in groups; ``size`` says the stored bytes of each."""
    return batches(items, size, size=GROUP_BYTES, most=GROUP_FILES)


def waves(items: Iterable[Item], size: Callable[[Item], int], groups: int) -> Iterator[list[list[Item]]]:
    """How many groups at a time."""
    made = grouped(items, size)
    while wave := list(islice(made, groups)):
        yield wave
