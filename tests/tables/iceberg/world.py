"""A table with Iceberg metadata, in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from tests.storage.memory import Step
from tests.tables.delta import world as delta
from tests.tables.iceberg.seen import Seen, entries, objects, rows_in, seen

DECLARED = replace(delta.DECLARED, format=Format.PARQUET, iceberg=True)
GRACE, PROPERTIES = delta.GRACE, delta.PROPERTIES
Rows = list[dict[str, Any]]


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row.get("_singerlake_offset", 0), str(row)))


class World(delta.World):
    """``was`` has the rows of each state that was published, by its id."""

    def __init__(self, properties: dict[str, Any] | None = None) -> None:
        super().__init__(properties)
        self.was: dict[str, Rows] = {}

    def run(self, declared: TableDeclaration = DECLARED) -> None:
        super().run(declared)
        self.note()

    def note(self) -> None:
        self.was[self.state.id] = in_order(LakeTable(self.storage, self.state).to_arrow().read_all().to_pylist())

    @property
    def metadata(self) -> dict[str, bytes]:
        return objects(self.storage)

    def check(self) -> Seen:
        """The metadata shows the table, and each of its snapshots the table as it was."""
        made = seen(self.storage)
        assert seen(self.storage, by_hint=True) == made
        assert list(verify_derived(self.storage, self.state)) == []
        rows = in_order(rows_in(self.storage, made, made.current))
        assert rows == in_order(LakeTable(self.storage, self.state).to_arrow().read_all().to_pylist())
        for before, snapshot in zip([None, *made.snapshots], made.snapshots, strict=False):
            assert in_order(rows_in(self.storage, made, snapshot)) == self.was[snapshot["summary"]["singerlake.id"]]
            if before is not None:
                assert snapshot["parent-snapshot-id"] == before["snapshot-id"]
                assert snapshot["sequence-number"] == before["sequence-number"] + 1
                assert snapshot["timestamp-ms"] > before["timestamp-ms"]
                then, now = (entries(self.storage, made, each) for each in (before, snapshot))
                assert _paths(now, 2) == _paths(then, 0, 1) - _paths(now, 0, 1)
                assert _paths(now, 1) == _paths(now, 0, 1) - _paths(then, 0, 1)
        assert [each["snapshot-id"] for each in made.body["snapshot-log"]] == [
            each["snapshot-id"] for each in made.snapshots
        ]
        used = {each["schema-id"] for each in made.snapshots}
        assert {each["schema-id"] for each in made.body["schemas"]} == used | {made.body["current-schema-id"]}
        return made

    def behind(self) -> None:
        """A run that dies between the state and the metadata."""
        self.capture()

        def hook(step: Step) -> None:
            if step.operation == "put" and "/metadata/" in step.key:
                raise StorageUnavailableError("away")

        self.storage.hook = hook
        with pytest.raises(StorageUnavailableError):
            self.run()
        self.storage.hook = lambda step: None
        self.note()


def _paths(entries: list[dict[str, Any]], *statuses: int) -> set[str]:
    return {each["data_file"]["file_path"] for each in entries if each["status"] in statuses}
