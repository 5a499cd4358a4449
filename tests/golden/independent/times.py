"""The rest of the reader written from ``shared/docs/format`` alone: section 5.1, times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any


def moment(text: str) -> datetime | None:
    """What a text names; None where it names no moment."""
    if re.search(r"T\d\d(:?\d\d)?[.,]", text):
        return None
    try:
        text = re.sub(r"[.,](\d+)", lambda part: f".{part.group(1):0<6.6}", text)
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def may_hold(file: dict[str, Any], begin: datetime, end: datetime) -> bool:
    """Whether a file may hold a record of a span of time."""
    first, last = moment(file["first"]), moment(file["last"])
    if first is None or last is None or first > last:
        return True
    little = timedelta(microseconds=1)
    return first - little <= end and begin <= last + little
