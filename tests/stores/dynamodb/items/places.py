"""A lake whose store is in DynamoDB, with the entries of its segments as items, and a few files in a segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from singerlake.format import layout
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.files.segment import Segment
from singerlake.stores.dynamodb import items
from singerlake.stores.dynamodb.items import SegmentItems
from singerlake.stores.dynamodb.store import DynamoStore
from singerlake.stores.port import Loaded
from singerlake.stores.segments import objects
from singerlake.stores.segments.objects import SegmentCopy
from singerlake.stores.segments.stored import named_in
from tests.format.state.test_fold import add, new_file
from tests.servers.dynamodb import DynamoServer
from tests.storage.memory import Step
from tests.stores.stores import Place, make_place

TINY = Sizes(whole=2, segment=3, tail=1)
KEY = layout.manifest_key("t", "s")
SEGMENTS = layout.segments_prefix("t", "s")


@pytest.fixture(autouse=True)
def few_files_make_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "SIZES", TINY)
    monkeypatch.setattr(objects, "_KEPT", 0)


def place_with_items(request: pytest.FixtureRequest) -> Place:
    """A place with ``dynamodb_query_items``."""
    place = make_place("dynamodb", request)
    place.settings = replace(place.settings, dynamodb_query_items=True)
    place.lake = place.opened()
    return place


def without_items(place: Place) -> Place:
    """The same lake as somebody sees it who does not have the setting."""
    settings = replace(place.settings, dynamodb_query_items=False)
    other = Place("dynamodb", settings=settings, s3=place.s3, clock=place.clock, ids=place.ids)
    other.storage = place.storage
    other.lake = other.opened()
    return other


def filled(place: Place, count: int, base: Loaded | None = None) -> Loaded:
    """So many files more, and all of them published."""
    base = base or place.born()
    made = len(base.manifest.files)
    loaded = place.committed(base, add(*(new_file(f"f{made + each:03d}") for each in range(count))))
    place.store().publish(loaded, run_ended=True)
    return loaded


def store_of(place: Place) -> DynamoStore:
    store = place.store()
    assert isinstance(store, DynamoStore)
    return store


def items_of(place: Place) -> SegmentItems:
    """The copies that the store has."""
    copies = store_of(place).segments.copies
    assert isinstance(copies, SegmentItems)
    return copies


def kept(place: Place) -> dict[str, SegmentCopy]:
    """What there is of each segment."""
    return {copy.name: copy for copy in items_of(place).kept()}


def named(place: Place) -> tuple[Segment, ...]:
    """The segments that ``manifest.json`` names."""
    stored = place.storage.get(KEY)
    assert stored is not None
    return named_in(stored.body)


class Table:
    """The table behind the store's back."""

    def __init__(self, server: DynamoServer, place: Place) -> None:
        self.client = server.client()
        self.name = place.settings.dynamodb_table
        self.registry = f"{place.lake.known_lake_id()}/t/s#files"

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The items of one segment."""
        return self._query(f"{self.registry}@{name}")

    def registered(self) -> list[dict[str, Any]]:
        return self._query(self.registry)

    def put(self, item: dict[str, Any]) -> None:
        self.client.put_item(TableName=self.name, Item=item)

    def delete(self, item: dict[str, Any]) -> None:
        key = {"table_id": item["table_id"], "number": item["number"]}
        self.client.delete_item(TableName=self.name, Key=key)

    def _query(self, table_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.query(
            TableName=self.name,
            KeyConditionExpression="table_id = :id",
            ExpressionAttributeValues={":id": {"S": table_id}},
        )["Items"]
        return found


def server_of(request: pytest.FixtureRequest) -> DynamoServer:
    server: DynamoServer = request.getfixturevalue("dynamodb_table")[0]
    return server


def operations(server: DynamoServer) -> list[str]:
    """What was asked since the last call."""
    return [request.headers["x-amz-target"].rpartition(".")[2] for request in server.requests()]


class SegmentsRead:
    """Which segments' objects are read from a storage from here on."""

    def __init__(self, place: Place) -> None:
        self.keys: list[str] = []
        place.storage.hook = self._saw

    def _saw(self, step: Step) -> None:
        if step.operation == "get" and not step.done and step.key.startswith(SEGMENTS) and "unnamed" not in step.key:
            self.keys.append(step.key)


def ids_of(files: Sequence[Any]) -> list[str]:
    return [file.id for file in files]
