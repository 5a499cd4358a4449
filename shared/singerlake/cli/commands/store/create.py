"""``singerlake store create``: makes the table or the schema that a manifest store in a database needs."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from singerlake.adapters import IN_A_DATABASE, CreatedStore, create_store
from singerlake.cli.help import command, examples
from singerlake.cli.options import result_options, settings_in, variable, with_settings
from singerlake.cli.output import say, say_json, show, shown
from singerlake.settings import storage_settings, store_settings


@examples("singerlake store create --kind postgres", "singerlake store create --kind dynamodb --dynamodb-table lakes")
@command("Make the DynamoDB table or the PostgreSQL schema of a manifest store.")
@click.argument("lake_root", metavar="[LAKE]", required=False, envvar=variable("lake_root"))
@partial(with_settings, stores=True)
@click.option("--kind", required=True, type=click.Choice(IN_A_DATABASE), help="The manifest store to make ready.")
@result_options
def create(lake_root: str | None, kind: str, **arguments: Any) -> None:
    """Make the DynamoDB table or the PostgreSQL schema of a manifest store, if it is missing.

    One serves many lakes, so LAKE may be left out; it is not changed. For dynamodb, the least IAM policy that writers,
    readers and 'singerlake gc' need goes to standard output, as JSON. Only $SINGERLAKE_POSTGRES_URL gives the URL of
    PostgreSQL.
    """
    del lake_root
    config = settings_in(arguments)
    show(create_store(kind, store_settings(config), storage_settings(config).s3), _say)


def _say(made: CreatedStore) -> None:
    if made.policy is not None:
        click.echo(f"table {shown(made.name)} is ready; the least policy:", err=True)
        say_json(made.policy)
        return
    came = "made" if made.before is None else "unchanged" if made.before == made.after else "migrated"
    say(f"schema {shown(made.name)} is ready, {came}: version {made.after}")
