"""Very many items in a temporary file, in small blocks, each item with a number under which it is read again."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from singerlake.scratch.file import ScratchFile

Item = TypeVar("Item")

IN_BLOCK = 64
"""Items of a block at most."""
_KEPT = 16
"""Blocks that stay in memory: who reads by number often reads neighbours."""


class Blocks(Generic[Item]):
    """Items, of which few are in memory. Raises what ``ScratchFile`` raises."""

    def __init__(
        self, made: str, dump: Callable[[tuple[Item, ...]], bytes], load: Callable[[bytes], Sequence[Item]]
    ) -> None:
        self._file = ScratchFile(made)
        self._dump = dump
        self._load = load
        self._begins = array("Q")
        self._kept: OrderedDict[int, Sequence[Item]] = OrderedDict()

    @property
    def numbers(self) -> int:
        """All numbers are below this one; some have no item."""
        return len(self._begins) * IN_BLOCK

    def append(self, items: Sequence[Item]) -> int:
        """Add a block of at most ``IN_BLOCK`` items. Its first one gets the number that is given back, the others those
        behind it."""
        first = self.numbers
        self._begins.append(self._file.append(self._dump(tuple(items))))
        return first

    def __getitem__(self, number: int) -> Item:
        block, place = divmod(number, IN_BLOCK)
        items = self._kept.get(block)
        if items is None:
            items = self._kept[block] = self._read(block)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return items[place]

    def between(self, start: int, stop: int) -> Iterator[tuple[int, Item]]:
        """The items of whole blocks from number ``start`` up to ``stop``, each with its number."""
        for block in range(start // IN_BLOCK, stop // IN_BLOCK):
            yield from enumerate(self._read(block), block * IN_BLOCK)

    def _read(self, block: int) -> Sequence[Item]:
        begin = self._begins[block]
        end = self._begins[block + 1] if block + 1 < len(self._begins) else self._file.end
        return self._load(self._file.read(begin, end - begin))
