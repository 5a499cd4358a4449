"""``singerlake project drop``: deletes tables; raw stays."""

from __future__ import annotations

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import json_option, quiet_option
from singerlake.cli.output import counted, say, say_json, shown, size
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.tables.maintain.drop import DropPlan, plan_drop
from singerlake.tables.maintain.drop import drop as drop_table


@click.command(short_help="Delete tables; the streams that they were made from stay.")
@with_project
@click.option("--delete", is_flag=True, help="Delete them; otherwise only show what would be deleted.")
@json_option
@quiet_option
@click.pass_context
def drop(ctx: click.Context, project: Project, delete: bool, as_json: bool) -> None:
    """Delete tables; the streams that they were made from stay, and so a table can be made again.

    Name each TABLE that is to go. Shows what would be deleted; deletes only with --delete. Exits with 1 where a table
    could not be dropped, and with 2 where access was denied.
    """
    if not project.names:
        raise click.UsageError("no table is named; name each table that is to go")
    done: list[DropPlan] = []
    failed: dict[str, SingerlakeError] = {}
    storage = project.lake.tables_storage() if delete else project.lake.storage
    for name in project.made():
        try:
            with expected_errors(table=name):
                plan = plan_drop(storage, name)
                if delete:
                    drop_table(storage, plan)
                done.append(plan)
        except SingerlakeError as error:
            failed[name] = error
    if as_json:
        report = {
            "lake": project.lake.storage.url,
            "dry_run": not delete,
            "tables": [
                {"table": each.table, "rows": each.rows, "keys": each.keys, "bytes": each.bytes} for each in done
            ],
            "failed": [{"table": name, "error": why} for name, why in failed.items()],
        }
        say_json(report)
    else:
        for each in done:
            would = "" if delete else "would be "
            rows = "its state cannot be read" if each.rows is None else counted(each.rows, "row")
            say(f"{shown(each.table)}: {would}dropped: {rows}, {counted(len(each.keys), 'file')} ({size(each.bytes)})")
        for name, why in failed.items():
            say_error_of(name, why)
    ctx.exit(exit_code(failed.values()))
