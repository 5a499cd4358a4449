"""``singerlake project gc``: deletes what tables no longer list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.durations import duration
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.options import json_option, quiet_option
from singerlake.cli.output import counted, say, say_json, shown, size
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.storage.probe import storage_time
from singerlake.tables.maintain.collect import TableCollection, collect_table, plan_collection
from singerlake.tables.state.keys import table_prefix
from singerlake.upkeep.defaults import GRACE


@click.command(short_help="Delete files that tables replaced or never listed, after a grace time.")
@with_project
@click.option("--delete", is_flag=True, help="Delete; otherwise only show what would be deleted.")
@click.option(
    "--grace",
    type=duration,
    default=f"{GRACE.days}d",
    show_default=True,
    metavar="TIME",
    help="How long a file stays. It must be longer than any read and any run of a table.",
)
@json_option
@quiet_option
@click.pass_context
def gc(ctx: click.Context, project: Project, delete: bool, grace: timedelta, as_json: bool) -> None:
    """Delete files that tables replaced or never listed, after a grace time.

    TABLE is the name of a table that is there; all of them by default. Shows what would be deleted; deletes only with
    --delete. Readers go on meanwhile; a run that is at work may have to begin again. Exits with 1 where a table could
    not be collected, and with 2 where access was denied.
    """
    lake = project.lake
    done: list[TableCollection] = []
    failed: dict[str, SingerlakeError] = {}
    storage = lake.tables_storage() if delete else lake.storage
    now = storage_time(storage, ids=lake.ids) if delete else lake.clock.now()
    for name in project.made():
        try:
            with expected_errors(table=name):
                if delete:
                    ids, clock = lake.ids, lake.clock
                    found = collect_table(storage, name, now=lambda: now, grace=grace, clock=clock, ids=ids)
                else:
                    found = plan_collection(storage, name, now=now, grace=grace)
                done.append(found)
        except SingerlakeError as error:
            failed[name] = error
    if as_json:
        report = {
            "lake": lake.storage.url,
            "dry_run": not delete,
            "tables": [_json(each) for each in done],
            "failed": [{"table": name, "error": why} for name, why in failed.items()],
        }
        say_json(report)
    else:
        for each in done:
            say(f"{shown(each.table)}: {_told(each, delete)}")
        for name, why in failed.items():
            say_error_of(name, why)
    ctx.exit(exit_code(failed.values()))


def _told(each: TableCollection, delete: bool) -> str:
    would = "" if delete else "would be "
    count = len(each.unlisted) + len(each.due)
    gone = f"{counted(count, 'file')} ({size(each.bytes)}) {would}deleted" if count else "nothing to delete"
    left = each.young + each.waiting
    return f"{gone}; {counted(left, 'file')} waiting" if left else gone


def _json(each: TableCollection) -> dict[str, Any]:
    prefix = table_prefix(each.table)
    return {
        "table": each.table,
        "keys": [entry.key for entry in each.unlisted] + [prefix + file.path for file in each.due],
        "bytes": each.bytes,
        "young": each.young,
        "waiting": each.waiting,
    }
