"""Marks stand where the figures say, and every figure is in the table too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from singerlake.site import chart
from singerlake.site.chart import HEIGHT, Chart
from singerlake.site.totals import Histograms, tally
from tests.site.lakes import manifest


def found(*sizes: int) -> Histograms:
    given = [{"last": f"2026-01-{day:02}T00:00:00Z", "bytes": size} for day, size in enumerate(sizes, 1)]
    return tally(manifest("t", "s", files=given).files)


def made(figure: Chart | None) -> Chart:
    assert figure is not None
    return figure


def test_growth_adds_up() -> None:
    drawn = made(chart.growth(found(1000, 2000, 1000)))
    per_byte = HEIGHT / 4000
    midnights = [bar for bar in drawn.bars if "00:00" in bar.said]
    assert [bar.height for bar in midnights] == [1000 * per_byte, 3000 * per_byte, 4000 * per_byte]
    assert drawn.rows[-1] == ("2026-01-03 00:00", "1", "10", "1.0 kB", "4.0 kB")
    assert "4.0 kB at last" in drawn.says


def test_a_bar_ends_at_the_base_line_and_inside_the_chart() -> None:
    for drawn in (made(chart.arrivals(found(*range(1, 40)))), made(chart.growth(found(1, 10**6, 10**12)))):
        for bar in drawn.bars:
            assert bar.top + bar.height == pytest.approx(HEIGHT, abs=0.2)
            assert 0 <= bar.top <= HEIGHT
            assert bar.left >= 0
            assert bar.left + bar.width <= 100
        assert all(after.left > before.left for before, after in pairwise(drawn.bars))


def test_what_is_small_beside_the_rest_can_still_be_seen() -> None:
    drawn = made(chart.growth(found(1, 1, 10**12)))
    assert drawn.bars[0].height == 2


@pytest.mark.parametrize(
    ("most", "ticks"), [(1, ["0", "1"]), (4, ["0", "1", "2", "3", "4"]), (7, ["0", "2", "4", "6", "8"])]
)
def test_lines_are_round_numbers(most: int, ticks: list[str]) -> None:
    hours = ["2026-01-01T00:30:00Z"] * most + ["2026-01-01T01:30:00Z", "2026-01-01T02:30:00Z"]
    drawn = made(chart.arrivals(tally(manifest("t", "s", files=[{"last": hour} for hour in hours]).files)))
    assert [tick.text for tick in drawn.ticks] == ticks


def test_the_table_has_each_figure_once() -> None:
    drawn = made(chart.arrivals(found(1500, 1600, 10**6)))
    assert [row[1:] for row in drawn.rows] == [("1", "10", "1.5 kB"), ("1", "10", "1.6 kB"), ("1", "10", "1.0 MB")]
    assert len(drawn.columns) == 4


def test_labels_are_few_and_at_the_edges() -> None:
    labels = made(chart.arrivals(found(*[1] * 31))).labels
    assert len(labels) == 5
    assert (labels[0].left, labels[0].anchor, labels[-1].left, labels[-1].anchor) == (0, "start", 100, "end")


@pytest.mark.parametrize("days", range(2, 40))
def test_no_label_is_so_near_another_that_they_touch(days: int) -> None:
    at_edges = {"start": 0.0, "middle": 0.5, "end": 1.0}
    # Of 900 pixels the longest label takes 125.
    wide = 100 * 125 / 900
    spans = [
        (label.left - at_edges[label.anchor] * wide, label.left + (1 - at_edges[label.anchor]) * wide)
        for label in chart._labels(["week of 2026-01-05"] * days)
    ]
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize("draw", [chart.growth, chart.arrivals])
def test_there_is_no_chart_of_fewer_than_three_points(draw: Callable[[Histograms], Chart | None]) -> None:
    assert draw(Histograms()) is None
    far_apart = tally(manifest("t", "s", files=[{"last": f"20{year}-01-01T00:00:00Z"} for year in (20, 26, 26)]).files)
    assert draw(far_apart) is None, "three files of two points"
    assert draw(found(1, 2, 3)) is not None
