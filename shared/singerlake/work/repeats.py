"""Which of very many texts come more than once, in memory: a database takes five times as long for keys in no order."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

_BITS = 64
_IN_BUCKET = 11
"""A bucket has about two thousand texts: so few are sorted in little room."""
_MASK = (1 << _BITS) - 1


class Repeats:
    """Which of very many texts come more than once, in some ten bytes a text."""

    def __init__(self, *, count: int) -> None:
        """``count`` is about how many texts there are."""
        self._shift = _BITS - max(count.bit_length() - _IN_BUCKET, 0)
        self._buckets = [array("Q") for _ in range(1 << _BITS - self._shift)]

    def add(self, text: str) -> None:
        mixed = hash(text) & _MASK
        self._buckets[mixed >> self._shift].append(mixed)

    def repeated(self) -> frozenset[int]:
        """The hashes of the texts that come more than once; that of two texts with one hash is among them."""
        return frozenset(_signed(mixed) for bucket in self._buckets for mixed in _again(bucket))

    def among(self, texts: Callable[[], Iterable[str]]) -> Iterator[str]:
        """The texts added that ``texts`` gives once more, each that came before; not called where none can have."""
        again = self.repeated()
        seen: set[str] = set()
        for text in texts() if again else ():
            if hash(text) in again:
                if text in seen:
                    yield text
                seen.add(text)


def _again(bucket: Iterable[int]) -> Iterator[int]:
    return (before for before, after in pairwise(sorted(bucket)) if before == after)


def _signed(mixed: int) -> int:
    """A hash as ``hash`` gives it."""
    return mixed - (1 << _BITS) if mixed >> _BITS - 1 else mixed
