"""``singerlake store create``: makes the table or the schema that a manifest store in a database needs."""

from __future__ import annotations

from typing import Any

import click

from singerlake.cli.options import settings_in, variable, with_settings
from singerlake.cli.output import say, say_json, shown
from singerlake.clock import SystemClock
from singerlake.errors import SettingError
from singerlake.settings import StoreSettings, storage_settings, store_settings


def _with_settings(command: Any) -> Any:
    return with_settings(command, stores=True)


@click.command("create", short_help="Make the DynamoDB table or the PostgreSQL schema of a manifest store.")
@click.argument("lake_root", metavar="[LAKE]", required=False, envvar=variable("lake_root"))
@_with_settings
@click.option(
    "--kind", required=True, type=click.Choice(("dynamodb", "postgres")), help="The manifest store to make ready."
)
def create(lake_root: str | None, kind: str, **arguments: Any) -> None:
    """Make the DynamoDB table or the PostgreSQL schema of a manifest store, if it is missing.

    One serves many lakes, so LAKE may be left out; it is not changed. For dynamodb, the least IAM policy that writers,
    readers and 'singerlake gc' need goes to standard output, as JSON. Only $SINGERLAKE_POSTGRES_URL gives the URL of
    PostgreSQL.
    """
    del lake_root
    config = settings_in(arguments)
    stores = store_settings(config)
    if kind == "dynamodb":
        _create_dynamodb(stores, config)
    else:
        _create_postgres(stores)


def _create_dynamodb(stores: StoreSettings, config: dict[str, Any]) -> None:
    from singerlake.stores.dynamodb.client import DynamoTable
    from singerlake.stores.dynamodb.tables import create_table, least_policy

    table = DynamoTable(
        stores.dynamodb_table,
        storage_settings(config).s3,
        endpoint_url=stores.dynamodb_endpoint_url,
        clock=SystemClock(),
    )
    arn = create_table(table)
    click.echo(f"table {shown(arn)} is ready; the least policy:", err=True)
    say_json(least_policy(arn, query_items=stores.dynamodb_query_items))


def _create_postgres(stores: StoreSettings) -> None:
    from singerlake.stores.postgres.schema import create_schema

    if not stores.postgres_url:
        raise SettingError("postgres_url is not set", hint=f"set ${variable('postgres_url')}")
    state = create_schema(stores.postgres_url, stores.postgres_schema)
    came = "made" if state.before is None else "unchanged" if state.before == state.after else "migrated"
    say(f"schema {shown(stores.postgres_schema)} is ready, {came}: version {state.after}")
