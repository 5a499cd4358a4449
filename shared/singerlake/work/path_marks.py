"""Which of very many paths a listing has shown, in some 20 bytes a path: ten million paths as text take two gigabytes.

Of a path a hash of 64 bits is kept. Two paths with the same hash are taken for one: among ten million paths of a state
and a thousand others, in one of a billion listings. So a path that is told from here to be known may be a new one; what
must be certain before anything is deleted is asked of the state itself.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

_BITS = 64
_IN_BUCKET = 11
"""A bucket has about two thousand paths: so few are sorted in little room."""
_MASK = (1 << _BITS) - 1


class PathMarks:
    """Paths, each with a number of at most 64 bits, and a mark that is not set at first. All are added before anything
    is asked."""

    def __init__(self, *, count: int) -> None:
        """``count`` is about how many paths there will be."""
        self._shift = _BITS - max(count.bit_length() - _IN_BUCKET, 0)
        self._buckets = [(array("Q"), array("Q")) for _ in range(1 << _BITS - self._shift)]
        self._marks: list[bytearray] | None = None
        self._left = 0

    def add(self, path: str, number: int = 0) -> None:
        """One more path. Of one that comes twice the greatest number counts."""
        mixed = hash(path) & _MASK
        hashes, numbers = self._buckets[mixed >> self._shift]
        hashes.append(mixed)
        numbers.append(number)

    @property
    def left(self) -> int:
        """How many are not marked."""
        self._sorted()
        return self._left

    def __contains__(self, path: str) -> bool:
        return self._place(path) is not None

    def number(self, path: str) -> int | None:
        """The number of a path; None where it is not among them."""
        place = self._place(path)
        return None if place is None else self._buckets[place[0]][1][place[1]]

    def mark(self, path: str) -> bool:
        """Set the mark of a path; False where it is not among them."""
        place = self._place(path)
        if place is None:
            return False
        marks, at = self._sorted()[place[0]], place[1]
        self._left -= not marks[at]
        marks[at] = True
        return True

    def is_marked(self, path: str) -> bool:
        """Whether a path is among them, and marked."""
        place = self._place(path)
        return place is not None and bool(self._sorted()[place[0]][place[1]])

    def _sorted(self) -> list[bytearray]:
        """The marks, once the paths are in order."""
        if self._marks is None:
            for place, (hashes, numbers) in enumerate(self._buckets):
                rows = dict(sorted(zip(hashes, numbers, strict=True)))
                self._buckets[place] = array("Q", rows), array("Q", rows.values())
            self._marks = [bytearray(len(hashes)) for hashes, _ in self._buckets]
            self._left = sum(map(len, self._marks))
        return self._marks

    def _place(self, path: str) -> tuple[int, int] | None:
        self._sorted()
        mixed = hash(path) & _MASK
        bucket = mixed >> self._shift
        hashes = self._buckets[bucket][0]
        at = bisect_left(hashes, mixed)
        return (bucket, at) if at < len(hashes) and hashes[at] == mixed else None


class Repeats:
    """Which of very many texts come more than once, in some ten bytes a text."""

    def __init__(self, *, count: int) -> None:
        """``count`` is about how many texts there are."""
        self._shift = _BITS - max(count.bit_length() - _IN_BUCKET, 0)
        self._buckets = [array("Q") for _ in range(1 << _BITS - self._shift)]

    def add(self, text: str) -> None:
        """One more text."""
        mixed = hash(text) & _MASK
        self._buckets[mixed >> self._shift].append(mixed)

    def repeated(self) -> frozenset[int]:
        """The hashes of the texts that come more than once; that of two texts with one hash is among them."""
        return frozenset(_signed(mixed) for bucket in self._buckets for mixed in _again(bucket))

    def among(self, texts: Callable[[], Iterable[str]]) -> Iterator[str]:
        """Of the texts that were added, which ``texts`` gives once more, each one that came before; it is not called
        where none can have."""
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
