"""``singerlake catalog sync``: brings what describes tables to them, without a run."""

from __future__ import annotations

from functools import partial

from singerlake.cli.commands.catalog.ls import NONE
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, with_lake
from singerlake.cli.output import say, show, shown
from singerlake.lake import Lake
from singerlake.tables.maintain.catalog import CatalogResult


@examples("singerlake catalog sync lake", "singerlake catalog sync s3://bucket/copy flights")
@command("Bring Delta logs and Iceberg metadata to their tables, as after a copy.")
@partial(with_lake, names=Names(many="tables", optional=True))
@result_options
def sync(lake: Lake, tables: tuple[str, ...]) -> int:
    """Bring Delta logs and Iceberg metadata to their tables, without a run.

    Iceberg names files by their whole URL, so run this after a lake was copied or moved. No file of a table is read,
    and none is written or deleted. Runs of tables do the same by themselves. Exits with 1 where a table could not be
    described, and with 2 where access was denied.
    """
    result = lake.sync_catalog(tables)
    show(result, _say)
    return exit_code(each.error for each in result.failed)


def _say(result: CatalogResult) -> None:
    if not result.entries and not result.failed:
        say(NONE)
    for each in result.entries:
        done = "brought up" if each.written else "shows the table"
        say(f"{shown(each.table)}: {each.format} {done}, version {each.version}")
    for failure in result.failed:
        say_error_of(failure.table, failure.error)
