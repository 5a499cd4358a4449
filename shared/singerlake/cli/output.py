"""What commands write: text that no name can break out of, tables, progress, findings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Display
from rich.table import Table
from rich.text import Text

from singerlake.errors import SingerlakeError
from singerlake.humanize import checks_in_short as checks_in_short
from singerlake.humanize import counted as counted
from singerlake.humanize import minute as minute
from singerlake.humanize import second as second
from singerlake.humanize import shown as shown
from singerlake.humanize import size as size
from singerlake.upkeep.result import NONE, Finding, Report, Tally

UNTIL_COLLECTED = "until 'singerlake gc --delete' has run twice, a grace time apart"
_SHOWN = 20
"""Lines of a list of keys; ``--json`` has all."""
_ENDLESS = 100_000
_NARROWEST = 8


_QUIET = f"{__name__}.quiet"
_JSON = f"{__name__}.json"


def be_quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Of ``--quiet``: keep reports, notes and progress to oneself while this command runs."""
    del param
    ctx.meta[_QUIET] = value


def is_quiet() -> bool:
    """Whether the command that runs was told to be quiet."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(_QUIET))


def write_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    """Of ``--json``: an error that ends the command is a JSON document, too."""
    del param
    ctx.meta[_JSON] = value
    return value


def say_error(ctx: click.Context, error: SingerlakeError) -> None:
    """What ended a command: a line on standard error, and on standard output ``{"error": ...}`` with ``--json``."""
    click.echo(f"error: {shown(str(error))}", err=True)
    if ctx.meta.get(_JSON):
        say_json({"error": error})


def say(line: str, *, problem: bool = False) -> None:
    """One line on standard output; a quiet command says only what is a ``problem``."""
    if problem or not is_quiet():
        click.echo(line)


def say_json(value: Any) -> None:
    """One JSON document on standard output, in ASCII, which takes any name on any terminal."""
    click.echo(json.dumps(json_of(value), indent=2))


def say_json_line(value: Any) -> None:
    """One of several JSON documents on standard output, each a line."""
    click.echo(json.dumps(json_of(value)))


def json_of(value: Any) -> Any:
    """A result as commands write it with ``--json``: its fields in their order, but for those that are ``FOR_PYTHON``.
    Of an error the ``kind`` stays as it is when messages change."""
    if isinstance(value, SingerlakeError):
        context = {key: str(each) for key, each in value.context.items()}
        return {"kind": value.kind, "message": value.message, "hint": value.hint, "context": context}
    if is_dataclass(value):
        shown = (field.name for field in fields(value) if field.metadata.get("json", True))
        return {name: json_of(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {key: json_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(each) for each in value]
    return msgspec.to_builtins(value)


def say_findings(findings: Iterable[Finding]) -> None:
    """One line for each finding."""
    for finding in findings:
        mark = "" if finding.problem else "note: "
        say(f"{mark}{finding.kind}: {shown(finding.key)}: {shown(finding.message)}", problem=finding.problem)


def first_of(keys: Iterable[str], indent: str = "  ") -> Iterator[str]:
    """A line for each of the first keys, and one that says how many more there are."""
    left = iter(keys)
    for key in islice(left, _SHOWN):
        yield f"{indent}{shown(key)}"
    if more := sum(1 for _ in left):
        yield f"{indent}and {more:,} more, which --json names"


def files(all: Tally, attached: Tally = NONE) -> str:
    """``3 files (1.2 kB) and 1 attached file (4.5 MB)``; ``attached`` are those among ``all``."""
    data = Tally(all.files - attached.files, all.bytes - attached.bytes)
    parts = [_files(data, "file")] if data.files or not attached.files else []
    return " and ".join([*parts, *([_files(attached, "attached file")] if attached.files else [])])


def _files(count: Tally, noun: str) -> str:
    return f"{counted(count.files, noun)} ({size(count.bytes)})"


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


class _DoneColumn(ProgressColumn):
    """How much of a task is done: bytes as such, everything else by its number."""

    _bytes = DownloadColumn()

    def render(self, task: Task) -> Text:
        if task.fields["unit"] == "bytes":
            return self._bytes.render(task)
        total = "?" if task.total is None else f"{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}/{total}", style="progress.download")


@contextmanager
def progress(unit: str = "bytes") -> Iterator[Report | None]:
    """What a method takes as its ``progress`` while the block runs: a display on standard error of what is worked on,
    counted in ``unit``. None where that is no terminal or the command is quiet."""
    if not sys.stderr.isatty() or is_quiet():
        # Before rich 14.3 a display that is disabled ends with an empty line all the same.
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _DoneColumn(),
        TimeRemainingColumn(),
    )
    with Display(*columns, console=Console(stderr=True), transient=True) as display:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                while tasks:
                    display.remove_task(tasks.popitem()[1])
                tasks[name] = display.add_task(shown(name), total=None, unit=unit)
            display.update(tasks[name], completed=done, total=total)

        yield report
