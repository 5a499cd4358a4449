"""``singerlake project plan``: what a run would do."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import plan_report
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options


@examples("singerlake project plan", "singerlake project plan lake --all")
@command("Show what a run would do for each table.")
@partial(with_project, declared=True)
@click.option("--full-refresh", is_flag=True, help="As if every table were made anew.")
@result_options
def plan(project: Project, full_refresh: bool) -> int:
    """Show what a run would do for each table: how much is new, and whether and why a table would be made anew.

    Reads the manifests and the tables' states, and no data file; writes nothing. Exits with 1 or 2 where a table could
    not be made.
    """
    return plan_report(project, full_refresh=full_refresh)
