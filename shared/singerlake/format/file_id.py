"""Identities of data files, which say roughly when they were made: the files of one time are found together."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
_MARK = "w"
"""No digit, so that no id that is all random begins with it."""
_TICK = 128
"""Seconds that one step of an id's time takes: five digits of them last until the year 2106."""
_PLACES = 5
_RANDOM = 10
_TIMED = re.compile(rf"{_MARK}[0-9a-v]{{15}}\Z", re.ASCII)


def timed_id(moment: datetime, random: str) -> str:
    """A file's id: ``w``, five digits of base32hex for ``moment``, and the last ten of ``random``, 50 bits."""
    ticks = int(moment.timestamp()) // _TICK % len(_DIGITS) ** _PLACES
    time = "".join(_DIGITS[ticks >> 5 * place & 31] for place in reversed(range(_PLACES)))
    return f"{_MARK}{time}{random[-_RANDOM:]:0>{_RANDOM}}"


def is_timed(id: str) -> bool:
    """Whether an id is one that says when it was made. Among these the text's order is that of the times."""
    return _TIMED.match(id) is not None


def made_by(id: str) -> datetime:
    """The end of the 128 seconds in which a timed id was made."""
    return datetime.fromtimestamp((int(id[1 : 1 + _PLACES], len(_DIGITS)) + 1) * _TICK, UTC)
