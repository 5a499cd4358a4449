"""``singerlake project ls``: which tables there are, and how they stand."""

from __future__ import annotations

from dataclasses import dataclass

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.options import json_option
from singerlake.cli.output import Column, checks_in_short, counted, minute, say_json, shown, size, table
from singerlake.clock import parse_timestamp
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.lake import Lake
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.declaration.streams import chosen
from singerlake.tables.maintain.status import standing_of
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import source_of
from singerlake.work.parallel import THREADS, in_parallel

_COLUMNS = (
    Column("TABLE", folds=True),
    Column("STREAM", folds=True),
    Column("KEEP"),
    Column("ROWS", number=True),
    Column("FILES", number=True),
    Column("BYTES", number=True),
    Column("BEHIND", number=True),
    Column("LAST RUN (UTC)"),
    Column("CHECKS"),
)


@dataclass(frozen=True, slots=True)
class _Listed:
    """How one table stands. ``behind`` counts messages of the stream that it does not hold yet, all of them where it
    was rebuilt since. ``checks``: how many there are, and of how many rows the last run said that one does not hold."""

    table: str
    declared: bool
    tap: str | None = None
    stream: str | None = None
    source: str | None = None
    keep: str | None = None
    format: str | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    offset: int | None = None
    behind: int | None = None
    last_run: str | None = None
    checks: tuple[int, int] | None = None
    trouble: str | None = None


@click.command(short_help="List tables with their rows, files, bytes, how far they are behind, and their last run.")
@with_project
@json_option
@click.pass_context
def ls(ctx: click.Context, project: Project, as_json: bool) -> None:
    """List tables with their rows, files, bytes, how far they are behind, and their last run.

    BEHIND counts messages of the stream that the table does not hold yet. A star marks a table that is there and that
    no declaration names. Exits with 1 where a table cannot be read or means no stream.
    """
    found = _listed(project)
    if as_json:
        say_json({"lake": project.lake.storage.url, "tables": found})
    else:
        made = [each for each in found if each.rows is not None]
        totals = (
            counted(len(found), "table"),
            counted(sum(each.rows or 0 for each in made), "row"),
            size(sum(each.bytes or 0 for each in made)),
        )
        table(_COLUMNS, map(_row, found), caption=f"{shown(project.lake.storage.url)}: {', '.join(totals)}")
    ctx.exit(1 if any(each.trouble for each in found) else 0)


def _listed(project: Project) -> list[_Listed]:
    there = project.lake.tables()
    every, failed = project.resolved()
    tables = every
    names = [each.declaration.name for each in tables] + there
    if project.names:
        others = [name for name in project.names if name not in there]
        tables, failed = chosen(tables, failed, others) if others else ([], [])
        names = [each.declaration.name for each in tables] + [name for name in there if name in project.names]
    declared = {each.declaration.name: each.declaration for each in every}

    def one(name: str) -> _Listed:
        try:
            with expected_errors(table=name):
                return _look(project.lake, name, declared.get(name))
        except SingerlakeError as error:
            return _Listed(name, name in declared, trouble=f"{error.message}; {error.hint}")

    wrong = [
        _Listed(each.declaration.name, True, trouble=f"{each.error.message}; {each.error.hint}") for each in failed
    ]
    return wrong + list(in_parallel(one, dict.fromkeys(names), threads=THREADS))


def _look(lake: Lake, name: str, declared: TableDeclaration | None) -> _Listed:
    """``declared``: what the table is declared to be; None where no declaration names it."""
    found = load(lake.storage, name)
    state = found.state if found is not None and found.state.is_published else None
    if state is None:
        if declared is None:
            return _Listed(name, False, trouble="begun, and not made yet; run 'singerlake project run'")
        if declared.sql is not None:
            return _Listed(name, True, source="sql")
        manifest = lake.stream(declared.tap, declared.stream).snapshot()
        source = f"{declared.tap}.{declared.stream}"
        behind = manifest.next_offset - manifest.floor
        return _Listed(name, True, declared.tap, declared.stream, source, behind=behind)
    made_of = state.sources[0] if state.sources else None
    newest = lake.stream(made_of.tap, made_of.stream).state() if made_of is not None else None
    stands = standing_of(state, None if newest is None else source_of(newest))
    return _Listed(
        table=name,
        declared=declared is not None,
        tap=made_of.tap if made_of is not None else None,
        stream=made_of.stream if made_of is not None else None,
        source=stands.source_text,
        keep=stands.declaration.get("keep") if made_of is not None else "sql",
        format=stands.declaration.get("format"),
        rows=stands.rows,
        files=stands.files,
        bytes=stands.bytes,
        offset=made_of.offset if made_of is not None else None,
        behind=stands.behind,
        last_run=stands.last_run.at if stands.last_run is not None else None,
        checks=(len(stands.checks), sum(stands.failing.values())),
    )


def _row(each: _Listed) -> tuple[str, ...]:
    name = each.table if each.declared else f"{each.table} *"
    if each.trouble:
        return name, f"! {each.trouble}", *[""] * 7
    last = parse_timestamp(each.last_run) if each.last_run else None
    return (
        name,
        each.source or "",
        each.keep or "not made yet",
        *("" if count is None else f"{count:,}" for count in (each.rows, each.files)),
        "" if each.bytes is None else size(each.bytes),
        "" if each.behind is None else f"{each.behind:,}",
        minute(last) if last is not None else "",
        checks_in_short(*each.checks) if each.checks is not None else "",
    )
