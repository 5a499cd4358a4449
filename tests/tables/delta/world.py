"""A table in the format delta, in memory."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from singerlake.errors import (
    StorageUnavailableError,
)
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from singerlake.tables.state.model import TableState
from tests.fakes import FakeClock
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage, Step
from tests.tables.delta.replay import objects, replayed, rows_in
from tests.tables.tables import STREAM, TAP, memory_lake, runner_of

DECLARED = TableDeclaration(name="t", tap=TAP, stream=STREAM, format=Format.DELTA)
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "v": {"type": ["null", "string"]}}
GRACE = timedelta(days=7)


class World:
    """A lake in memory with a table of one stream."""

    def __init__(self, properties: dict[str, Any] | None = None) -> None:
        self.clock = FakeClock()
        self.lake: Lake = memory_lake(clock=self.clock)
        assert isinstance(self.lake.storage, MemoryStorage)
        self.storage = self.lake.storage
        self.properties = properties or PROPERTIES
        self.turn = 0

    def capture(self, *ids: int) -> None:
        self.turn += 1
        records = [{"id": id, "v": f"{self.turn}"} for id in ids or (1, self.turn)]
        build_stream(self.lake, TAP, STREAM, {"properties": self.properties}, records, key_properties=["id"])

    def run(self, declared: TableDeclaration = DECLARED) -> None:
        runner_of(self.lake).run(declared)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.capture()
            self.run()

    def gc(self, *, days: float = 0) -> None:
        self.clock.seconds += 86400 * days
        collect_table(self.storage, "t", now=self.clock.now, grace=GRACE, clock=self.clock, ids=self.lake.ids)

    @property
    def state(self) -> TableState:
        return LakeTable.load(self.storage, "t").state

    @property
    def log(self) -> dict[str, bytes]:
        return objects(self.storage, "t")

    def check(self) -> None:
        """The log shows the table."""
        made = replayed(self.storage, "t")
        assert made is not None
        table = LakeTable(self.storage, self.state)
        found = sorted(rows_in(self.storage, "t", made), key=lambda row: row["id"])
        assert found == sorted(table.to_arrow().read_all().to_pylist(), key=lambda row: row["id"])
        assert made.transactions["singerlake"] == table.state.number
        assert list(verify_derived(self.storage, table.state)) == []
        commits = [body for name, body in sorted(self.log.items()) if name.endswith(".json")]
        infos = [json.loads(body.splitlines()[0]).get("commitInfo") for body in commits]
        numbers = [info["singerlake"]["number"] for info in infos if info is not None]
        assert numbers == sorted(numbers), "a version shows an older table than the one before it"

    def behind(self) -> None:
        """A run that dies between the two commits."""
        self.capture()

        def hook(step: Step) -> None:
            if step.operation == "put" and "_delta_log" in step.key:
                raise StorageUnavailableError("away")

        self.storage.hook = hook
        with pytest.raises(StorageUnavailableError):
            self.run()
        self.storage.hook = lambda step: None
