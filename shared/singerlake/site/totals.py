"""How much came when: a million files become a few dozen figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from singerlake.format.lines.times import known_span
from singerlake.format.state.files.data_file import DataFile

PERIODS = 60
"""Bars that a chart over time has at most; the eye cannot tell more apart on a telephone."""


@dataclass(frozen=True, slots=True)
class Amount:
    """``bytes`` are as stored."""

    files: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.records + other.records, self.bytes + other.bytes)


def _together(amounts: Iterable[Amount]) -> Amount:
    """All of them together."""
    files = records = stored = 0
    for each in amounts:
        files += each.files
        records += each.records
        stored += each.bytes
    return Amount(files, records, stored)


@dataclass(frozen=True, slots=True)
class Histograms:
    """``hours``: what came in each hour, UTC, by the time of each file's newest record. ``undated``: files whose time
    is unknown."""

    hours: Mapping[datetime, Amount] = field(default_factory=dict)
    undated: Amount = Amount()


@dataclass(frozen=True, slots=True)
class Period:
    """What came in one stretch of time, and (``total``) up to its end."""

    label: str
    came: Amount
    total: Amount


def tally(files: Iterable[DataFile]) -> Histograms:
    """One pass, without a new object for each file."""
    slots: dict[datetime | None, list[int]] = {}
    for file in files:
        span = known_span(file.first, file.last)
        hour = span[1].replace(minute=0, second=0, microsecond=0, tzinfo=None) if span else None
        slot = slots.setdefault(hour, [0, 0, 0])
        slot[0] += 1
        slot[1] += file.records
        slot[2] += file.bytes
    undated = Amount(*slots.pop(None, ()))
    return Histograms({hour: Amount(*amounts) for hour, amounts in slots.items() if hour}, undated)


def together(tallies: Iterable[Histograms]) -> Histograms:
    """Those of several streams as one."""
    hours: dict[datetime, list[Amount]] = {}
    undated: list[Amount] = []
    for each in tallies:
        for hour, amount in each.hours.items():
            hours.setdefault(hour, []).append(amount)
        undated.append(each.undated)
    return Histograms({hour: _together(amounts) for hour, amounts in hours.items()}, _together(undated))


@dataclass(frozen=True, slots=True)
class _Unit:
    """A length of time: ``number`` counts such stretches, ``label`` names the one of that number."""

    name: str
    number: Callable[[datetime], int]
    label: Callable[[int], str]


def _years(count: int) -> _Unit:
    def label(number: int) -> str:
        first = number * count
        return f"{first:04}" if count == 1 else f"{first:04}–{first + count - 1:04}"

    return _Unit(f"{count} years" if count > 1 else "year", lambda moment: moment.year // count, label)


def _hour_label(number: int) -> str:
    day, hour = divmod(number, 24)
    return f"{date.fromordinal(day)} {hour:02}:00"


_UNITS: Sequence[_Unit] = (
    _Unit("hour", lambda moment: moment.toordinal() * 24 + moment.hour, _hour_label),
    _Unit("day", lambda moment: moment.toordinal(), lambda number: str(date.fromordinal(number))),
    # Day 1 of the calendar that ``toordinal`` counts in is a Monday.
    _Unit(
        "week",
        lambda moment: (moment.toordinal() - 1) // 7,
        lambda number: f"week of {date.min + timedelta(days=number * 7)}",
    ),
    _Unit(
        "month",
        lambda moment: moment.year * 12 + moment.month - 1,
        lambda number: f"{number // 12:04}-{number % 12 + 1:02}",
    ),
    _Unit(
        "quarter",
        lambda moment: moment.year * 4 + (moment.month - 1) // 3,
        lambda number: f"{number // 4:04} Q{number % 4 + 1}",
    ),
    *(_years(count) for count in (1, 10, 100, 1000)),
)


def periods(histograms: Histograms) -> tuple[str, tuple[Period, ...]]:
    """The name of the shortest unit of time that needs at most ``PERIODS`` stretches for everything, and each stretch
    from the first to the last, empty ones too; nothing where no file has a time."""
    if not histograms.hours:
        return "", ()
    first, last = min(histograms.hours), max(histograms.hours)
    unit = next(unit for unit in _UNITS if unit.number(last) - unit.number(first) < PERIODS)
    parts: dict[int, list[Amount]] = {}
    for hour, amount in histograms.hours.items():
        parts.setdefault(unit.number(hour), []).append(amount)
    came = {number: _together(amounts) for number, amounts in parts.items()}
    made = []
    total = Amount()
    for number in range(unit.number(first), unit.number(last) + 1):
        amount = came.get(number, Amount())
        total += amount
        made.append(Period(unit.label(number), amount, total))
    return unit.name, tuple(made)
