"""A terminal: how wide it is, and one line of progress on it that leaves nothing behind."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from singerlake.clock import Clock, SystemClock
from singerlake.humanize import cell_width, clock_time, cut, shown, size

_COLUMNS = 80
"""Of a terminal that does not say it."""
_DRAWN_EVERY = 0.1
_RATE_OVER = 10.0
"""Seconds over which the rate is taken: what went before says little about what is left."""
_LONGEST_BAR, _SHORTEST_BAR = 30, 5
_FULL, _EMPTY = "━", "─"
_COLOUR, _PLAIN = "\x1b[36m", "\x1b[0m"


def terminal_columns(stream: TextIO) -> int:
    """How many characters a line of this terminal has: what ``$COLUMNS`` says, or the terminal itself."""
    try:
        own = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        own = 0
    said = os.environ.get("COLUMNS", "")
    return (int(said) if said.isdecimal() else 0) or own or _COLUMNS


class Bar:
    """What is worked on, how much of it is done, how quickly, and how long the rest takes, on one line. It is drawn
    again and again by a thread of its own, so that it moves while a method is silent. Call ``clear`` before something
    else is written to the same terminal: the line is gone until it is drawn again. ``note`` may say more."""

    note = ""

    def __init__(self, stream: TextIO, unit: str, clock: Clock) -> None:
        self._stream = stream
        self._unit = unit
        self._clock = clock
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._drawn = 0
        self._cleared = -_DRAWN_EVERY
        self._began = 0.0
        self._name: str | None = None
        self._done = 0
        self._total: int | None = None
        self._marks: deque[tuple[float, int]] = deque()
        self._drawing = threading.Thread(target=self._draw_until_the_end, name="progress", daemon=True)

    def show(self, name: str, done: int, total: int | None) -> None:
        """The ``Report`` of a method: another name begins another work, of which nothing is known yet."""
        with self._lock:
            now = self._clock.monotonic()
            if name != self._name or done < self._done:
                self._began = now
                self._marks.clear()
            first, sized = self._name is None, total != self._total
            self._name, self._done, self._total = name, done, total
            self._marks.append((now, done))
            while len(self._marks) > 2 and self._marks[1][0] < now - _RATE_OVER:
                self._marks.popleft()
        if first or sized:
            self._draw()
        if first:
            self._drawing.start()

    def clear(self) -> None:
        """Take the line away, long enough for somebody else's line to be written."""
        with self._lock:
            self._cleared = self._clock.monotonic()
            if self._drawn:
                self._stream.write("\r" + " " * self._drawn + "\r")
                self._stream.flush()
                self._drawn = 0

    def end(self) -> None:
        """Take the line away for good."""
        self._ended.set()
        if self._name is not None:
            self._drawing.join()
        self.clear()

    def _draw_until_the_end(self) -> None:
        while not self._ended.wait(_DRAWN_EVERY):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            if self._clock.monotonic() < self._cleared + _DRAWN_EVERY:
                return
            # One column stays free: some terminals begin a new line when the last one is written to.
            plain, coloured = self._line(terminal_columns(self._stream) - 1)
            width = cell_width(plain)
            # Behind it the cursor is at the line's beginning, where another program's next line overwrites it.
            self._stream.write("\r" + coloured + " " * (self._drawn - width) + "\r")
            self._stream.flush()
            self._drawn = width

    def _line(self, columns: int) -> tuple[str, str]:
        """The line, with and without colours: as much of it as there is room for."""
        name = cut(shown(self._name or ""), max(columns // 3, 1))
        plain, coloured = name, name
        length = min(_LONGEST_BAR, columns // 4)
        if self._total and length >= _SHORTEST_BAR:
            full, empty = self._bar_of(length, self._total)
            plain += f"  {full}{empty}"
            colours = os.name != "nt" and not os.environ.get("NO_COLOR")
            coloured += f"  {_COLOUR}{full}{_PLAIN}{empty}" if colours else f"  {full}{empty}"
        for part in self._figures(self._clock.monotonic()):
            if cell_width(plain) + 2 + cell_width(part) <= columns:
                plain += f"  {part}"
                coloured += f"  {part}"
        return plain, coloured

    def _bar_of(self, length: int, total: int) -> tuple[str, str]:
        done = min(length, length * self._done // total)
        try:
            (_FULL + _EMPTY).encode(self._stream.encoding or "ascii")
        except UnicodeEncodeError:
            return "#" * done, "-" * (length - done)
        return _FULL * done, _EMPTY * (length - done)

    def _figures(self, now: float) -> Iterator[str]:
        done, unit = self._counted(self._done), "" if self._unit == "bytes" else f" {self._unit}".rstrip()
        yield f"{done}{unit}" if self._total is None else f"{done} of {self._counted(self._total)}{unit}"
        if self.note:
            yield self.note
        at, then = self._marks[0]
        gone = now - at
        rate = (self._done - then) / gone if gone >= 1 else 0.0
        if rate:
            yield f"{self._counted(rate) if self._unit == 'bytes' else f'{rate:,.1f}'}/s"
        if rate and self._total is not None:
            yield f"{clock_time(max(self._total - self._done, 0) / rate)} left"
        else:
            yield clock_time(now - self._began)

    def _counted(self, count: float) -> str:
        return size(int(count)) if self._unit == "bytes" else f"{count:,.0f}"


@contextmanager
def bar(stream: TextIO, unit: str = "bytes") -> Iterator[Bar | None]:
    """A bar on this stream while the block runs, counted in ``unit``; None where it is not a terminal that can show
    one. Log lines take it away before they are written."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    made = Bar(stream, unit, SystemClock())
    handlers = list(logging.root.handlers)
    for handler in handlers:
        handler.addFilter(_before_a_line)
    _bars.append(made)
    try:
        yield made
    finally:
        _bars.remove(made)
        made.end()
        for handler in handlers:
            handler.removeFilter(_before_a_line)


_bars: list[Bar] = []


def clear_bars() -> None:
    """Before something else is written to the terminal: take away what is drawn on it."""
    for each in _bars:
        each.clear()


def _before_a_line(record: logging.LogRecord) -> bool:
    del record
    clear_bars()
    return True
