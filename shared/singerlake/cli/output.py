"""What commands write: text that no name can break out of, tables, progress, findings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from singerlake.maintenance.findings import Finding

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_ENDLESS = 100_000
_NARROWEST = 8


def shown(text: str) -> str:
    """``text`` with everything that is not printable, and so could move the cursor, colour or reorder the line,
    as a Python escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def size(count: int) -> str:
    """Bytes for the eye, in powers of 1,000."""
    amount, unit = float(count), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount /= 1000
        unit += 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit and amount < 99.95 else f"{amount:.0f} {_UNITS[unit]}"


def counted(count: int, noun: str) -> str:
    """``1 file``, ``1,234 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def say(line: str) -> None:
    """One line on standard output."""
    click.echo(line)


def say_json(value: Any) -> None:
    """One JSON document on standard output, in ASCII, which takes any name on any terminal."""
    click.echo(json.dumps(msgspec.to_builtins(value), indent=2))


def say_findings(findings: Iterable[Finding]) -> None:
    """One line for each finding."""
    for finding in findings:
        mark = "" if finding.problem else "note: "
        click.echo(f"{mark}{finding.kind}: {shown(finding.key)}: {shown(finding.message)}")


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as commands write it with ``--json``."""
    return asdict(finding)


@dataclass(frozen=True, slots=True)
class Column:
    """``number``: to the right. ``folds``: may take several lines on a terminal, so that others need not."""

    title: str
    number: bool = False
    folds: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, caption: str = "") -> None:
    """A table on standard output, which nothing cuts short where that is no terminal. Cells are taken literally."""
    terminal = sys.stdout.isatty()
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(
            column.title,
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=not (terminal and column.folds),
            min_width=min(_NARROWEST, len(column.title)) if terminal else None,
        )
    for row in rows:
        made.add_row(*(Text(shown(cell)) for cell in row))
    console = Console(file=sys.stdout, highlight=False, markup=False, width=None if terminal else _ENDLESS)
    with console.capture() as captured:
        console.print(made)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())
    if caption:
        click.echo(caption)


@dataclass(frozen=True, slots=True)
class Bar:
    """A task of the progress display: told how much there is to read, then how much was."""

    sized: Callable[[int], None]
    advance: Callable[[int], None]


@contextmanager
def progress() -> Iterator[Callable[[str], Bar]]:
    """A progress display on standard error while the block runs, if that is a terminal; makes a task for a label."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    seen = sys.stderr.isatty()
    display = Progress(*columns, console=Console(stderr=True), transient=True, disable=not seen)
    # Before rich 14.3 a display that is disabled ends with an empty line all the same.
    with display if seen else nullcontext():
        tasks: list[TaskID] = []

        def start(label: str) -> Bar:
            for task in tasks:
                display.update(task, visible=False)
            task = display.add_task(shown(label), total=None)
            tasks.append(task)
            return Bar(
                sized=lambda total: display.reset(task, total=total),
                advance=lambda count: display.advance(task, count),
            )

        yield start
