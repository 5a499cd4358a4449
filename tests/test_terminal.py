"""One line of progress on a terminal."""

from __future__ import annotations

import io
import logging
import re

import pytest

from singerlake.humanize import cell_width, clock_time
from singerlake.terminal import Bar, bar, clear_bars, terminal_columns
from tests.cli.terminals import screen
from tests.fakes import FakeClock


class Screen(io.StringIO):
    """A terminal that is a text; ``shown`` is its last line, as it is to be seen."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        return "".join(screen(self.getvalue().rpartition("\n")[2]))


@pytest.fixture(autouse=True)
def _a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")


def drawn(screen: Screen, clock: FakeClock, unit: str = "bytes") -> Bar:
    """A bar that only the test draws."""
    made = Bar(screen, unit, clock)
    made._drawing.run = lambda: None  # type: ignore[method-assign]
    return made


def test_a_bar_shows_how_much_how_quickly_and_what_is_left() -> None:
    screen, clock = Screen(), FakeClock()
    made = drawn(screen, clock)
    made.show("shop/orders", 0, None)
    assert screen.shown == "shop/orders  0 B  0:00"
    made.show("shop/orders", 0, 100_000_000)
    assert screen.shown == f"shop/orders  {'─' * 19}  0 B of 100 MB  0:00"
    clock.seconds = 5
    made.show("shop/orders", 20_000_000, 100_000_000)
    made._draw()
    assert screen.shown == f"shop/orders  {'━' * 3}{'─' * 16}  20.0 MB of 100 MB  4.0 MB/s  0:20 left"
    clock.seconds = 7
    made._draw()
    assert screen.shown.endswith("2.9 MB/s  0:28 left")
    made.end()
    assert screen.shown == ""


def test_another_work_begins_anew() -> None:
    screen, clock = Screen(), FakeClock()
    made = drawn(screen, clock, "streams")
    made.show("first", 10, 20)
    clock.seconds = 9
    made.show("second", 0, 30)
    assert screen.shown == f"second  {'─' * 19}  0 of 30 streams  0:00"
    made.show("second", 1, 40)
    assert "1 of 40 streams" in screen.shown
    clock.seconds = 13
    made.show("second", 9, 40)
    made._draw()
    assert screen.shown.endswith("9 of 40 streams  2.2/s  0:13 left")


def test_the_rate_is_that_of_the_last_seconds() -> None:
    screen, clock = Screen(), FakeClock()
    made = drawn(screen, clock)
    for second in range(101):
        clock.seconds = second
        made.show("s", 1_000_000 * min(second, 50) + 2_000 * max(second - 50, 0), 100_000_000)
    made._draw()
    assert "2.0 kB/s" in screen.shown


@pytest.mark.parametrize("columns", [1, 10, 20, 40, 60, 80, 200])
def test_a_line_fits_every_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen, clock = Screen(), FakeClock()
    made = drawn(screen, clock)
    made.show("a-very-long-name-of-a-tap/人々" * 3, 5_000_000, 9_000_000)
    clock.seconds = 20
    made.note = "12 records"
    made.show("a-very-long-name-of-a-tap/人々" * 3, 6_000_000, 9_000_000)
    made._draw()
    assert cell_width(screen.shown) <= max(columns - 1, 1)


def test_a_name_moves_no_cursor() -> None:
    screen = Screen()
    drawn(screen, FakeClock()).show("\x1b[2J\n", 1, None)
    assert screen.getvalue() == "\r\\x1b[2J\\n  1 B  0:00\r"


def test_a_bar_makes_room_for_a_line_and_comes_back() -> None:
    screen, clock = Screen(), FakeClock()
    made = drawn(screen, clock)
    made.show("s", 1, None)
    made.clear()
    assert screen.shown == ""
    made._draw()
    assert screen.shown == ""
    clock.seconds += 0.1
    made._draw()
    assert screen.shown.startswith("s  1 B")


def test_log_lines_and_results_stand_on_lines_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    screen = Screen()
    logger, handler = logging.getLogger("a.library"), logging.StreamHandler(screen)
    logging.root.addHandler(handler)
    try:
        with bar(screen) as made:
            assert made is not None
            made.show("shop/orders", 1, None)
            logger.warning("a line of a log")
            clear_bars()
            screen.write("a result\n")
        assert handler.filters == []
    finally:
        logging.root.removeHandler(handler)
    assert re.findall(r"\r {22}\r(?=a )", screen.getvalue())
    assert screen.getvalue().startswith("\rshop/orders  1 B  0:00\r\r" + " " * 22 + "\ra line of a log\n")
    assert "a result\n" in screen.getvalue()
    assert screen.shown == ""


def test_a_bar_moves_by_itself() -> None:
    screen = Screen()
    with bar(screen) as made:
        assert made is not None
        made.show("s", 1, None)
        made._drawing.join(timeout=0.35)
        assert screen.getvalue().count("s  1 B") > 1
    assert not made._drawing.is_alive()


def test_what_cannot_show_a_bar_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with bar(io.StringIO()) as made:
        assert made is None
    monkeypatch.setenv("TERM", "dumb")
    with bar(Screen()) as made:
        assert made is None


def test_colours_and_characters_are_those_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    def written(encoding: str) -> str:
        screen = Screen()
        screen.encoding = encoding  # type: ignore[assignment]
        drawn(screen, FakeClock()).show("s", 1, 2)
        return screen.getvalue()

    assert f"\x1b[36m{'━' * 9}\x1b[0m{'─' * 10}" in written("utf-8")
    assert f"\x1b[36m{'#' * 9}\x1b[0m{'-' * 10}" in written("ascii")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in written("utf-8")


def test_how_wide_a_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_columns(Screen()) == 80
    monkeypatch.setenv("COLUMNS", "132")
    assert terminal_columns(Screen()) == 132
    for unset in ("", "wide", "0"):
        monkeypatch.setenv("COLUMNS", unset)
        assert terminal_columns(Screen()) == 80


def test_how_wide_a_text_is() -> None:
    assert [cell_width(text) for text in ("", "abc", "人々", "e\u0301", "é")] == [0, 3, 4, 1, 1]


def test_how_long_something_takes() -> None:
    assert [clock_time(seconds) for seconds in (0, 9.9, 754, 3723)] == ["0:00", "0:09", "12:34", "1:02:03"]
