"""``singerlake project gc``: deletes what tables no longer list."""

from __future__ import annotations

from datetime import timedelta

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import grace_option, result_options, shows_first
from singerlake.cli.output import counted, files, minute, say, show, shown, size
from singerlake.tables.maintain.collect import GcTablesResult


@examples("singerlake project gc", "singerlake project gc lake --delete")
@command("Delete files that tables replaced or never listed, after a grace time.")
@with_project
@shows_first("--delete", "Delete")
@grace_option("How long a file stays. It must be longer than any read and any run of a table.")
@result_options
def gc(project: Project, dry_run: bool, grace: timedelta) -> int:
    """Delete files that tables replaced or never listed, after a grace time.

    TABLE is the name of a table that is there; all of them by default. Shows what would be deleted; deletes only with
    --delete. The first such run notes what a table replaced, and one that comes a grace time later deletes it. Readers
    go on meanwhile; a run that is at work may have to begin again. Exits with 1 where a table could not be collected,
    and with 2 where access was denied.
    """
    result = project.lake.gc_tables(project.meant(), grace=grace, dry_run=dry_run)
    show(result, _say)
    return exit_code(each.error for each in result.failed)


def _say(result: GcTablesResult) -> None:
    would = "would be " if result.dry_run else ""
    for each in result.tables:
        gone = f"{counted(len(each.keys), 'file')} ({size(each.bytes)}) {would}deleted"
        say(f"{shown(each.table)}: {gone if each.keys else 'nothing to delete'}")
        if (left := each.young + each.waiting).files:
            until = f", the first until {minute(each.until)} UTC" if each.until else ""
            if each.waiting.files and each.until is None:
                until = f"; the grace time begins with {'the next' if result.dry_run else 'this'} --delete"
            say(f"  waiting: {files(left)}{until}")
    for failure in result.failed:
        say_error_of(failure.table, failure.error)
