"""What commands write: text that no name can break out of, tables, progress, findings."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from singerlake.errors import SingerlakeError
from singerlake.humanize import cell_width
from singerlake.humanize import checks_in_short as checks_in_short
from singerlake.humanize import counted as counted
from singerlake.humanize import minute as minute
from singerlake.humanize import second as second
from singerlake.humanize import shown as shown
from singerlake.humanize import size as size
from singerlake.terminal import bar, clear_bars, terminal_columns
from singerlake.upkeep.result import NONE, Finding, Report, Tally

UNTIL_COLLECTED = "until 'singerlake gc --delete' has run twice, a grace time apart"
_SHOWN = 20
"""Lines of a list of keys; ``--json`` has all."""
_GAP = "  "
_INDENT = "    "
_LINES = 3
"""Lines that a row of a table may take, the second and third of which are indented."""
SEE_BELOW = "! see below"
"""Stands in a table where a row has no values, and ``say_troubles`` says why."""

Result = TypeVar("Result")


def note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Of a flag that ``is_asked`` looks for while this command runs."""
    ctx.meta[f"{__name__}.{param.name}"] = value


def is_asked(flag: str) -> bool:
    """Whether the command that runs was given ``--quiet`` or ``--json``."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(f"{__name__}.{flag}"))


def say_error(error: SingerlakeError) -> None:
    """What ended a command: a line on standard error, and on standard output ``{"error": ...}`` with ``--json``."""
    click.echo(f"error: {shown(str(error))}", err=True)
    if is_asked("json"):
        say_json({"error": error})


def show(result: Result, tell: Callable[[Result], object]) -> None:
    """What a command gives: as JSON with ``--json``, and otherwise as ``tell`` says it."""
    if is_asked("json"):
        say_json(result)
    else:
        tell(result)


def say(*lines: str, problem: bool = False) -> None:
    """Lines on standard output; a quiet command says only what is a ``problem``."""
    if problem or not is_asked("quiet"):
        for line in lines:
            clear_bars()
            click.echo(line)


def name_of(one: Any) -> str:
    """What a line about a table or a stream of a result begins with."""
    return shown(one.table) if hasattr(one, "table") else f"{shown(one.tap)}/{shown(one.stream)}"


def count_streams(streams: Sequence[Any]) -> str:
    """``2 streams, 1 dropped``: one that was dropped counts for itself, in all commands."""
    dropped = sum(each.dropped for each in streams)
    return counted(len(streams) - dropped, "stream") + (f", {dropped:,} dropped" if dropped else "")


def lake_named(url: str) -> str:
    """A lake in the working folder by its path from there, as people name it; any other by its URL."""
    try:
        return shown(str(Path(url).relative_to(Path.cwd())))
    except (ValueError, OSError):
        return shown(url)


def say_failure(one: Any, what: str) -> None:
    """That ``what`` is how far a stream got, and its error."""
    say(f"{name_of(one)}: {what}: {shown(str(one.error))}", problem=True)


def say_json(value: Any) -> None:
    """One JSON document on standard output, in ASCII, which takes any name on any terminal."""
    click.echo(json.dumps(json_of(value), indent=2))


def say_json_line(value: Any) -> None:
    """One of several JSON documents on standard output, each a line."""
    clear_bars()
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
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no number for it.
        return None
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


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> None:
    """A table on standard output, with a title for each of ``columns``; one that begins with ``>`` is of numbers, which
    stand to the right. On a terminal that is too narrow for it each row takes two lines or three, or else a line for
    each field that has a value. Nothing is ever cut: elsewhere a table is as wide as it needs. A quiet command has no
    tables."""
    if is_asked("quiet"):
        return
    titles = [column.removeprefix(">") for column in columns]
    cells = [[shown(cell) for cell in row] for row in rows]
    widths = [max(cell_width(row[at]) for row in (titles, *cells)) for at in range(len(columns))]
    lines = [range(len(columns))]
    if sys.stdout.isatty():
        lines = _folded(widths, terminal_columns(sys.stdout))
    if len(lines) > _LINES:
        _say_records(titles, cells)
    else:
        for place, row in enumerate((titles, *cells)):
            padded = [_padded(*each) for each in zip(row, widths, columns, strict=True)]
            for begins, line in zip(("", *[_INDENT] * len(lines)), lines, strict=False):
                text = _GAP.join(padded[line.start : line.stop]).rstrip()
                if text or not begins:
                    click.echo(begins + (text if place else _heading(text)))
    if caption:
        click.echo(caption)


def say_troubles(rows: Iterable[Any]) -> None:
    """Below a table, the ``trouble`` of each row that has ``SEE_BELOW``: in the table it would be too wide."""
    for each in rows:
        if each.trouble:
            say(f"{name_of(each)}: {shown(each.trouble)}", problem=True)


def _folded(widths: Sequence[int], room: int) -> list[range]:
    """Which columns stand on each line of a row, so that none is longer than ``room`` but for a column that is."""
    lines: list[range] = []
    start, used = 0, 0
    for at, width in enumerate(widths):
        if at > start and used + len(_GAP) + width > room:
            lines.append(range(start, at))
            start = at
        used = used + len(_GAP) + width if at > start else width + (len(_INDENT) if lines else 0)
    return [*lines, range(start, len(widths))]


def _say_records(titles: Sequence[str], records: Sequence[Sequence[str]]) -> None:
    width = max(map(len, titles))
    for record in records:
        for title, value in zip(titles, record, strict=True):
            if value:
                click.echo(f"{_heading(title)}{' ' * (width - len(title))}{_GAP}{value}")
        click.echo()


def _heading(text: str) -> str:
    """In bold; ``click.echo`` takes that away where no terminal is written to."""
    return text if os.environ.get("TERM") == "dumb" else click.style(text, bold=True)


def _padded(text: str, width: int, column: str) -> str:
    space = " " * (width - cell_width(text))
    return space + text if column.startswith(">") else text + space


@contextmanager
def progress(unit: str = "bytes") -> Iterator[Report | None]:
    """What a method takes as its ``progress`` while the block runs: a display on standard error, counted in ``unit``,
    or, where that is empty, in what the name says. None where that is not a terminal or the command is quiet."""
    with nullcontext() if is_asked("quiet") else bar(sys.stderr, unit) as drawn:
        yield None if drawn is None else drawn.show
