"""``singerlake project drop``: deletes tables; raw stays."""

from __future__ import annotations

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, shows_first
from singerlake.cli.output import counted, say, show, shown, size
from singerlake.tables.maintain.drop import DropTablesResult


@examples("singerlake project drop lake people", "singerlake project drop lake people --delete")
@command("Delete tables; the streams that they were made from stay.")
@with_project
@shows_first("--delete", "Delete them")
@result_options
def drop(project: Project, dry_run: bool) -> int:
    """Delete tables; the streams that they were made from stay, and so a table can be made again.

    Name each TABLE that is to go, or what they are made from. Shows what would be deleted; deletes only with --delete.
    Exits with 1 where a table could not be dropped, and with 2 where access was denied.
    """
    names = project.meant()
    if not names:
        raise click.UsageError("no table is named; name each table that is to go, or its --tap or --stream")
    result = project.lake.drop_tables(names, dry_run=dry_run)
    show(result, _say)
    return exit_code(each.error for each in result.failed)


def _say(result: DropTablesResult) -> None:
    for each in result.tables:
        would = "would be " if result.dry_run else ""
        rows = "its state cannot be read" if each.rows is None else counted(each.rows, "row")
        say(f"{shown(each.table)}: {would}dropped: {rows}, {counted(len(each.keys), 'file')} ({size(each.bytes)})")
    for failure in result.failed:
        say_error_of(failure.table, failure.error)
