"""The names of entries in the ``merge`` store: section 11.5 of ``shared/docs/format``.

They are MPS3's coding of time and order without its two clashes: the session is a whole identity, of which MPS3 takes
three characters, and ends before its count would (readers of MPS3 do not know its 1,025th write).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from singerlake.clock import IdSource

NAME = "manifest.json@"
"""Begins the name of every entry below a stream's ``_log/``."""
LAST_CHANGE = "last_change"
"""The object below ``_log/`` that is touched after each write."""
TIME_BITS = 42
COUNT_BITS = 10
LAST_TIME = 2**TIME_BITS - 1
"""2109-05-15T07:35:11.103Z, in milliseconds since 1970."""

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_ENTRY = re.compile(re.escape(NAME) + r"([0-9a-v]{9})_([0-9a-v]+)_([0-9a-v]{2})\Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ascending(number: int, bits: int) -> str:
    """``number`` in base 32, padded so that names sort as numbers do. Raises ``ValueError`` where it does not fit."""
    if not 0 <= number < 2**bits:
        raise ValueError(f"{number} does not fit into {bits} bits")
    width = -(-bits // 5)
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(width)))


def descending(number: int, bits: int) -> str:
    """The same, sorting the other way round."""
    return ascending(2**bits - 1 - number, bits)


def from_descending(text: str, bits: int) -> int | None:
    """The number that ``descending`` makes ``text`` of; None where there is none."""
    if len(text) != -(-bits // 5) or any(digit not in _DIGITS for digit in text):
        return None
    number = 2**bits - 1 - int(text, 32)
    return number if number >= 0 else None


@dataclass(frozen=True, slots=True)
class EntryKey:
    """Where an entry stands: ``time`` in milliseconds since 1970. Of one time, those of a session are in the order of
    ``count``, those of two in the order of their names backwards."""

    time: int
    session: str
    count: int

    @property
    def name(self) -> str:
        """The entry's name below ``_log/``; greater names are older entries."""
        return f"{NAME}{descending(self.time, TIME_BITS)}_{self.session}_{descending(self.count, COUNT_BITS)}"


def entry_key(name: str) -> EntryKey | None:
    """What an entry's name says; None for anything else."""
    match = _ENTRY.match(name)
    if match is None:
        return None
    time = from_descending(match.group(1), TIME_BITS)
    count = from_descending(match.group(3), COUNT_BITS)
    return EntryKey(time, match.group(2), count) if time is not None and count is not None else None


def name_before(time: int) -> str:
    """A name after those of all entries at or after ``time``, and before those of all that are older."""
    return NAME + descending(min(max(time - 1, 0), LAST_TIME), TIME_BITS)


def milliseconds(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def moment(time: int) -> datetime:
    """The inverse of ``milliseconds``."""
    return _EPOCH + timedelta(milliseconds=time)


def counts(time: int, modified: datetime, stale: int) -> bool:
    """Whether an entry named for ``time`` was written by a clock less than ``stale`` milliseconds from storage's.
    Everybody must judge alike, and a HEAD may tell only seconds, so the parts of a second are left out."""
    return abs(time - milliseconds(modified.replace(microsecond=0))) < stale


class EntryKeys:
    """The keys of one writer. Each is later than the one before, even if its clock goes back."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._session = ids()
        self._count = 0
        self.last: EntryKey | None = None
        """The last key given, unless it was taken back."""

    def next(self, now: int) -> EntryKey:
        """A key for ``now``, or for as little after it as the order demands."""
        if self._count >= 2**COUNT_BITS:
            self._session, self._count = self._ids(), 0
        earliest = -1
        if self.last is not None:
            # Two sessions at one time would be in the order of their names, which is none of the writer's.
            earliest = self.last.time if self.last.session == self._session else self.last.time + 1
        key = EntryKey(min(max(now, earliest, 0), LAST_TIME), self._session, self._count)
        self._count += 1
        self.last = key
        return key

    def back_to(self, last: EntryKey | None) -> None:
        """Forget the keys after ``last``, since what was written under them can never count."""
        self.last = last
