"""The target with ``atomic_run`` where storage or the database is full, or denies access: the run is there whole or not
at all, the error says which, and the next run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg.sql import SQL, Identifier

from singerlake.adapters import ATOMIC_STORES, ON_THE_LAKE
from singerlake.clock import random_id
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.postgres.schema import create_schema
from singerlake.upkeep.verify import verify_metadata
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ALWAYS, S3Server
from tests.stores.postgres.place import session
from tests.target.atomic.test_s3 import brought, root, runs_in, viewed
from tests.target.support import ingest
from tools.postgres import Server

__all__ = ["root"]

Config = Callable[[str], dict[str, str]]
OF_S3 = {
    "full": ("QuotaExceeded", "the bucket's quota is used up; raise it or free space"),
    "denied": ("AccessDenied", "storage denied access; grant s3:GetObject"),
}
OF_POSTGRES = {
    "full": ("53100", "PostgreSQL has no space left; make room on the server"),
    "denied": ("42501", "the user of postgres_url lacks a permission in PostgreSQL; grant"),
}
OBJECTS = {
    kind: (".singer.gz", *(["/_log/"] if kind in ON_THE_LAKE else []), "/_commits/", "/manifest.json")
    for kind in ATOMIC_STORES
}
"""What the run writes to the bucket: a part of the keys."""
TABLES = ("streams", "transactions", "files", "commits")


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that could not decide against itself holds up the next one for a moment, not for a minute."""
    monkeypatch.setitem(Decisions.await_or_abort.__kwdefaults__ or {}, "patience", 0.1)


def refused(root: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], **settings: Any) -> str:
    """What is said of a run that fails. No STATE goes out."""
    with pytest.raises((SingerlakeError, SystemExit)) as raised:
        ingest(root, brought(1), **settings)
    assert capsys.readouterr().out == ""
    return f"{raised.value} {caplog.text}"


def go_on(root: str, said: str, **settings: Any) -> None:
    """The lake after a run that failed: its readers see all of it or nothing, and once the next run is there, they see
    it exactly if the error said so."""
    lake = Lake.open(root)
    assert runs_in(viewed(lake), {0, 1}) in ({0}, {0, 1})
    assert ingest(root, brought(2), **settings) == ['{"run": 2}']
    assert runs_in(viewed(lake), {0, 1, 2}) == ({0, 1, 2} if "an atomic run is in the lake" in said else {0, 2})
    assert verify_metadata(lake.storage) == ()


@pytest.mark.crossed("kind", "key", "trouble")
@pytest.mark.parametrize("trouble", OF_S3)
@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in OBJECTS.items() for key in keys])
def test_a_bucket_that_takes_no_more(
    s3: S3Server,
    root: str,
    store_config: Config,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    key: str,
    trouble: str,
) -> None:
    settings: dict[str, Any] = {"atomic_run": True, **store_config(kind), **s3.config()}
    assert ingest(root, brought(0), **settings) == ['{"run": 0}']
    code, says = OF_S3[trouble]
    s3.calm()
    s3.fail("PUT", status=403, code=code, key_contains=key, times=ALWAYS)
    said = refused(root, caplog, capsys, **settings)
    assert says in said
    # Behind the decision, which a database makes.
    assert ("an atomic run is in the lake" in said) is (
        key == "/manifest.json" or (key == "/_commits/" and kind not in ON_THE_LAKE)
    )
    s3.calm()
    go_on(root, said, **settings)


@contextmanager
def refusing(server: Server, schema: str, table: str, state: str) -> Iterator[None]:
    """A table of which each write fails with an SQLSTATE."""
    with session(server.dsn, schema) as connection:
        connection.execute(
            SQL("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS {}").format(
                f"BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END"
            )
        )
        connection.execute(
            SQL("CREATE TRIGGER refusing BEFORE INSERT OR UPDATE ON {} EXECUTE FUNCTION refuse()").format(
                Identifier(table)
            )
        )
    yield
    with session(server.dsn, schema) as connection:
        connection.execute("DROP FUNCTION refuse CASCADE")


@pytest.mark.crossed("table", "trouble")
@pytest.mark.parametrize("trouble", OF_POSTGRES)
@pytest.mark.parametrize("table", TABLES)
def test_a_postgresql_that_takes_no_more(
    s3: S3Server,
    root: str,
    postgres: Server,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    table: str,
    trouble: str,
) -> None:
    schema = random_id()
    create_schema(postgres.dsn, schema)
    store = {"manifest_store": "postgres", "postgres_url": postgres.dsn, "postgres_schema": schema}
    settings: dict[str, Any] = {"atomic_run": True, **store, **s3.config()}
    assert ingest(root, brought(0), **settings) == ['{"run": 0}']
    state, says = OF_POSTGRES[trouble]
    with refusing(postgres, schema, table, state):
        said = refused(root, caplog, capsys, **settings)
    assert says in said
    assert "is in the lake" not in said
    go_on(root, said, **settings)


def test_a_dynamodb_that_denies_access(
    s3: S3Server,
    root: str,
    store_config: Config,
    dynamodb: DynamoServer,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings: dict[str, Any] = {"atomic_run": True, **store_config("dynamodb"), **s3.config()}
    assert ingest(root, brought(0), **settings) == ['{"run": 0}']
    dynamodb.fail("TransactWriteItems", code="AccessDeniedException", times=ALWAYS)
    said = refused(root, caplog, capsys, **settings)
    assert "DynamoDB denied access" in said
    assert "is in the lake" not in said
    dynamodb.calm()
    go_on(root, said, **settings)
