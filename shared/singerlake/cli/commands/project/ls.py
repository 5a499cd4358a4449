"""``singerlake project ls``: which tables there are, and how they stand."""

from __future__ import annotations

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options
from singerlake.cli.output import (
    SEE_BELOW,
    checks_in_short,
    counted,
    lake_named,
    minute,
    say_troubles,
    show,
    size,
    table,
)
from singerlake.clock import parse_timestamp
from singerlake.tables.maintain.listing import ListedTable, ListTablesResult

_COLUMNS = ("TABLE", "STREAM", "KEEP", ">ROWS", ">FILES", ">BYTES", ">BEHIND", "LAST RUN (UTC)", "CHECKS")


@examples("singerlake project ls", "singerlake project ls lake people --json")
@command("List tables with their rows, files, bytes, how far they are behind, and their last run.")
@with_project
@result_options
def ls(project: Project) -> int:
    """List tables with their rows, files, bytes, how far they are behind, and their last run.

    BEHIND counts messages of the stream that the table does not hold yet. A star marks a table that is there and that
    no declaration names. Exits with 1 where a table cannot be read or means no stream.
    """
    result = project.lake.list_tables(project.file, all=project.every, tables=project.meant(declared=True))
    show(result, _say)
    return 1 if any(each.trouble for each in result.tables) else 0


def _say(result: ListTablesResult) -> None:
    found = result.tables
    made = [each for each in found if each.rows is not None]
    rows, stored = (sum(getattr(each, name) or 0 for each in made) for name in ("rows", "bytes"))
    totals = f"{counted(len(found), 'table')}, {counted(rows, 'row')}, {size(stored)}"
    table(_COLUMNS, map(_row, found), caption=f"{lake_named(result.lake)}: {totals}")
    say_troubles(found)


def _row(each: ListedTable) -> tuple[str, ...]:
    name = each.table if each.declared else f"{each.table} *"
    if each.trouble:
        return name, SEE_BELOW, *[""] * 7
    last = parse_timestamp(each.last_run) if each.last_run else None
    return (
        name,
        each.source or "",
        each.keep or "",
        *("" if count is None else f"{count:,}" for count in (each.rows, each.files)),
        "" if each.bytes is None else size(each.bytes),
        "" if each.behind is None else f"{each.behind:,}",
        minute(last) if last is not None else "" if each.keep else "not made yet",
        checks_in_short(*each.checks) if each.checks is not None else "",
    )
