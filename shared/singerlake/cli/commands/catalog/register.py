"""``singerlake catalog register``: tells an Iceberg catalog of the tables."""

from __future__ import annotations

from functools import partial

import click

from singerlake.cli.commands.project.report import say_error_of
from singerlake.cli.exit_codes import exit_code
from singerlake.cli.help import command, examples
from singerlake.cli.options import Names, result_options, with_lake
from singerlake.cli.output import say, show, shown
from singerlake.lake import Lake
from singerlake.tables.maintain.register import RegisterResult
from singerlake.tables.state.keys import PUBLISHED


@examples("singerlake catalog register lake --to glue", "singerlake catalog register lake flights --to glue")
@command("Have an Iceberg catalog, as Glue or Hive, lead to the tables.")
@partial(with_lake, names=Names(many="tables", optional=True))
@click.option("--to", required=True, metavar="NAME|URI", help="A catalog in pyiceberg's configuration, or its URI.")
@click.option("--namespace", default=PUBLISHED, show_default=True, help="Where the catalog has the tables.")
@result_options
def register(lake: Lake, tables: tuple[str, ...], to: str, namespace: str) -> int:
    """Have an Iceberg catalog of REST, Glue, Hive or SQL lead to the newest metadata of the tables.

    Run it after each run of the tables: a catalog goes on leading to where it was told. Settings and credentials are
    those of pyiceberg, in ~/.pyiceberg.yaml and PYICEBERG_CATALOG__NAME__... The lake is only read, and nothing of it
    is purged. A table of the catalog that leads elsewhere stays as it is. Exits with 1 where a table could not be
    registered, and with 2 where the catalog refused.
    """
    result = lake.register_tables(to, tables, namespace=namespace)
    show(result, _say)
    return exit_code(each.error for each in result.failed)


def _say(result: RegisterResult) -> None:
    if not result.tables and not result.failed:
        say("no table says 'also: iceberg'")
    for each in result.tables:
        before = "new" if each.before is None else "as before" if each.before == each.version else f"was {each.before}"
        say(f"{shown(each.table)}: registered as {shown(each.name)}, version {each.version}, {before}")
    for failure in result.failed:
        say_error_of(failure.table, failure.error)
