"""A table's run in the simulation: the product's plan, commit and retries around work that is as small as can be.

The rows of the stand-in are offsets, so that a row that is lost or twice is seen at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from singerlake.clock import Clock
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest, Position, SchemaVersion
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.run.one_table import TableRunner
from singerlake.tables.run.plan import TablePlan
from singerlake.tables.run.write import TableAttempt
from singerlake.tables.state.keys import file_path, scratch_path, table_prefix
from singerlake.tables.state.model import TableFile
from singerlake.tables.tasks.files import _body
from singerlake.work.engine import Threads
from tests.simulation.world.storage import Spooled

if TYPE_CHECKING:
    from tests.simulation.world.world import World

TAP, STREAM, TABLE = "t", "s", "t"
DECLARATION = TableDeclaration(name=TABLE, tap=TAP, stream=STREAM, keep=Keep.APPEND)
PREFIX = table_prefix(TABLE)
_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
_AT = "2026-01-01T00:00:00.000000Z"


def manifest(offset: int) -> Manifest:
    """The stream with that many messages."""
    one = DataFile(
        id="raw",
        path="v/raw",
        version="v",
        offset=0,
        messages=max(1, offset),
        records=max(1, offset),
        bytes=1,
        raw_bytes=1,
        sha256="",
        first=_AT,
        last=_AT,
        members=(),
    )
    return Manifest(
        format=1,
        tap=TAP,
        stream=STREAM,
        store="log",
        lineage="lineage",
        created=_AT,
        transaction=Position(number=offset, id=str(offset)),
        next_offset=offset,
        versions={"v": "v1"},
        schemas={"v": SchemaVersion(schema=_SCHEMA, first_offset=0, first_seen=_AT)},
        files=(one,),
    )


def rows_in(body: bytes) -> list[int]:
    """The offsets that a file of the stand-in holds."""
    return list(json.loads(body))


class SimulatedRunner(TableRunner):
    """The product's, with other work."""

    def _work(self, plan: TablePlan) -> TableAttempt:
        return SimulatedWork(self.storage, self.engine, plan, self.ids(), identify=self.ids)


class SimulatedWork(TableAttempt):
    """New offsets become a file, by way of scratch; now and then with the offsets of the file before."""

    def __init__(
        self,
        storage: Storage,
        engine: Callable[[int], Any],
        plan: TablePlan,
        id: str,
        *,
        identify: Callable[[], str],
    ) -> None:
        super().__init__(storage, engine, plan, id)
        self._identify = identify

    def do(self) -> None:
        plan = self.plan
        offsets = list(range(plan.start, plan.stop))
        key = PREFIX + scratch_path(self.id, self._identify())
        self.scratch.append(key)
        self._upload(key, offsets)
        with self.storage.open(key) as stored:
            offsets = rows_in(stored.read())
        kept = plan.files
        if kept and plan.stop % 3 != 0:
            last, kept = kept[-1], kept[:-1]
            assert last.path is not None
            offsets = rows_in(_body(self.storage, PREFIX + last.path, last.bytes, last.sha256)) + offsets
        self.files = kept
        for part in _halves(offsets):
            self._write(part)
        self.files = (*kept, *self.made)

    def _write(self, offsets: list[int]) -> None:
        id = self._identify()
        path = file_path(TABLE, self.plan.generation, (), id, "parquet")
        body = json.dumps(offsets).encode()
        file = TableFile(
            id=id,
            path=path,
            rows=len(offsets),
            bytes=len(body),
            sha256=hashlib.sha256(body).hexdigest(),
            first=(offsets[0],),
            last=(offsets[-1],),
            offsets=(offsets[0], offsets[-1]),
        )
        self.made.append(file)
        self._upload(PREFIX + path, offsets)

    def _upload(self, key: str, offsets: list[int]) -> None:
        self.storage.upload(key, cast("Path", Spooled(json.dumps(offsets).encode())))


def _halves(offsets: list[int]) -> Iterator[list[int]]:
    middle = len(offsets) // 2 if len(offsets) > 3 else 0
    for part in (offsets[:middle], offsets[middle:]):
        if part:
            yield part


def runner_of(world: World, clock: Clock) -> SimulatedRunner:
    """One process's runner."""
    return SimulatedRunner(
        world.storage,
        lambda: "lake",
        lambda tap, stream: manifest(world.shared.get("offset", 1)),
        lambda size: Threads(world.storage),
        clock,
        world.ids,
    )
