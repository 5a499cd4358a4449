"""Numbers by hashed keys, in some 14 bytes each: a dict takes ten times as much."""

from __future__ import annotations

_PART = 6
_WHOLE = 2 * _PART
_MASK = (1 << 8 * _PART) - 1
_FIRST = 64
_IN_BUCKET = 64
"""Numbers of a bucket in the mean: it is searched from its beginning."""


class Places:
    """Numbers below 2^48, each under the hash of a key. Of a hash 48 bits are kept, so that a number may be found that
    was added under another key: who looks has to see whether it is the right one."""

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(_FIRST)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, hashed: int, number: int) -> None:
        """One more number under a hash, beside those that are there."""
        self._count += 1
        if self._count > _IN_BUCKET * len(self._buckets):
            self._split()
        hashed &= _MASK
        bucket = self._buckets[hashed & len(self._buckets) - 1]
        bucket += hashed.to_bytes(_PART, "little") + number.to_bytes(_PART, "little")

    def find(self, hashed: int) -> list[int]:
        """The numbers under a hash, in the order in which they were added, and perhaps others."""
        hashed &= _MASK
        bucket = self._buckets[hashed & len(self._buckets) - 1]
        key = hashed.to_bytes(_PART, "little")
        found: list[int] = []
        at = bucket.find(key)
        while at >= 0:
            if at % _WHOLE:
                at += 1
            else:
                found.append(int.from_bytes(bucket[at + _PART : at + _WHOLE], "little"))
                at += _WHOLE
            at = bucket.find(key, at)
        return found

    def _split(self) -> None:
        """Twice as many buckets; one after the other, so that no second copy of all is ever there."""
        bit = len(self._buckets).bit_length() - 1
        byte, mask = bit // 8, 1 << bit % 8
        behind: list[bytearray] = []
        for place, bucket in enumerate(self._buckets):
            low, high = bytearray(), bytearray()
            for at in range(0, len(bucket), _WHOLE):
                half = high if bucket[at + byte] & mask else low
                half += bucket[at : at + _WHOLE]
            self._buckets[place] = low
            behind.append(high)
        self._buckets += behind
