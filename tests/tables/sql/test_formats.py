"""Tables of statements in every format: runs that die at any of their requests, and values that none can have."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from singerlake.arrow.schema.columns import Array, Date, Field, Struct, Timestamp
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Format, Keep, TableDeclaration
from singerlake.tables.declaration.streams import Resolved
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.verify import verify_derived, verify_files
from singerlake.tables.project import run_tables
from singerlake.tables.read import LakeTable
from singerlake.tables.sql.write import WriteRows
from singerlake.tables.state.commit import load
from singerlake.tables.tasks.files import FileSpec
from tests.fakes import FakeClock
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage, Step
from tests.tables.delta.replay import replayed, rows_in
from tests.tables.iceberg import seen as iceberg
from tests.tables.sql.engine import Ids
from tests.tables.tables import memory_lake

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
BASE = TableDeclaration(name="base", tap="t", stream="s", keep=Keep.APPEND)
OLD, NEW = [0, 1], [0, 0, 1, 1, 2, 2]


class KilledError(BaseException):
    """The process is gone: nothing of it runs any more."""


class World:
    """A table of a statement over another one, which has changed since; and so has the statement."""

    def __init__(self, format: Format) -> None:
        self.clock = FakeClock()
        self.lake = memory_lake(clock=self.clock)
        assert isinstance(self.lake.storage, MemoryStorage)
        self.storage = self.lake.storage
        self.format = format
        build_stream(self.lake, "t", "s", SCHEMA, [{"id": 0}, {"id": 1}])
        self.run("base")
        build_stream(self.lake, "t", "s", SCHEMA, [{"id": 2}])

    def run(self, read: str) -> None:
        declared = TableDeclaration(
            name="t",
            tap="",
            stream="",
            keep=Keep.APPEND,
            sql=f"SELECT FROM {read}",
            format=self.format,
            iceberg=self.format is Format.DELTA,
            sort_by=("id",),
        )
        engine = Ids(self.storage)
        runner = self.lake.table_runner(sql=engine)
        results = list(run_tables(runner, [Resolved(each.name, each) for each in (BASE, declared)]))
        assert [each.error for each in results] == [None, None]

    def check(self, wanted: list[list[int]], when: str) -> None:
        """Readers find one of these in the table, and in its Delta log."""
        table = LakeTable.load(self.storage, "t")
        assert _ids(table.to_arrow(columns=["id"]).read_all().to_pylist()) in wanted, when
        assert not list(verify_files(self.lake.table_runner().engine(0), table.state)), when
        if self.format is Format.DELTA:
            log = replayed(self.storage, "t")
            assert log is not None
            assert _ids(rows_in(self.storage, "t", log)) in wanted, when
            rows = iceberg.newest_rows(self.storage)
            assert rows is not None
            assert _ids(rows) in wanted, when


def _ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("format", [Format.DELTA, pytest.param(Format.AVRO, marks=pytest.mark.thorough)])
def test_a_run_that_dies_at_any_of_its_requests_leaves_one_table_or_the_other(format: Format, stride: int) -> None:
    world = World(format)
    before = dict(world.storage._objects)
    for at in range(0, 1000, stride):
        world.storage._objects = dict(before)
        steps: list[Step] = []

        def hook(step: Step, steps: list[Step] = steps, at: int = at) -> None:
            steps.append(step)
            if len(steps) > at:
                raise KilledError

        world.storage.hook = hook
        try:
            world.run("base, base")
        except KilledError:
            pass
        else:
            break
        finally:
            world.storage.hook = lambda step: None
        when = f"killed at {at}, {steps[-1]}"
        world.check([OLD, NEW], when)
        world.run("base, base")
        world.check([NEW], when)
        assert not list(verify_derived(world.storage, load(world.storage, "t").state)), when  # type: ignore[union-attr]
    else:
        raise AssertionError("it never ends")
    assert at > 20
    later = world.clock.now() + timedelta(days=30)
    for days in (0, 30, 60):
        collect_table(
            world.storage,
            "t",
            now=lambda days=days: later + timedelta(days=days),  # type: ignore[misc]
            grace=timedelta(days=7),
            clock=world.clock,
            ids=world.lake.ids,
        )
    world.check([NEW], "collected")
    drop(world.storage, plan_drop(world.storage, "t"))
    assert not list(world.storage.list("published/t/"))


LAST = datetime(9999, 12, 31, 23, 59, 59, 999999)
FAR: dict[str, tuple[Any, pa.DataType, list[Any], Any]] = {
    "date": (Date(), pa.date32(), [date.min, None, date.max], (date.max - date(1970, 1, 1)).days + 1),
    "early": (Date(), pa.date32(), [], (date.min - date(1970, 1, 1)).days - 1),
    "local": (Timestamp(zoned=False), pa.timestamp("us"), [datetime.min, None, LAST], 253402300800_000_000),
    "zoned": (Timestamp(), pa.timestamp("us", "UTC"), [], -62135596800_000_001),
    "inside": (
        Array(Struct((Field("a", Date()),))),
        pa.list_(pa.struct([("a", pa.date32())])),
        [[{"a": date.max}, None], None],
        [{"a": 3_000_000}],
    ),
}


@pytest.mark.parametrize("kind", FAR)
def test_times_that_no_table_can_have_are_refused_before_they_are_written(kind: str) -> None:
    column, arrow, fine, far = FAR[kind]
    lake: Lake = memory_lake()
    place = FileSpec("t", 1, Format.PARQUET, (), 10, of_records=False)
    task = WriteRows(place, "run", Struct((Field("v", column),)), (), ())

    def batch(values: list[Any]) -> pa.RecordBatch:
        if not pa.types.is_nested(arrow) and isinstance(values[0], int):
            return pa.record_batch([pa.array(values, f"int{arrow.bit_width}").view(arrow)], names=["v"])
        return pa.record_batch([pa.array(values, arrow)], names=["v"])

    written = task(lake.storage, iter([batch([*fine, None])]))
    assert sum(file.rows for file in written.files) == len(fine) + 1
    if kind == "inside":
        days = pa.array([far[0]["a"]], pa.int32()).view(pa.date32())
        inner = pa.StructArray.from_arrays([days], names=["a"])
        wrong = pa.record_batch([pa.ListArray.from_arrays([0, 1], inner)], names=["v"])
    else:
        wrong = batch([far])
    with pytest.raises(SettingError, match="column 'v' of the statement has a date or a time beyond the years 1 to"):
        task(lake.storage, iter([wrong]))
