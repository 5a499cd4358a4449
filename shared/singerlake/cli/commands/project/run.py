"""``singerlake project run``: brings tables up to their streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import click

from singerlake.cli.commands.project.engines import EngineChoice, Engines, table_engine_options
from singerlake.cli.commands.project.follow import follow_tables
from singerlake.cli.commands.project.options import Project, with_project
from singerlake.cli.commands.project.report import Report, plan_report
from singerlake.cli.help import command, examples
from singerlake.cli.options import follow_options, result_options
from singerlake.cli.output import progress, shown
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.tables.declaration.streams import Resolved
from singerlake.tables.project import run_tables
from singerlake.tables.run.one_table import TableResult
from singerlake.tables.run.plan import SqlPlan, TablePlan
from singerlake.upkeep.result import reporting


@examples("singerlake project run", "singerlake project run lake --all --follow")
@command("Bring tables up to their streams.")
@partial(with_project, declared=True)
@click.option("--full-refresh", is_flag=True, help="Make every table anew, from the first message on.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, as 'project plan' does, and write nothing.")
@click.option(
    "--register",
    metavar="NAME|URI",
    help="Then have this Iceberg catalog lead to the tables, as 'catalog register' does. The next run tries again.",
)
@follow_options("--follow", does="Go on until a signal ends it: run what has something new.", every="10s")
@table_engine_options
@result_options
def run(
    project: Project,
    full_refresh: bool,
    dry_run: bool,
    register: str | None,
    follow: float | None,
    engines: EngineChoice,
) -> int:
    """Bring tables up to their streams: read what is new, write files, and publish each table in one write.

    A table that was interrupted or failed stays as it was; the others are made all the same. Run it again where it was
    interrupted. A table is made anew where its declaration changed or its stream was rebuilt, and readers see the old
    one until then. Exits with 1 where a table failed, with 2 where its declaration or a setting has to be changed.

    With --follow it goes on until a signal ends it. A table that failed is tried again later.
    """
    if follow is not None and (full_refresh or dry_run):
        raise click.UsageError("--follow goes with neither --full-refresh nor --dry-run")
    if dry_run:
        return plan_report(project, full_refresh=full_refresh)
    with ExitStack() as held:
        opened = Engines(engines, project.lake, held)
        runner = project.lake.table_runner(opened, opened.sql, storage=project.lake.tables_storage())

        def run_all(tables: list[Resolved]) -> Iterator[TableResult]:
            with progress() as report:

                def began(plan: TablePlan | SqlPlan) -> None:
                    opened.bar = reporting(report, plan.declaration.name)

                yield from run_tables(
                    runner,
                    tables,
                    full_refresh=full_refresh,
                    together=engines.may_be_here,
                    began=began,
                )
            if register is not None:
                _register(project.lake, register)

        if follow is not None:
            follow_tables(project, run_all, opened.check, every=follow)
        tables, failed = project.tables()
        report = Report(project.lake.storage.url)
        report.add_unresolved(failed)
        for result in run_all(tables):
            report.add(result)
    return report.end()


def _register(lake: Lake, to: str) -> None:
    """Have a catalog lead to the tables. What fails is said, and changes nothing else."""
    try:
        failed = [f"{failure.table}: not registered: {failure.error}" for failure in lake.register_tables(to).failed]
    except SingerlakeError as error:
        failed = [f"tables are not registered: {error}"]
    for each in failed:
        click.echo(f"note: {shown(each)}", err=True)
