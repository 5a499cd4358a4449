"""Where the marks of a bar chart stand. Pure: pixels upwards, percent of the width sideways, so that a chart fills any
page and its text keeps its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from singerlake.humanize import counted, size
from singerlake.site.totals import Amount, Histograms, Period, periods

HEIGHT = 180
"""Pixels from the base line to the top of the tallest bar there may be."""
_POINTS = 3
"""Periods with files that a chart needs; fewer are quicker to read as text."""
_TICKS = 4
_LABELS = 5
_APART = 21
"""Percent of the width between two labels, at the least: the longest take about 14."""
_GAP = 0.18
"""Of a bar's place that stays empty."""
_LEAST = 2.0
"""Pixels of a bar that is not quite nothing."""


@dataclass(frozen=True, slots=True)
class Bar:
    """``left`` and ``width`` in percent, ``top`` and ``height`` in pixels; ``said`` is what it stands for."""

    left: float
    width: float
    top: float
    height: float
    said: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across the chart at ``top`` pixels."""

    top: float
    text: str


@dataclass(frozen=True, slots=True)
class Label:
    """A word below the bars: ``middle``, or at the edge ``start`` or ``end``, is at ``left`` percent. ``narrow``: it
    has room on a telephone, too."""

    left: float
    anchor: str
    text: str
    narrow: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """``says`` is the chart in words. ``columns`` and ``rows`` are the same figures as a table, empty rows left out."""

    id: str
    title: str
    says: str
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    labels: tuple[Label, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    height: int = HEIGHT


def growth(histograms: Histograms) -> Chart | None:
    """Bytes that were there at the end of each period; None where files came in fewer than three."""
    unit, made = periods(histograms)
    if not _is_worth_drawing(made):
        return None
    bars, ticks = _bars(
        [(period.total.bytes, f"{period.label}: {size(period.total.bytes)}") for period in made], _round
    )
    return Chart(
        id="growth",
        title="Growth",
        says=f"Stored bytes at the end of each {unit}: {size(made[0].total.bytes)} at first ({made[0].label}), "
        f"{size(made[-1].total.bytes)} at last ({made[-1].label}).",
        bars=bars,
        ticks=ticks,
        labels=_labels([period.label for period in made]),
        columns=(unit.capitalize(), "Files", "Records", "Bytes", "Bytes in all"),
        rows=tuple(
            (period.label, *_cells(period.came), size(period.total.bytes)) for period in made if period.came.files
        ),
    )


def arrivals(histograms: Histograms) -> Chart | None:
    """Files of each period; None where files came in fewer than three."""
    unit, made = periods(histograms)
    if not _is_worth_drawing(made):
        return None
    top = max(made, key=lambda period: period.came.files)
    bars, ticks = _bars(
        [
            (period.came.files, f"{period.label}: {counted(period.came.files, 'file')}, {size(period.came.bytes)}")
            for period in made
        ],
        lambda count: f"{count:,}",
    )
    return Chart(
        id="arrivals",
        title="Files over time",
        says=f"Files of each {unit} from {made[0].label} to {made[-1].label}; the most, {top.came.files:,}, "
        f"in {top.label}.",
        bars=bars,
        ticks=ticks,
        labels=_labels([period.label for period in made]),
        columns=(unit.capitalize(), "Files", "Records", "Bytes"),
        rows=tuple((period.label, *_cells(period.came)) for period in made if period.came.files),
    )


def _is_worth_drawing(made: Sequence[Period]) -> bool:
    return sum(bool(period.came.files) for period in made) >= _POINTS


def _round(count: int) -> str:
    """A round number of bytes without the digit that says that it is round."""
    return size(count).replace(".0 ", " ")


def _cells(amount: Amount) -> tuple[str, str, str]:
    return f"{amount.files:,}", f"{amount.records:,}", size(amount.bytes)


def _bars(values: Sequence[tuple[int, str]], written: Callable[[int], str]) -> tuple[tuple[Bar, ...], tuple[Tick, ...]]:
    step = _step(max(value for value, _ in values))
    most = max(1, max(value for value, _ in values))
    lines = -(-most // step)
    scale = HEIGHT / (lines * step)
    place = 100 / len(values)
    # A single period is not a wall of colour.
    width = min(place * (1 - _GAP), 12.0)
    bars = []
    for number, (value, said) in enumerate(values):
        height = max(_LEAST, value * scale) if value else 0.0
        left = number * place + (place - width) / 2
        bars.append(Bar(round(left, 3), round(width, 3), round(HEIGHT - height, 1), round(height, 1), said))
    ticks = (Tick(round(HEIGHT - line * step * scale, 1), written(line * step)) for line in range(lines + 1))
    return tuple(bars), tuple(ticks)


def _step(most: int) -> int:
    """The smallest round number (1, 2 or 5 and zeros) that fits into ``most`` at most ``_TICKS`` times."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power * _TICKS >= most:
                return digit * power
        power *= 10


def _labels(texts: Sequence[str]) -> tuple[Label, ...]:
    """A few words, evenly spaced, the first and the last among them; on a telephone these two alone."""
    place, last = 100 / len(texts), len(texts) - 1
    numbers, edges = list(range(last + 1)), {}
    if last >= _LABELS:
        steps = next(n for n in range(_LABELS - 1, 0, -1) if last // n * place >= _APART or n == 1)
        numbers = [round(n * last / steps) for n in range(steps + 1)]
        edges = {0: (0.0, "start"), last: (100.0, "end")}
    return tuple(
        Label(*edges.get(n, (round((n + 0.5) * place, 2), "middle")), texts[n], narrow=n in (0, last)) for n in numbers
    )
