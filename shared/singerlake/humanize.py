"""Names, sizes and counts as people read them, on a terminal and on a page. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SPANS = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))


def shown(text: str) -> str:
    """``text`` with what is not printable, which could move the cursor or reorder the line, as a Python escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def size(count: int) -> str:
    """Bytes for the eye, in powers of 1,000."""
    amount, unit = float(count), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount /= 1000
        unit += 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit and amount < 99.95 else f"{amount:.0f} {_UNITS[unit]}"


def minute(moment: datetime) -> str:
    """``2026-01-01 03:00``, in UTC. A year has four digits, which ``%Y`` does not give it with every C library."""
    return _utc(moment).isoformat(" ", "minutes")


def second(moment: datetime) -> str:
    """``2026-01-01 03:00:00``, in UTC."""
    return _utc(moment).isoformat(" ", "seconds")


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)


def counted(count: int, noun: str) -> str:
    """``1 file``, ``1,234 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def cut(text: str, most: int) -> str:
    """``text`` with at most ``most`` characters, the last of them an ellipsis where some are left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def cell_width(text: str) -> int:
    """How many columns of a terminal ``text`` takes: characters of East Asia take two, and combining marks none."""
    if text.isascii():
        return len(text)
    # Errors are imported by whatever Spark starts, and few of them have such names.
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def clock_time(seconds: float) -> str:
    """``0:09``, ``12:34``, ``1:02:03``."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def lasting(span: timedelta) -> str:
    """``3 days``: a span in the largest unit that fits."""
    seconds = int(span.total_seconds())
    for length, name in _SPANS:
        if seconds >= length:
            return counted(seconds // length, name)
    return "less than a minute"


def checks_in_short(checks: int, failing: int) -> str:
    """How a table's checks stand: ``3 held``, ``1 row failed``; nothing where there are none."""
    if failing:
        return f"{counted(failing, 'row')} failed"
    return f"{checks:,} held" if checks else ""
