"""``singerlake catalog ls``: what describes tables to other engines."""

from __future__ import annotations

from functools import partial

from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, with_lake
from singerlake.cli.output import counted, lake_named, say, show, shown, table
from singerlake.lake import Lake
from singerlake.tables.maintain.catalog import CatalogEntry, CatalogResult

_COLUMNS = ("TABLE", "FORMAT", ">VERSION", "SHOWS", "URL")
NONE = "no table says 'also: delta' or 'also: iceberg'"


@examples("singerlake catalog ls lake", "singerlake catalog ls lake flights --json")
@command("List where engines find tables as Delta or Iceberg.")
@partial(with_lake, names=Names(many="tables", optional=True))
@result_options
def ls(lake: Lake, tables: tuple[str, ...]) -> int:
    """List where engines find tables as Delta or Iceberg, and whether these show the tables as they are.

    URL is the folder of a Delta table, and the newest metadata of an Iceberg table. Exits with 1 if one is behind its
    table, or of another place, as in a lake that was copied: 'singerlake catalog sync' brings it up.
    """
    result = lake.catalog(tables)
    show(result, _say)
    return exit_code(each.error for each in result.failed) or (0 if all(each.current for each in result.entries) else 1)


def _say(result: CatalogResult) -> None:
    caption = f"{lake_named(result.lake)}: {counted(len({each.table for each in result.entries}), 'table')}"
    if result.entries:
        table(_COLUMNS, map(_row, result.entries), caption=caption)
    elif not result.failed:
        say(NONE)
    for each in result.entries:
        if not each.current:
            say(
                f"{shown(each.table)}: {each.format} does not show the table as it is; run 'singerlake catalog sync'",
                problem=True,
            )
    for failure in result.failed:
        say_error_of(failure.table, failure.error)


def _row(entry: CatalogEntry) -> tuple[str, ...]:
    version = "" if entry.version is None else str(entry.version)
    shows = "the table" if entry.current else "nothing" if entry.version is None else "another"
    return entry.table, entry.format, version, shows, entry.url or ""
