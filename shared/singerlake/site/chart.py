"""Where the marks of a bar chart stand. Pure: pixels upwards, percent of the width sideways, so that a chart fills any
page and its text keeps its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from singerlake.humanize import counted, size
from singerlake.site.totals import Amount, Histograms, periods, ranges

HEIGHT = 180
"""Pixels from the base line to the top of the tallest bar there may be."""
_TICKS = 4
_LABELS = 5
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
    """Bytes that were there at the end of each period; None where there is nothing to draw."""
    unit, made = periods(histograms)
    if not made:
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
    """Files of each period; None where there is nothing to draw."""
    unit, made = periods(histograms)
    if not made:
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


def sizes(histograms: Histograms) -> Chart | None:
    """Files of each range of sizes; None where there is nothing to draw."""
    made = ranges(histograms)
    if not made:
        return None
    top = max(made, key=lambda each: each.files)
    bars, ticks = _bars(
        [(each.files, f"{each.label}: {counted(each.files, 'file')}") for each in made], lambda count: f"{count:,}"
    )
    return Chart(
        id="sizes",
        title="Sizes of files",
        says=f"Files by their stored size; most are of {top.label}.",
        bars=bars,
        ticks=ticks,
        labels=_labels([_round(each.low) for each in made]),
        columns=("Size", "Files"),
        rows=tuple((each.label, f"{each.files:,}") for each in made if each.files),
    )


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
    """A few words, evenly spaced, the first and the last among them where there is room."""
    place = 100 / len(texts)
    if len(texts) <= _LABELS:
        return tuple(Label(round((n + 0.5) * place, 2), "middle", text) for n, text in enumerate(texts))
    numbers = sorted({round(n * (len(texts) - 1) / (_LABELS - 1)) for n in range(_LABELS)})
    anchors = {0: "start", len(texts) - 1: "end"}
    edges = {0: 0.0, len(texts) - 1: 100.0}
    return tuple(
        Label(edges.get(n, round((n + 0.5) * place, 2)), anchors.get(n, "middle"), texts[n], narrow=not odd % 2)
        for odd, n in enumerate(numbers)
    )
