"""``singerlake project verify``: holds tables against what their state says, and against raw."""

from __future__ import annotations

from contextlib import ExitStack

import click

from singerlake.cli.commands.project.engines import EngineChoice, Engines, table_engine_options
from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import json_option, quiet_option
from singerlake.cli.output import counted, progress, say, say_json, shown, size
from singerlake.errors import ExpiredMessagesError, SingerlakeError, expected_errors
from singerlake.tables.maintain.verify import TableFinding, verify_files, verify_log, verify_rows
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import TableState
from singerlake.upkeep.result import reporting


@click.command(short_help="Check that tables' files are whole; with --deep, that their rows are what raw says.")
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
    checked: list[TableState] = []
    findings: list[TableFinding] = []
    uncompared: dict[str, str] = {}
    failed: dict[str, SingerlakeError] = {}
    with ExitStack() as held:
        opened = Engines(engines, project.lake, held)
        report = held.enter_context(progress())
        for name in project.made():
            opened.bar = reporting(report, name)
            try:
                with expected_errors(table=name):
                    found = load(project.lake.storage, name)
                    if found is None or not found.state.is_published:
                        continue
                    state = found.state
                    findings += verify_files(opened(state.bytes), state)
                    findings += verify_log(project.lake.storage, state)
                    if deep and not state.sources:
                        uncompared[name] = "a statement made them"
                    elif deep:
                        try:
                            findings += verify_rows(project.lake.table_runner(opened), state)
                        except ExpiredMessagesError:
                            uncompared[name] = "messages that they were made of have expired"
                    checked.append(state)
            except SingerlakeError as error:
                failed[name] = error
    if as_json:
        result = {
            "lake": project.lake.storage.url,
            "deep": deep,
            "tables": [{"table": state.table, "rows": state.rows, "files": len(state.files)} for state in checked],
            "not_compared": list(uncompared),
            "findings": findings,
            "failed": [{"table": name, "error": why} for name, why in failed.items()],
        }
        say_json(result)
    else:
        for each in findings:
            say(f"{shown(each.table)}: {shown(each.key or 'rows')}: {shown(each.what)}", problem=True)
        for name, why in failed.items():
            say_error_of(name, why)
        for name, reason in uncompared.items():
            say(f"{shown(name)}: rows not compared, since {reason}: files checked")
        say(f"{_verdict(len(findings), len(failed))}: {_checked(checked)}")
    ctx.exit(exit_code(failed.values()) or (1 if findings else 0))


def _verdict(findings: int, failed: int) -> str:
    problems = [counted(findings, "finding")] if findings else []
    if failed:
        problems.append(f"{counted(failed, 'table')} not checked")
    return ", ".join(problems) or "sound"


def _checked(states: list[TableState]) -> str:
    files, rows = sum(len(state.files) for state in states), sum(state.rows for state in states)
    stored = size(sum(state.bytes for state in states))
    return f"{counted(len(states), 'table')}, {counted(files, 'file')}, {counted(rows, 'row')}, {stored} checked"
