"""``singerlake project ls``: which tables there are, and how they stand."""

from __future__ import annotations

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option
from singerlake.cli.output import (
    SEE_BELOW,
    Column,
    checks_in_short,
    counted,
    minute,
    say_json,
    say_troubles,
    shown,
    size,
    table,
)
from singerlake.clock import parse_timestamp
from singerlake.tables.maintain.listing import ListedTable

_COLUMNS = (
    Column("TABLE"),
    Column("STREAM"),
    Column("KEEP"),
    Column("ROWS", number=True),
    Column("FILES", number=True),
    Column("BYTES", number=True),
    Column("BEHIND", number=True),
    Column("LAST RUN (UTC)"),
    Column("CHECKS"),
)


@click.command(
    short_help="List tables with their rows, files, bytes, how far they are behind, and their last run.",
    cls=Documented,
    examples=("singerlake project ls", "singerlake project ls lake people --json"),
)
@with_project
@json_option
@click.pass_context
def ls(ctx: click.Context, project: Project, as_json: bool) -> None:
    """List tables with their rows, files, bytes, how far they are behind, and their last run.

    BEHIND counts messages of the stream that the table does not hold yet. A star marks a table that is there and that
    no declaration names. Exits with 1 where a table cannot be read or means no stream.
    """
    result = project.lake.list_tables(project.file, all=project.every, tables=project.names)
    found = result.tables
    if as_json:
        say_json(result)
    else:
        made = [each for each in found if each.rows is not None]
        totals = (
            counted(len(found), "table"),
            counted(sum(each.rows or 0 for each in made), "row"),
            size(sum(each.bytes or 0 for each in made)),
        )
        table(_COLUMNS, map(_row, found), caption=f"{shown(result.lake)}: {', '.join(totals)}")
        say_troubles((each.table, each.trouble) for each in found if each.trouble)
    ctx.exit(1 if any(each.trouble for each in found) else 0)


def _row(each: ListedTable) -> tuple[str, ...]:
    name = each.table if each.declared else f"{each.table} *"
    if each.trouble:
        return name, SEE_BELOW, *[""] * 7
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
