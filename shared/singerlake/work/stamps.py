"""Stamps of very many files in little memory: a stamp is a digest of 16 bytes."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator

STAMP_BYTES = 16
_BITS = 64
_MASK = (1 << _BITS) - 1
_IN_BUCKET = 11
"""A bucket has about two thousand paths: so few are sorted in little room."""
_PREFIX = 2
"""Bytes of a stamp by which it is found. Of ten million stamps, some hundred and fifty have the same ones."""


class StampSet:
    """Stamps, in some 15 bytes each."""

    def __init__(self) -> None:
        self._rest: dict[bytes, bytearray] = {}

    def add(self, stamp: bytes) -> None:
        """One more stamp."""
        self._rest.setdefault(stamp[:_PREFIX], bytearray()).extend(stamp[_PREFIX:])

    def __contains__(self, stamp: bytes) -> bool:
        rest, wanted = self._rest.get(stamp[:_PREFIX]), stamp[_PREFIX:]
        at = -1 if rest is None else rest.find(wanted)
        while rest is not None and at >= 0 and at % len(wanted):
            at = rest.find(wanted, at + 1)
        return at >= 0


class PathStamps:
    """Paths, each with a stamp of what is said of it, and, once a listing has shown it, with a stamp of both instead.
    Some 25 bytes a path. Two paths with one hash of 64 bits are taken for one, which has no stamp. All are added before
    anything is asked."""

    def __init__(self, *, count: int) -> None:
        """``count`` is about how many paths there will be."""
        self._shift = _BITS - max(count.bit_length() - _IN_BUCKET, 0)
        buckets = 1 << _BITS - self._shift
        self._hashes = [array("Q") for _ in range(buckets)]
        self._stamps = [bytearray() for _ in range(buckets)]
        self._shown: list[bytearray] | None = None

    def add(self, path: str, said: bytes) -> None:
        """One more path, and the stamp of what is said of it."""
        mixed = hash(path) & _MASK
        bucket = mixed >> self._shift
        self._hashes[bucket].append(mixed)
        self._stamps[bucket] += said

    def show(self, path: str, stamp: Callable[[bytes], bytes]) -> None:
        """A listing shows ``path``: ``stamp`` is given what is said of it, and gives the stamp of both. A path that was
        not added is passed over."""
        place = self._place(path)
        if place is None or self._shown is None:
            return
        bucket, at = place
        held = self._stamps[bucket]
        begin, end = at * STAMP_BYTES, (at + 1) * STAMP_BYTES
        # One that is shown twice is two paths.
        self._shown[bucket][at] = 2 if self._shown[bucket][at] else 1
        held[begin:end] = stamp(bytes(held[begin:end]))

    def get(self, path: str) -> bytes | None:
        """The stamp of a path that a listing has shown; None of any other."""
        place = self._place(path)
        if place is None or self._shown is None or self._shown[place[0]][place[1]] != 1:
            return None
        bucket, at = place
        return bytes(self._stamps[bucket][at * STAMP_BYTES : (at + 1) * STAMP_BYTES])

    def _place(self, path: str) -> tuple[int, int] | None:
        if self._shown is None:
            self._shown = list(self._sorted())
        mixed = hash(path) & _MASK
        bucket = mixed >> self._shift
        hashes = self._hashes[bucket]
        at = bisect_left(hashes, mixed)
        return (bucket, at) if at < len(hashes) and hashes[at] == mixed else None

    def _sorted(self) -> Iterator[bytearray]:
        """Put each bucket in order. Where a hash comes twice, the second one makes it that of two paths."""
        for bucket, hashes in enumerate(self._hashes):
            stamps = self._stamps[bucket]
            order = sorted(range(len(hashes)), key=hashes.__getitem__)
            self._hashes[bucket] = array("Q", (hashes[at] for at in order))
            self._stamps[bucket] = bytearray().join(stamps[at * STAMP_BYTES : (at + 1) * STAMP_BYTES] for at in order)
            ordered = self._hashes[bucket]
            yield bytearray(
                2 if at + 1 < len(ordered) and ordered[at] == ordered[at + 1] else 0 for at in range(len(ordered))
            )
