"""Whole processes, timed by the operating system's own accounting, two commands in turn so that drift cancels out."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launcher.py")


@dataclass(frozen=True)
class Command:
    """A command line with its files; ``setup`` runs before each time, uncounted."""

    argv: Sequence[str]
    stdin: Path | None = None
    stdout: Path | None = None
    env: dict[str, str] | None = None
    setup: Callable[[], None] | None = None


@dataclass(frozen=True)
class Measured:
    """Seconds of wall clock and processor, and the peak resident memory in MB, of one finished process."""

    wall: float
    cpu: float
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """One figure. ``value`` and ``against_value`` are medians in ``unit``; ``ratio`` is the median of the pairs.
    ``bound`` is what the ratio (or, without ``against``, the value) must reach: at most it, or at least it."""

    name: str
    value: float
    unit: str
    bound: float
    at_most: bool = True
    against: str = ""
    against_value: float | None = None
    ratio: float | None = None
    aim: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the figure keeps its bound."""
        figure = self.value if self.ratio is None else self.ratio
        return figure <= self.bound if self.at_most else figure >= self.bound


def run(command: Command) -> Measured:
    """Run a command once. Raises ``subprocess.CalledProcessError`` where it fails."""
    if command.setup:
        command.setup()
    reading, writing = os.pipe()
    with (
        open(reading, encoding="ascii") as told,
        open(command.stdin or os.devnull, "rb") as stdin,
        open(command.stdout or os.devnull, "wb") as stdout,
    ):
        launched = subprocess.Popen(
            [sys.executable, "-S", str(_LAUNCHER), str(writing), *command.argv],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(command.env or {})},
            pass_fds=(writing,),
        )
        os.close(writing)
        figures = told.read().split()
    code = launched.wait() or int(figures[3])
    if code:
        raise subprocess.CalledProcessError(code, list(command.argv))
    return Measured(wall=float(figures[0]), cpu=float(figures[1]), peak_mb=int(figures[2]) / 1024)


def paired(
    name: str,
    ours: Command,
    against: str,
    other: Command,
    *,
    bound: float,
    aim: float | None = None,
    faster: bool = False,
    processor: bool = False,
    runs: int = 5,
) -> Row:
    """The two commands in turn, ``runs`` times after one warm-up of each. The ratio is ours / other, at most
    ``bound``; with ``faster`` it is other / ours, at least ``bound``. ``processor``: of the time of the processor, of
    which a server's is no part."""

    def took(command: Command) -> float:
        measured = run(command)
        return measured.cpu if processor else measured.wall

    run(ours)
    run(other)
    pairs = [(took(ours), took(other)) for _ in range(runs)]
    ratios = [b / a if faster else a / b for a, b in pairs]
    return Row(
        name=name,
        value=statistics.median(a for a, _ in pairs),
        unit="s",
        against=against,
        against_value=statistics.median(b for _, b in pairs),
        ratio=statistics.median(ratios),
        bound=bound,
        aim=aim,
        at_most=not faster,
    )


def peak(name: str, command: Command, *, bound_mb: float, runs: int = 3) -> Row:
    """The largest peak memory of several runs."""
    return Row(name=name, value=max(run(command).peak_mb for _ in range(runs)), unit="MB", bound=bound_mb)
