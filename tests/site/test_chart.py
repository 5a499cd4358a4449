"""Marks stand where the figures say, and every figure is in the table too."""

from __future__ import annotations

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
    drawn = made(chart.growth(found(1000, 3000)))
    per_byte = HEIGHT / 4000
    midnights = [bar for bar in drawn.bars if "00:00" in bar.said]
    assert [bar.height for bar in midnights] == [1000 * per_byte, 4000 * per_byte]
    assert drawn.rows[-1] == ("2026-01-02 00:00", "1", "10", "3.0 kB", "4.0 kB")
    assert "4.0 kB at last" in drawn.says


def test_a_bar_ends_at_the_base_line_and_inside_the_chart() -> None:
    for drawn in (made(chart.arrivals(found(*range(1, 40)))), made(chart.sizes(found(1, 10**6, 10**12)))):
        for bar in drawn.bars:
            assert bar.top + bar.height == pytest.approx(HEIGHT, abs=0.2)
            assert 0 <= bar.top <= HEIGHT
            assert bar.left >= 0
            assert bar.left + bar.width <= 100
        assert all(after.left > before.left for before, after in zip(drawn.bars, drawn.bars[1:], strict=False))


def test_what_is_small_beside_the_rest_can_still_be_seen() -> None:
    drawn = made(chart.growth(found(1, 10**12)))
    assert drawn.bars[0].height == 2


@pytest.mark.parametrize(
    ("most", "ticks"), [(1, ["0", "1"]), (4, ["0", "1", "2", "3", "4"]), (7, ["0", "2", "4", "6", "8"])]
)
def test_lines_are_round_numbers(most: int, ticks: list[str]) -> None:
    same_hour = tally(manifest("t", "s", files=[{}] * most).files)
    assert [tick.text for tick in made(chart.arrivals(same_hour)).ticks] == ticks


def test_the_table_has_each_figure_once() -> None:
    drawn = made(chart.sizes(found(1500, 1600, 10**6)))
    assert drawn.rows == (("1 kB to 2 kB", "2"), ("1 MB to 2 MB", "1"))
    assert len(drawn.columns) == 2


def test_labels_are_few_and_at_the_edges() -> None:
    labels = made(chart.arrivals(found(*[1] * 31))).labels
    assert len(labels) == 5
    assert (labels[0].left, labels[0].anchor, labels[-1].left, labels[-1].anchor) == (0, "start", 100, "end")


def test_there_is_no_chart_of_nothing() -> None:
    assert (chart.growth(Histograms()), chart.arrivals(Histograms()), chart.sizes(Histograms())) == (None, None, None)
