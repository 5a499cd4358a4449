"""Runs of tables on S3 through a network and a server that lose, repeat, refuse and shorten what passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest

from singerlake.adapters import s3_storage
from singerlake.clock import SystemClock, random_id
from singerlake.errors import AccessDeniedError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.read import LakeTable
from tests.servers.fault_proxy.proxy import ALWAYS, Fault, FaultProxy, http_fault_proxy
from tests.servers.s3 import S3Server
from tests.tables.recompute import Declared, Expected, expected
from tests.tables.tables import (
    TABLE,
    capture,
    check_log,
    check_rows,
    check_state,
    declaration_of,
    messages_of,
    runner_of,
    small_sizes,
)
from tests.tables.test_crashes import DECLARED, SIZES, batches

BUCKET = "tables"
DECLARATIONS = {
    **DECLARED,
    "csv": Declared("latest", order_by=("at",), format="csv"),
    "delta-history": Declared("history", format="delta"),
}
REQUESTS = {
    "state": r"^PUT .*_table\.json$",
    "log": r"^PUT .*/_delta_log/",
    "file": r"^PUT .*/published/(?!.*(_table\.json|/_delta_log/))",
    "get": r"^GET .*/published/",
    "list": r"^GET .*list-type=2",
    "raw": r"^GET .*/raw/",
    "delete": r"^(DELETE|POST) ",
}
Inject = Callable[[FaultProxy, str], Fault]
FAULTS: dict[str, Inject] = {
    "busy": lambda proxy, what: proxy.error(what, status=503, code="SlowDown", times=2),
    "busy afterwards": lambda proxy, what: proxy.error(what, status=503, code="SlowDown", after=True),
    "broken afterwards": lambda proxy, what: proxy.error(what, status=500, code="InternalError", after=True, times=2),
    "conflict": lambda proxy, what: proxy.error(what, status=409, code="ConditionalRequestConflict", times=2),
    "request lost": lambda proxy, what: proxy.drop(what, after=False),
    "reply lost": lambda proxy, what: proxy.drop(what, after=True),
    "request cut": lambda proxy, what: proxy.cut_request(what),
    "reply cut": lambda proxy, what: proxy.cut_reply(what),
    "sent twice": lambda proxy, what: proxy.twice(what, times=ALWAYS),
}
"""Faults that a run lives through."""
CASES = list(product(["delta"], ["state", "log", "file", "get"], FAULTS))
"""Each fault at each request whose loss could be seen in a table. Without a log the requests are the same ones."""
SOME = [
    ("append", "state", "reply lost"),
    ("latest", "delete", "busy afterwards"),
    ("history", "file", "request cut"),
    ("sorted", "get", "reply cut"),
    ("csv", "state", "sent twice"),
    ("latest", "raw", "busy"),
    ("delta", "log", "broken afterwards"),
    ("delta", "list", "request lost"),
    ("delta-history", "state", "conflict"),
]
"""Each kind, each request and each fault once."""


class World:
    """A lake with two captures, of which a table has the first; near, and far behind the proxy."""

    def __init__(self, server: S3Server, proxy: FaultProxy, declared: Declared) -> None:
        prefix = random_id()
        self.declared = declared
        self.declaration = declaration_of(declared)
        self.near = _lake(s3_storage(BUCKET, prefix, server.settings(), clock=SystemClock(), ids=random_id))
        settings = server.settings(endpoint_url=proxy.url)
        self.far = _lake(s3_storage(BUCKET, prefix, settings, clock=SystemClock(), ids=random_id))
        self.batches = batches()
        capture(self.near, self.batches[0], SIZES)
        runner_of(self.near).run(self.declaration)
        capture(self.near, self.batches[1], SIZES)
        self.old, self.new = (expected(messages_of(self.batches[:count]), declared) for count in (1, 2))
        self.far.storage.capabilities()

    def run(self) -> None:
        runner_of(self.far).run(self.declaration)

    def check(self, wanted: Expected) -> None:
        """The table is this one, by ``verify`` and by the Delta log too, and all that it lists is there."""
        table = LakeTable.load(self.near.storage, TABLE)
        check_state(self.near.storage, table.state)
        check_rows(table, wanted, "through the proxy")
        if wanted is self.new:
            assert list(verify_rows(runner_of(self.near), table.state)) == []
        if self.declared.format == "delta":
            check_log(table, "through the proxy")


def _lake(storage: CloudStorage) -> Lake:
    return Lake(storage, clock=SystemClock(), ids=random_id)


@pytest.fixture(scope="module")
def proxy(s3_session: S3Server) -> Iterator[FaultProxy]:
    s3_session.create_bucket(BUCKET)
    with http_fault_proxy(s3_session.endpoint_url) as running:
        yield running


@pytest.fixture(autouse=True)
def _small(proxy: FaultProxy) -> Iterator[None]:
    with small_sizes(SIZES):
        yield
    proxy.calm()


@pytest.mark.parametrize(
    ("kind", "request_kind", "fault"),
    [
        *SOME,
        *(pytest.param(*case, marks=pytest.mark.thorough) for case in CASES[::3] if case not in SOME),
        *(pytest.param(*case, marks=pytest.mark.soak) for case in CASES if case not in (*SOME, *CASES[::3])),
    ],
)
def test_a_run_lives_through_a_fault(s3: S3Server, proxy: FaultProxy, kind: str, request_kind: str, fault: str) -> None:
    world = World(s3, proxy, DECLARATIONS[kind])
    met = FAULTS[fault](proxy, REQUESTS[request_kind])
    world.run()
    assert met.hits
    world.check(world.new)


def test_a_file_of_which_the_server_took_half_is_not_published(s3: S3Server, proxy: FaultProxy) -> None:
    world = World(s3, proxy, DECLARATIONS["latest"])
    proxy.truncate(REQUESTS["file"])
    with pytest.raises(StorageUnavailableError, match="another size"):
        world.run()
    world.check(world.old)
    world.run()
    world.check(world.new)


def test_a_server_that_comes_back_is_waited_for(s3: S3Server, proxy: FaultProxy) -> None:
    world = World(s3, proxy, DECLARATIONS["latest"])
    proxy.shut(0.3)
    world.run()
    world.check(world.new)


@pytest.mark.parametrize("what", ["state", "file"])
def test_a_run_that_may_not_write_says_so_and_changes_nothing(s3: S3Server, proxy: FaultProxy, what: str) -> None:
    world = World(s3, proxy, DECLARATIONS["latest"])
    proxy.error(REQUESTS[what], status=403, code="AccessDenied", times=ALWAYS)
    with pytest.raises(AccessDeniedError, match="s3:PutObject"):
        world.run()
    world.check(world.old)


def test_a_run_that_may_not_delete_publishes_all_the_same(s3: S3Server, proxy: FaultProxy) -> None:
    world = World(s3, proxy, DECLARATIONS["latest"])
    denied = proxy.error(REQUESTS["delete"], status=403, code="AccessDenied", times=ALWAYS)
    world.run()
    assert denied.hits
    world.check(world.new)
