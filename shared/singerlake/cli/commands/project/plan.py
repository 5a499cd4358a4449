"""``singerlake project plan``: what a run would do."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import diff_report, plan_report
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options


@examples("singerlake project plan lake --all", "singerlake project plan people --diff --rows")
@command("Show what a run would do for each table.")
@partial(with_project, declared=True)
@click.option("--full-refresh", is_flag=True, help="As if every table were made anew.")
@click.option(
    "--diff", is_flag=True, help="Make the tables beside the lake, and show what becomes of the rows that they have."
)
@click.option("--rows", is_flag=True, help="With --diff: print each row that differs, too.")
@result_options
def plan(project: Project, full_refresh: bool, diff: bool, rows: bool) -> int:
    """Show what a run would do for each table: how much is new, and whether and why a table would be made anew.

    Reads the manifests and the tables' states, and no data file; writes nothing. With --diff it reads the data files of
    each table that would be made anew, twice, and shows the columns and the rows that would differ. Exits with 1 or 2
    where a table could not be made, or not be compared.
    """
    if rows and not diff:
        raise click.UsageError("--rows needs --diff")
    if diff:
        return diff_report(project, full_refresh=full_refresh, rows=rows)
    return plan_report(project, full_refresh=full_refresh)
