"""The REST catalog of a lake: what clients of the protocol get, and what nobody does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars
import pytest
import requests
import uvicorn
from pyiceberg.catalog import load_catalog
from starlette.types import ASGIApp

from singerlake.catalog.rest import application
from singerlake.catalog.serve import AskedHere
from singerlake.errors import AccessDeniedError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.storage.port import Storage, Stored
from singerlake.tables.state.model import to_json
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage, Step
from tests.tables.delta.test_readers import PROPERTIES, capture, lake_in, record, rows_of
from tests.tables.iceberg.test_readers import TABLES
from tests.tables.iceberg.world import DECLARED, World
from tests.tables.tables import runner_of

Ask = Callable[..., requests.Response]
T = "/v1/namespaces/published/tables/t"


@contextmanager
def served(storage: Storage, token: str | None = None) -> Iterator[Ask]:
    """Asks a catalog of a lake on this machine, by method and path."""
    with answering(application(storage, token)) as ask:
        yield ask


@contextmanager
def answering(application: ASGIApp) -> Iterator[Ask]:
    """The same of any application."""
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    running = threading.Thread(target=server.run, daemon=True)
    running.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]

    def ask(path: str, method: str = "GET", **more: Any) -> requests.Response:
        return requests.request(method, f"http://127.0.0.1:{port}{path}", timeout=30, **more)

    try:
        yield ask
    finally:
        server.should_exit = True
        running.join(30)
        assert not running.is_alive()


@pytest.fixture
def world() -> World:
    made = World()
    made.turns(2)
    return made


def error_of(answer: requests.Response) -> tuple[int, str]:
    """The error in the form of the protocol."""
    told = answer.json()["error"]
    assert told.keys() == {"message", "type", "code"}
    assert told["code"] == answer.status_code
    return answer.status_code, told["type"]


def test_a_table_is_told_with_its_metadata(world: World) -> None:
    with served(world.storage) as ask:
        assert ask("/v1/namespaces").json()["namespaces"] == [["published"]]
        assert ask("/v1/namespaces?parent=published").json()["namespaces"] == []
        assert ask("/v1/namespaces/published").json() == {"namespace": ["published"], "properties": {}}
        listed = ask("/v1/namespaces/published/tables").json()["identifiers"]
        assert listed == [{"namespace": ["published"], "name": "t"}]
        told = ask(T)
        assert told.json()["metadata"] == world.check().body
        assert told.json()["metadata-location"] == f"{world.storage.url}/published/t/metadata/v2.metadata.json"
        assert [ask(path, "HEAD").status_code for path in ("/v1/namespaces/published", T)] == [204, 204]
        tag = told.headers["ETag"]
        same = ask(T, headers={"If-None-Match": f'"other", {tag}'})
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
        world.turns(1)
        assert ask(T, headers={"If-None-Match": tag}).json()["metadata"] == world.check().body
        endpoints = ask("/v1/config").json()["endpoints"]
    assert {each.split(" ")[0] for each in endpoints} == {"GET", "HEAD"}


@pytest.mark.parametrize(
    ("path", "method", "error"),
    [
        (T + "x", "GET", (404, "NoSuchTableException")),
        ("/v1/namespaces/published/tables/..%2Fraw", "GET", (404, "NotFoundException")),
        ("/v1/namespaces/published/tables/%00", "GET", (404, "NoSuchTableException")),
        ("/v1/namespaces/published/tables/%ED%A0%80", "GET", (404, "NoSuchTableException")),
        ("/v1/namespaces/raw", "GET", (404, "NoSuchNamespaceException")),
        ("/v1/namespaces/published%1Fx/tables", "GET", (404, "NoSuchNamespaceException")),
        ("/v1/namespaces?parent=other", "GET", (404, "NoSuchNamespaceException")),
        ("/v1/namespaces", "POST", (406, "UnsupportedOperationException")),
        (T, "DELETE", (406, "UnsupportedOperationException")),
        (T, "POST", (406, "UnsupportedOperationException")),
        ("/", "GET", (404, "NotFoundException")),
        ("/raw/singerlake.json", "GET", (404, "NotFoundException")),
    ],
)
def test_what_is_not_there_and_what_would_write_is_refused(
    world: World, path: str, method: str, error: tuple[int, str]
) -> None:
    before = dict(world.storage._objects)
    with served(world.storage) as ask:
        assert error_of(ask(path, method, data=b"{}" if method == "POST" else None)) == error
    assert world.storage._objects == before


def test_a_table_without_metadata_is_not_one(world: World) -> None:
    build_stream(world.lake, "tap", "other", {"properties": PROPERTIES}, [{"id": 1}], key_properties=["id"])
    world.lake.project(all=True, tables=("other",))
    with served(world.storage) as ask:
        assert len(ask("/v1/namespaces/published/tables").json()["identifiers"]) == 1
        assert error_of(ask("/v1/namespaces/published/tables/other")) == (404, "NoSuchTableException")
        world.storage.put("published/t/metadata/v3.metadata.json", b"{}")
        lost = ask(T)
    assert error_of(lost) == (404, "NoSuchTableException")
    assert "run 'singerlake catalog sync'" in lost.json()["error"]["message"]


@pytest.mark.parametrize(
    ("error", "status"), [(StorageUnavailableError("a-secret-place"), 503), (AccessDeniedError("a-secret-place"), 403)]
)
def test_a_lake_that_does_not_answer_is_told_without_its_places(
    world: World, error: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    def away(step: Step) -> None:
        raise error

    with served(world.storage) as ask:
        world.storage.hook = away
        answer = ask(T)
        assert error_of(answer)[0] == status
        assert "a-secret-place" not in answer.text
        assert "a-secret-place" in caplog.text
        assert ask("/healthz").text == "ok\n"
        world.storage.hook = lambda step: None
        assert ask(T).status_code == 200


def test_who_has_no_token_gets_nothing(world: World) -> None:
    with served(world.storage, "s3cret") as ask:
        for given in ("", "Bearer s3cre", "Bearer s3crett", "Basic s3cret", "s3cret", "Bearer  s3cret"):
            headers = {"Authorization": given} if given else {}
            for path in (T, "/v1/config", "/nowhere"):
                assert error_of(ask(path, headers=headers)) == (401, "NotAuthorizedException")
        for scheme in ("Bearer", "bearer"):
            assert ask(T, headers={"Authorization": f"{scheme} s3cret"}).status_code == 200
        assert ask("/healthz").status_code == 200


def test_a_thousand_tables_are_listed_side_by_side(world: World) -> None:
    """At 30 ms a request, one after the other would take half a minute."""

    class Slow(MemoryStorage):
        def get(self, key: str) -> Stored | None:
            time.sleep(0.03)
            return super().get(key)

    storage = Slow(clock=world.clock, ids=world.lake.ids)
    for number in range(1000):
        name = f"t{number:04}"
        state = msgspec.structs.replace(world.state, table=name, files=(), retired=())
        storage.put(f"published/{name}/_table.json", to_json(state))
    with served(storage) as ask:
        begun = time.monotonic()
        assert len(ask("/v1/namespaces/published/tables").json()["identifiers"]) == 1000
        took = time.monotonic() - begun
        assert took < 10


def test_a_table_that_is_not_declared_so_any_more_is_not_one(world: World) -> None:
    world.run(replace(DECLARED, iceberg=False))
    with served(world.storage) as ask:
        assert ask("/v1/namespaces/published/tables").json()["identifiers"] == []
        assert error_of(ask(T)) == (404, "NoSuchTableException")


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_clients_find_tables_by_name(tmp_path: Path) -> None:
    lake = lake_in(tmp_path / "lake")
    capture(lake, PROPERTIES, [record(id, 0) for id in range(8)])
    runner_of(lake).run(TABLES["latest"])
    with served(lake.storage, "s3cret") as ask:
        url = ask("/healthz").url.removesuffix("/healthz")
        catalog = load_catalog("lake", type="rest", uri=url, token="s3cret")
        assert catalog.list_namespaces() == [("published",)]
        assert catalog.list_tables("published") == [("published", "t")]
        assert (catalog.table_exists("published.t"), catalog.table_exists("published.u")) == (True, False)
        table = catalog.load_table("published.t")
        wanted = rows_of(lake.table("t").to_arrow().read_all())
        assert rows_of(table.scan().to_arrow()) == wanted
        assert rows_of(polars.scan_iceberg(table).collect().to_arrow()) == wanted
        capture(lake, PROPERTIES, [record(id, 1) for id in range(8)])
        runner_of(lake).run(TABLES["latest"])
        assert rows_of(table.refresh().scan().to_arrow()) == rows_of(lake.table("t").to_arrow().read_all())
        with pytest.raises(Exception, match="does not support endpoint"):
            table.append(table.scan().to_arrow())
    assert Lake.open(str(tmp_path / "lake")).catalog().entries[0].current


def test_many_readers_at_once_get_whole_answers(world: World) -> None:
    with served(world.storage) as ask:
        answers: list[Any] = []
        readers = [threading.Thread(target=lambda: answers.append(ask(T).json()["metadata"])) for _ in range(100)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert answers == [world.check().body] * 100
    assert DECLARED.iceberg


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.2:1", 200),
        ("[::1]:8181", 200),
        ("LOCALHOST:8181", 200),
        ("evil.example", 403),
        ("evil_one.example:8181", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.0.2.1", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_a_name_that_another_site_leads_here_is_refused(world: World, host: str, status: int) -> None:
    with answering(AskedHere(application(world.storage))) as ask:
        assert ask("/v1/config", headers={"Host": host}).status_code == status
