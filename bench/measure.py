"""Whole processes, timed by the operating system's own accounting, two commands in turn so that drift cancels out."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


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
    """Run a command once. Raises ``subprocess.CalledProcessError`` with the end of its stderr."""
    if command.setup:
        command.setup()
    with (
        open(command.stdin or os.devnull, "rb") as stdin,
        open(command.stdout or os.devnull, "wb") as stdout,
        open(os.devnull, "wb") as devnull,
    ):
        env = {**os.environ, **(command.env or {})}
        started = time.perf_counter()
        process = subprocess.Popen(list(command.argv), stdin=stdin, stdout=stdout, stderr=devnull, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command.argv))
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def paired(
    name: str,
    ours: Command,
    against: str,
    other: Command,
    *,
    bound: float,
    aim: float | None = None,
    faster: bool = False,
    runs: int = 5,
) -> Row:
    """The two commands in turn, ``runs`` times after one warm-up of each. The ratio is ours / other, at most
    ``bound``; with ``faster`` it is other / ours, at least ``bound``."""
    run(ours)
    run(other)
    pairs = [(run(ours).wall, run(other).wall) for _ in range(runs)]
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
