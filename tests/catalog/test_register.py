"""Catalogs of others lead to the newest metadata of the lake's tables, and what is not the lake's stays as it is."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from singerlake.errors import AccessDeniedError, ForeignManifestError, SettingError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.tables.maintain.register import RegisterResult
from tests.catalog.test_rest import answering, served
from tests.tables.delta.test_readers import PROPERTIES, capture, lake_in, record, rows_of
from tests.tables.iceberg.test_readers import TABLES
from tests.tables.tables import runner_of

NAME = ("published", "t")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lake_in(tmp_path / "a lake v0 (1)")
    turn(made)
    return made


def turn(lake: Lake) -> None:
    capture(lake, PROPERTIES, [record(id, 0) for id in range(3)])
    runner_of(lake).run(TABLES["latest"])


def objects(lake: Lake) -> dict[str, str]:
    return {entry.key: entry.etag for entry in lake.storage.list("")}


def told(result: RegisterResult) -> tuple[str, int, int | None]:
    (one,) = result.tables
    assert result.failed == ()
    return one.name, one.version, one.before


def refused(result: RegisterResult) -> str:
    (one,) = result.failed
    assert result.tables == ()
    assert isinstance(one.error, ForeignManifestError)
    return str(one.error)


@pytest.fixture
def sql(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'catalog.db'}"


def test_a_catalog_is_told_once_and_brought_up(lake: Lake, sql: str) -> None:
    before = objects(lake)
    assert told(lake.register_tables(sql)) == ("published.t", 1, None)
    assert told(lake.register_tables(sql)) == ("published.t", 1, 1)
    assert objects(lake) == before
    turn(lake)
    turn(lake)
    before = objects(lake)
    assert told(lake.register_tables(sql, ["t"])) == ("published.t", 3, 1)
    assert objects(lake) == before
    table = SqlCatalog("default", uri=sql).load_table(NAME)
    assert rows_of(table.scan().to_arrow()) == rows_of(lake.table("t").to_arrow().read_all())
    assert told(lake.register_tables(sql, namespace="a.b")) == ("a.b.t", 3, None)


def test_metadata_that_a_collector_deleted_and_a_table_made_anew_are_brought_up(lake: Lake, sql: str) -> None:
    turn(lake)
    assert told(lake.register_tables(sql)) == ("published.t", 2, None)
    turn(lake)
    lake.storage.delete_all(["published/t/metadata/v2.metadata.json"])
    assert told(lake.register_tables(sql)) == ("published.t", 3, 2)
    lake.drop_tables(["t"])
    turn(lake)
    assert told(lake.register_tables(sql)) == ("published.t", 1, 3)


def test_what_others_registered_or_wrote_stays(lake: Lake, sql: str, tmp_path: Path) -> None:
    shutil.copytree(lake.storage.url, tmp_path / "copy")
    copy = lake_in(tmp_path / "copy")
    assert "of another place" in refused(copy.register_tables(sql))
    copy.sync_catalog()
    told(copy.register_tables(sql))
    assert "the catalog has another table 'published.t'" in refused(lake.register_tables(sql))
    catalog = SqlCatalog("default", uri=sql)
    assert "/copy/" in catalog.load_table(NAME).metadata_location
    # Also where nothing says more whose it was.
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(FileNotFoundError):
        catalog.load_table(NAME)
    refused(lake.register_tables(sql))
    told(lake.register_tables(sql, namespace="own"))
    table = catalog.load_table(("own", "t"))
    table.append(table.scan().to_arrow())
    assert "another engine wrote to it" in refused(lake.register_tables(sql, namespace="own"))
    assert lake.table("t").rows == 3


def test_a_table_without_metadata_is_told_of_only_where_it_is_named(lake: Lake, sql: str) -> None:
    lake.drop_tables(["t"])
    lake.project(all=True)
    (name,) = lake.tables()
    assert lake.register_tables(sql).failed == ()
    (failure,) = lake.register_tables(sql, [name]).failed
    assert isinstance(failure.error, SettingError)


@pytest.mark.parametrize("to", ["nowhere", "mysql://x", "postgresql://kim:s3cret@host/db"])
def test_what_is_no_catalog_is_told_without_its_password(lake: Lake, to: str) -> None:
    with pytest.raises(SettingError) as raised:
        lake.register_tables(to)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("namespace", ["", "a.", ".a"])
def test_what_is_no_namespace_is_refused(lake: Lake, sql: str, namespace: str) -> None:
    with pytest.raises(SettingError, match="is not a namespace"):
        lake.register_tables(sql, namespace=namespace)


def test_a_catalog_that_is_down_is_one_error(lake: Lake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(StorageUnavailableError, match="the catalog failed: ConnectionError"):
        lake.register_tables(f"http://127.0.0.1:{port}")


def test_a_catalog_that_only_reads_is_one_error(lake: Lake) -> None:
    before = objects(lake)
    with served(lake.storage) as ask:
        url = ask("/healthz").url.removesuffix("/healthz")
        assert told(lake.register_tables(url)) == ("published.t", 1, 1)
        with pytest.raises(SettingError, match="does not let tables be registered"):
            lake.register_tables(url, namespace="other")
    with served(lake.storage, "s3cret") as ask, pytest.raises(AccessDeniedError, match="UnauthorizedError"):
        lake.register_tables(ask("/healthz").url.removesuffix("/healthz"))
    assert objects(lake) == before


class Rest:
    """A catalog that speaks the protocol: it keeps what it was told, and notes requests that change it. ``can`` has
    the endpoints that it offers beside reading."""

    def __init__(self, lake: Lake, can: tuple[str, ...], *, overwrites: bool = False, refuses: bool = False) -> None:
        self.lake, self.can, self.overwrites, self.refuses = lake, can, overwrites, refuses
        self.location: str | None = None
        self.changes: list[str] = []

    def config(self, request: Request) -> Response:
        path = "/v1/{prefix}/namespaces/{namespace}"
        endpoints = {"load": f"GET {path}/tables/{{table}}", "register": f"POST {path}/register"}
        endpoints["drop"] = f"DELETE {path}/tables/{{table}}"
        offered = [endpoints[each] for each in ("load", *self.can)]
        return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": offered})

    def table(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.changes.append(f"drop {request.query_params['purgeRequested']}")
            self.location = None
            return Response(status_code=204)
        return self._shown()

    async def register(self, request: Request) -> Response:
        asked = await request.json()
        if self.refuses:
            return _error(403, "ForbiddenException")
        if self.location is not None and not (self.overwrites and asked.get("overwrite")):
            return _error(409, "AlreadyExistsException")
        self.changes.append("overwrite" if self.location is not None else "register")
        self.location = asked["metadata-location"]
        return self._shown()

    def _shown(self) -> Response:
        if self.location is None:
            return _error(404, "NoSuchTableException")
        version = int(self.location.rpartition("/v")[2].partition(".")[0])
        stored = self.lake.storage.get(f"published/t/metadata/v{version}.metadata.json")
        assert stored is not None
        whole = b'{"metadata-location": "%s", "config": {}, "metadata": %s}' % (self.location.encode(), stored.body)
        return Response(whole, media_type="application/json")

    @contextmanager
    def url(self) -> Iterator[str]:
        path = "/v1/namespaces/published"
        routes = [
            Route("/v1/config", self.config),
            Route(f"{path}/tables/t", self.table, methods=["GET", "DELETE"]),
            Route(f"{path}/register", self.register, methods=["POST"]),
        ]
        with answering(Starlette(routes=routes)) as ask:
            yield ask("/").url


def _error(status: int, kind: str) -> JSONResponse:
    return JSONResponse({"error": {"message": "s3cret", "type": kind, "code": status}}, status_code=status)


@pytest.mark.parametrize(
    ("can", "overwrites", "changes"),
    [
        (("register", "drop"), True, ["register", "overwrite"]),
        (("register", "drop"), False, ["register", "drop False", "register"]),
    ],
)
def test_a_table_is_moved_at_once_where_the_catalog_can_and_never_purged(
    lake: Lake, can: tuple[str, ...], overwrites: bool, changes: list[str]
) -> None:
    catalog = Rest(lake, can, overwrites=overwrites)
    with catalog.url() as url:
        assert told(lake.register_tables(url)) == ("published.t", 1, None)
        turn(lake)
        assert told(lake.register_tables(url)) == ("published.t", 2, 1)
        assert told(lake.register_tables(url)) == ("published.t", 2, 2)
    assert catalog.changes == changes


@pytest.mark.parametrize("can", [(), ("drop",), ("register",)])
def test_nothing_is_dropped_where_it_could_not_be_registered_again(lake: Lake, can: tuple[str, ...]) -> None:
    catalog = Rest(lake, can)
    with catalog.url() as url:
        before = catalog.location = f"file://{lake.storage.url}/published/t/metadata/v1.metadata.json"
        turn(lake)
        with pytest.raises(SettingError, match="does not let tables be registered"):
            lake.register_tables(url)
    assert (catalog.location, catalog.changes) == (before, [])


def test_a_catalog_that_refuses_is_told_without_what_it_says(lake: Lake) -> None:
    with Rest(lake, ("register",), refuses=True).url() as url, pytest.raises(AccessDeniedError) as raised:
        lake.register_tables(url)
    assert "s3cret" not in str(raised.value)
