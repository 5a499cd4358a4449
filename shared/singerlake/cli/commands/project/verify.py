"""``singerlake project verify``: holds tables against what their state says, and against raw."""

from __future__ import annotations

from contextlib import ExitStack

import click

from singerlake.cli.commands.project.engines import EngineChoice, Engines, table_engine_options
from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options
from singerlake.cli.output import counted, progress, say, show, shown, size
from singerlake.tables.maintain.verify import VerifyTablesResult


@examples("singerlake project verify", "singerlake project verify lake people --deep")
@command("Check that tables' files are whole; with --deep, that their rows are what raw says.")
@with_project
@click.option(
    "--deep", is_flag=True, help="Make each table once more from raw, beside, and compare the rows one by one."
)
@table_engine_options
@result_options
def verify(project: Project, deep: bool, engines: EngineChoice) -> int:
    """Check that tables' files are there, whole, and hold as many rows as the table says, reading each file whole.

    TABLE is the name of a table that is there; all of them by default. Writes one line for each finding and exits with
    1. Publishes nothing.
    """
    with ExitStack() as held, progress() as report:
        opened = Engines(engines, project.lake, held)
        result = project.lake.verify_tables(project.meant(), deep=deep, engine_for=opened, progress=report)
    show(result, _say)
    return exit_code(each.error for each in result.failed) or (1 if result.findings else 0)


def _say(result: VerifyTablesResult) -> None:
    for each in result.findings:
        say(f"{shown(each.table)}: {shown(each.key or 'rows')}: {shown(each.what)}", problem=True)
    for failure in result.failed:
        say_error_of(failure.table, failure.error)
    for name, reason in result.reasons.items():
        say(f"{shown(name)}: rows not compared, since {reason}: files checked")
    problems = [counted(len(result.findings), "finding")] if result.findings else []
    if result.failed:
        problems.append(f"{counted(len(result.failed), 'table')} not checked")
    tables = result.tables
    files, rows, stored = (sum(getattr(each, name) for each in tables) for name in ("files", "rows", "bytes"))
    checked = f"{counted(len(tables), 'table')}, {counted(files, 'file')}, {counted(rows, 'row')}, {size(stored)}"
    say(f"{', '.join(problems) or 'sound'}: {checked} checked")
