"""One stream whose log is in DynamoDB, as the tests of that log see it.

A real table joins when ``SINGERLAKE_TEST_DYNAMODB_TABLE`` is set, with ``SINGERLAKE_TEST_DYNAMODB_ENDPOINT``,
``..._REGION``, ``..._ACCESS_KEY_ID`` and ``..._SECRET_ACCESS_KEY`` where it needs them. It is made where there is none;
each test writes under a table id of its own, and leaves that behind.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, Position
from singerlake.format.state.transactions import Change, Transaction
from singerlake.stores.commit import commit_transaction
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.log import DynamoLog
from singerlake.stores.dynamodb.tables import create_table
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from tests.fakes import FakeClock
from tests.format.state.test_fold import check_log
from tests.servers.dynamodb import DynamoServer
from tests.storage.memory import MemoryStorage

FOLDER = layout.log_prefix("t", "s")
REAL = "SINGERLAKE_TEST_DYNAMODB_"


class WatchedTable(DynamoTable):
    """Calls ``hook`` with each request's operation, before it is sent and after it was answered."""

    hook: Callable[[str, bool], None] = staticmethod(lambda operation, done: None)

    @property
    def _client(self) -> Any:
        return _Watched(super()._client, self.hook)


@dataclass(frozen=True)
class _Watched:
    client: Any
    hook: Callable[[str, bool], None]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.client, name)
        if name == "exceptions":
            return method

        def call(**arguments: Any) -> Any:
            self.hook(name, False)
            reply = method(**arguments)
            self.hook(name, True)
            return reply

        return call


@dataclass
class Stream:
    """The stream ``s`` of the tap ``t``. Every ``log()`` and ``store()`` is another writer's or reader's."""

    table_name: str
    endpoint_url: str | None
    settings: S3Settings
    clock: FakeClock = field(default_factory=FakeClock)
    table_id: str = field(default_factory=lambda: f"{random_id()}/t/s")

    def __post_init__(self) -> None:
        self.storage = MemoryStorage(clock=self.clock, ids=random_id)
        self._place = StreamPlace(self.storage, "t", "s", self.clock, random_id)
        self._shared = self.table()

    def table(self) -> WatchedTable:
        return WatchedTable(self.table_name, self.settings, endpoint_url=self.endpoint_url, clock=self.clock)

    def log(self, table: DynamoTable | None = None) -> DynamoLog:
        return DynamoLog(self._place, table or self._shared, table_id=self.table_id)

    def store(self, table: DynamoTable | None = None) -> NumberedStore:
        return NumberedStore("dynamodb", self.log(table), self._place)

    def born(self) -> Loaded:
        return self.store().create(first_state())

    def committed(self, base: Loaded, *changes: Change) -> Loaded:
        for change in changes:
            transaction = Transaction(id=random_id(), at="2026-02", change=change)
            outcome = commit_transaction(self.store(), base, transaction, clock=self.clock)
            assert isinstance(outcome, Loaded), outcome
            base = outcome
        return base

    def listed(self) -> list[str]:
        loaded = self.store().load()
        assert loaded is not None
        check_log(loaded.manifest)
        return [file.id for file in loaded.manifest.files]

    def client(self) -> Any:
        """What looks behind the log's back."""
        return super(WatchedTable, self._shared)._client

    def items(self) -> dict[int, dict[str, Any]]:
        """The log's items by number, as they are in the table."""
        reply = self.client().query(
            TableName=self.table_name,
            ConsistentRead=True,
            KeyConditionExpression="table_id = :id",
            ExpressionAttributeValues={":id": {"S": self.table_id}},
        )
        return {int(item["number"]["N"]): item for item in reply["Items"]}

    def put(self, number: int, **attributes: dict[str, Any]) -> None:
        """Overwrite an item."""
        item = {"table_id": {"S": self.table_id}, "number": {"N": str(number)}, **attributes}
        self.client().put_item(TableName=self.table_name, Item=item)

    def kinds(self) -> list[tuple[int, str]]:
        """Number and kind of the objects in the stream's ``_log/``."""
        return sorted(layout.log_own_name_parts(name) or (-1, name) for name in self.objects())

    def objects(self) -> list[str]:
        """Names of the objects in the stream's ``_log/``."""
        return [entry.key[len(FOLDER) :] for entry in self.storage.list(FOLDER)]


def on(server: DynamoServer) -> Stream:
    """A new stream in a table of the test's own."""
    stream = on_a_new_table(server)
    server.requests()
    return stream


def on_a_new_table(server: DynamoServer) -> Stream:
    """The same on a server that tells nothing of the requests that it got."""
    stream = Stream(f"lake-{random_id()}", server.endpoint_url, server.settings())
    create_table(stream.table())
    return stream


def on_a_real_table() -> Stream:
    """A new stream in the table that the environment names."""
    given = {name: os.environ.get(REAL + name) for name in ("REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}
    settings = S3Settings(
        region=given["REGION"], access_key_id=given["ACCESS_KEY_ID"], secret_access_key=given["SECRET_ACCESS_KEY"]
    )
    stream = Stream(os.environ[REAL + "TABLE"], os.environ.get(REAL + "ENDPOINT"), settings)
    create_table(stream.table())
    return stream


AMAZONS = (pytest.param("local", marks=pytest.mark.thorough), *(("real",) if REAL + "TABLE" in os.environ else ()))
"""Where Amazon's own code says what is atomic: what several clients do at once is proved there alone."""
PLACES = ("server", *AMAZONS)


def open_place(request: pytest.FixtureRequest) -> Stream:
    """A new stream at one of ``PLACES``."""
    if request.param == "real":
        return on_a_real_table()
    if request.param == "local":
        return on_a_new_table(request.getfixturevalue("dynamodb_local_session"))
    return on(request.getfixturevalue("dynamodb"))


def first_state() -> Manifest:
    return fold.empty(
        tap="t", stream="s", store="dynamodb", lineage=random_id(), created="2026", transaction_id=random_id()
    )


def state_at(number: int) -> Manifest:
    """A state after so many transactions; what they were does not matter."""
    return msgspec.structs.replace(first_state(), transaction=Position(number, random_id()))


def filled(stream: Stream, count: int) -> DynamoLog:
    log = stream.log()
    for number in range(count):
        assert log.append(number, b'{"number":%d}' % number)
    return log


def numbers(log: DynamoLog, after: int = -1) -> list[int]:
    return [number for number, _ in log.read(after, whole=True)]
