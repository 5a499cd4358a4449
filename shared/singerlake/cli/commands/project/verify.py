"""``singerlake project verify``: holds tables against what their state says, and against raw."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import click

from singerlake.cli.commands.project.engines import EngineChoice, Engines, table_engine_options
from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import Documented
from singerlake.cli.options import json_option, quiet_option
from singerlake.cli.output import counted, progress, say, say_json, shown, size
from singerlake.tables.maintain.verify import CheckedTable


@click.command(
    short_help="Check that tables' files are whole; with --deep, that their rows are what raw says.",
    cls=Documented,
    examples=("singerlake project verify", "singerlake project verify lake people --deep"),
)
@with_project
@click.option(
    "--deep", is_flag=True, help="Make each table once more from raw, beside, and compare the rows one by one."
)
@table_engine_options
@json_option
@quiet_option
@click.pass_context
def verify(ctx: click.Context, project: Project, deep: bool, engines: EngineChoice, as_json: bool) -> None:
    """Check that tables' files are there, whole, and hold as many rows as the table says, reading each file whole.

    TABLE is the name of a table that is there; all of them by default. Writes one line for each finding and exits with
    1. Publishes nothing.
    """
    with ExitStack() as held, progress() as report:
        opened = Engines(engines, project.lake, held)
        result = project.lake.verify_tables(project.names, deep=deep, engine_for=opened, progress=report)
    if as_json:
        say_json(result)
    else:
        for each in result.findings:
            say(f"{shown(each.table)}: {shown(each.key or 'rows')}: {shown(each.what)}", problem=True)
        for failure in result.failed:
            say_error_of(failure.table, failure.error)
        for name, reason in result.reasons.items():
            say(f"{shown(name)}: rows not compared, since {reason}: files checked")
        say(f"{_verdict(len(result.findings), len(result.failed))}: {_checked(result.tables)}")
    ctx.exit(exit_code(each.error for each in result.failed) or (1 if result.findings else 0))


def _verdict(findings: int, failed: int) -> str:
    problems = [counted(findings, "finding")] if findings else []
    if failed:
        problems.append(f"{counted(failed, 'table')} not checked")
    return ", ".join(problems) or "sound"


def _checked(tables: Sequence[CheckedTable]) -> str:
    files, rows, stored = (sum(getattr(each, name) for each in tables) for name in ("files", "rows", "bytes"))
    return f"{counted(len(tables), 'table')}, {counted(files, 'file')}, {counted(rows, 'row')}, {size(stored)} checked"
