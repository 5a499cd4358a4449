"""The span of time of a file's records: the earliest and the latest ``time_extracted``, which readers prune by.

Whatever a reader can take for a time has to lie within; what lies within for nothing costs an opened file.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from singerlake.clock import parse_timestamp

Span: TypeAlias = tuple[datetime, datetime]
"""The earliest and the latest moment, both in UTC."""

_EARLIEST = datetime.min.replace(tzinfo=UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)
_BEYOND = {"0000": _EARLIEST, "0001-01-01": _EARLIEST, "9999-12-31": _LATEST}
"""How texts begin that may name a moment outside of what a ``datetime`` holds, and the nearest that it does."""


def span(times: Sequence[Any]) -> Span | None:
    """The span of ``time_extracted`` values, texts or already decoded; None if no value is a time."""
    try:
        # Times of one kind, mostly in order already: by far the commonest case, and the sort is one pass then.
        ordered = sorted(msgspec.convert(times, list[datetime]) if isinstance(times[0], str) else times)
        if isinstance(ordered[0], datetime):
            return _utc(ordered[0]), _utc(ordered[-1])
    except (TypeError, OverflowError, IndexError, msgspec.ValidationError, UnicodeEncodeError):
        pass
    moments = [moment for moment in map(_moment, times) if moment is not None]
    return (min(moments), max(moments)) if moments else None


def known_span(first: str, last: str) -> Span | None:
    """What a listed file's ``first`` and ``last`` say of its records' times; None where they say nothing, so that no
    record may be left out by them: one of the two names no moment, or the first is later than the last."""
    earliest = parse_timestamp(first)
    latest = earliest if last == first else parse_timestamp(last)
    return (earliest, latest) if earliest and latest and earliest <= latest else None


def joined(one: Span | None, other: Span | None) -> Span | None:
    """The span of both."""
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = msgspec.convert(value, datetime)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return parse_timestamp(value) or _beyond(value)
    if not isinstance(value, datetime):
        return None
    try:
        return _utc(value)
    except OverflowError:
        return _EARLIEST if value.year == 1 else _LATEST


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)


def _beyond(text: str) -> datetime | None:
    return next((moment for start, moment in _BEYOND.items() if text.startswith(start)), None)
