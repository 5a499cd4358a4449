"""Files in groups, for engines that read in other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from singerlake.work.batches import batches

GROUP_BYTES = 32 << 20
"""Stored bytes of a group: long enough at work that sending it there does not matter, short enough to share out."""
GROUP_FILES = 1000

Item = TypeVar("Item")


def grouped(items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Items in their order, in groups; ``size`` says the stored bytes of each."""
    return batches(items, size, size=GROUP_BYTES, most=GROUP_FILES)


def waves(items: Iterable[Item], size: Callable[[Item], int], groups: int) -> Iterator[list[list[Item]]]:
    """How many groups at a time."""
    made = grouped(items, size)
    while wave := list(islice(made, groups)):
        yield wave
