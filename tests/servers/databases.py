"""Databases for the manifest stores that need one, shared by a session: each test has streams of its own in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.clock import SystemClock
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.tables import create_table
from singerlake.stores.postgres.schema import create_schema
from tests.servers.dynamodb import DynamoServer
from tools.postgres import Server

NAME = "suite"


@pytest.fixture(scope="session")
def dynamodb_ready(dynamodb_session: DynamoServer) -> DynamoServer:
    """The session's server, with a table."""
    endpoint_url = dynamodb_session.endpoint_url
    create_table(DynamoTable(NAME, dynamodb_session.settings(), endpoint_url=endpoint_url, clock=SystemClock()))
    return dynamodb_session


@pytest.fixture
def dynamodb_table(dynamodb_ready: DynamoServer, dynamodb: DynamoServer) -> tuple[DynamoServer, str]:
    """A server free of faults, and its table."""
    del dynamodb_ready
    return dynamodb, NAME


@pytest.fixture(scope="session")
def postgres_schema(postgres: Server) -> tuple[str, str]:
    """A server's URL, and a schema with the store's tables in it."""
    create_schema(postgres.dsn, NAME)
    return postgres.dsn, NAME


@pytest.fixture
def store_config(request: pytest.FixtureRequest) -> Callable[[str], dict[str, str]]:
    """The settings of the target and the commands with which a lake uses a kind of manifest store."""

    def config(kind: str) -> dict[str, str]:
        if kind == "dynamodb":
            server, table = request.getfixturevalue("dynamodb_table")
            settings = server.settings()
            return {
                "manifest_store": kind,
                "dynamodb_table": table,
                "dynamodb_endpoint_url": server.endpoint_url,
                "aws_access_key_id": settings.access_key_id,
                "aws_secret_access_key": settings.secret_access_key,
                "aws_region": settings.region,
            }
        if kind == "postgres":
            url, schema = request.getfixturevalue("postgres_schema")
            return {"manifest_store": kind, "postgres_url": url, "postgres_schema": schema}
        return {"manifest_store": kind}

    return config
