"""Engines leave out files by partitions, and no row with them."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression, EqualTo, IsNull
from pyiceberg.table import StaticTable
from pyiceberg.transforms import parse_transform
from pyiceberg.types import BooleanType, DateType, IcebergType, LongType, StringType, TimestampType, TimestamptzType

from singerlake.arrow.schema.columns import (
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
    arrow_schema,
)
from singerlake.tables.declaration.model import NULL_PARTITION, ColumnRule, Partition, TableDeclaration
from singerlake.tables.iceberg.partitions import _Field, _is_alike
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from singerlake.tables.rows.partitions import PartitionColumn, with_partitions
from singerlake.tables.state.ids import Numbered
from tests.tables.delta.test_readers import PROPERTIES, capture, lake_in, rows_of
from tests.tables.iceberg.seen import entries, seen
from tests.tables.iceberg.test_readers import check_readers, metadata_of
from tests.tables.iceberg.world import DECLARED, World
from tests.tables.tables import runner_of

TIMES = (Timestamp(), Timestamp(zoned=False))
UNITS = ("year", "month", "day", "hour")
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
MOMENTS = st.datetimes(datetime.datetime(1970, 1, 1), LAST) | st.datetimes(datetime.datetime(1, 1, 1), LAST)
VALUES: list[tuple[Column, IcebergType, st.SearchStrategy[Any]]] = [
    (Boolean(), BooleanType(), st.booleans()),
    (Integer(), LongType(), st.integers(-(2**63), 2**63 - 1)),
    (Text(), StringType(), st.text(st.characters(codec="utf-8"), min_size=1)),
    (Date(), DateType(), st.dates()),
    (Timestamp(), TimestamptzType(), MOMENTS.map(lambda each: each.replace(tzinfo=datetime.UTC))),
    (Timestamp(zoned=False), TimestampType(), MOMENTS),
]
ALIKE = [
    (column, unit, iceberg, values)
    for column, iceberg, values in VALUES
    for unit in (None, *UNITS)
    if _is_alike(unit or "identity", column)
]


def value_of(column: Column, unit: str | None, value: Any) -> Any:
    """What the metadata says of the folder of a row."""
    rows = arrow_schema(Struct((Field("c", column),))).empty_table()
    rows = pa.table({"c": pa.array([value], rows.schema.field("c").type)})
    made = with_partitions(rows, [PartitionColumn("p", "f", "c", unit)])
    return field_of(column, unit).value(made.column("p")[0].as_py())


def field_of(column: Column, unit: str | None) -> _Field:
    return _Field(0, Partition("c", unit), Numbered(1, "c", column))


@pytest.mark.property
@pytest.mark.parametrize(("column", "unit", "iceberg", "values"), ALIKE, ids=str)
@given(data=st.data())
def test_a_value_is_that_of_the_transform(
    column: Column, unit: str | None, iceberg: IcebergType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values.filter(lambda each: each != NULL_PARTITION))
    if unit and value.year < 1970:
        with pytest.raises(ValueError, match="before 1970"):
            value_of(column, unit, value)
        return
    made = value_of(column, unit, value)
    transform = field_of(column, unit).transform
    if isinstance(made, datetime.date):
        made = (made - datetime.date(1970, 1, 1)).days
    if isinstance(value, datetime.datetime):
        value = (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    elif isinstance(value, datetime.date):
        value = (value - datetime.date(1970, 1, 1)).days
    assert made == parse_transform(transform).transform(iceberg)(value)
    if not isinstance(column, Text):
        assert value_of(column, unit, None) is None


@pytest.mark.parametrize("value", [None, "", NULL_PARTITION])
def test_texts_in_one_folder_with_others_have_no_value(value: str | None) -> None:
    with pytest.raises(ValueError, match="null and empty texts"):
        value_of(Text(), None, value)


@pytest.mark.parametrize(
    ("transform", "column"),
    [
        ("identity", Double()),
        ("identity", Decimal(10, 2, number=True, text=True)),
        ("identity", Timestamp()),
        ("identity", Timestamp(zoned=False)),
        ("hour", Date()),
    ],
)
def test_what_is_not_alike_is_no_partition(transform: str, column: Column) -> None:
    assert not _is_alike(transform, column)
    assert _is_alike("identity", JsonText())


RECORDS = [
    {"id": 0, "name": "a/b c%é", "flag": True, "size": 0.5, "day": "1969-12-31", "at": "1969-12-31T23:59:59.999999Z"},
    {"id": 1, "name": "", "flag": False, "size": -0.0, "day": "2026-03-29", "at": "2026-03-29T02:30:00+02:00"},
    {"id": 2, "name": None, "flag": None, "size": None, "day": None, "at": None},
    {"id": 3, "name": NULL_PARTITION, "flag": True, "size": 0.0, "day": "2026-01-01", "at": "2026-01-01T00:00:00Z"},
    {"id": 4, "name": "=", "flag": True, "size": 0.5, "day": "2025-12-31", "at": "2026-01-01T00:00:00+01:00"},
    {"id": 5, "name": "=", "flag": False, "size": 1.5, "day": "0001-01-01", "at": "0001-01-01T00:00:00Z"},
    {"id": 6, "name": "nan", "flag": False, "size": 9e99, "day": "9999-12-31", "at": "9999-12-31T23:59:59Z"},
]
LOCAL = ColumnRule(cast="local_timestamp")
CASES: dict[str, tuple[TableDeclaration, list[str]]] = {
    "identity": (
        replace(DECLARED, partition_by=tuple(map(Partition, ("name", "flag", "id", "day", "name")))),
        ["identity name", "identity flag", "identity id", "day day_day"],
    ),
    "month": (replace(DECLARED, partition_by=(Partition("at", "month"),)), ["month at_month"]),
    "all units": (
        replace(DECLARED, partition_by=tuple(Partition("at", each) for each in UNITS)),
        [f"{each} at_{each}" for each in UNITS],
    ),
    "local": (
        replace(DECLARED, partition_by=(Partition("at", "hour"),), columns={"at": LOCAL}, sort_by=("at",)),
        ["hour at_hour"],
    ),
    "days": (
        replace(DECLARED, partition_by=(Partition("day", "year"), Partition("day", "hour"), Partition("day", "day"))),
        ["year day_year", "day day_day"],
    ),
    "months of dates": (replace(DECLARED, partition_by=(Partition("day", "month"),)), ["year day_year"]),
    "dates twice": (
        replace(DECLARED, partition_by=tuple(Partition("day", each) for each in (None, "month", "day", "year"))),
        ["day day_day", "year day_year"],
    ),
    "what Iceberg cannot": (replace(DECLARED, partition_by=(Partition("size"), Partition("at"))), []),
    "names": (
        replace(
            DECLARED,
            partition_by=(Partition("name"), Partition("at", "day")),
            columns={"name": ColumnRule(rename="1 ü/x"), "day": ColumnRule(rename="at_day")},
        ),
        ["identity 1 ü/x", "day at_day_"],
    ),
}


def spec_of(found: StaticTable) -> list[str]:
    return [f"{each.transform} {each.name}" for each in found.spec().fields]


def predicates(rows: list[dict[str, Any]], name: str) -> Iterator[tuple[BooleanExpression, Any, list[Any]]]:
    """For each value of a column what asks for it, for pyiceberg and Polars, and the ids of its rows."""
    for value in {row[name] for row in rows}:
        own = value.isoformat() if isinstance(value, datetime.date) else value
        asked = IsNull(name) if value is None else EqualTo(name, own)
        same = polars.col(name).is_null() if value is None else polars.col(name) == value
        yield asked, same, sorted(row["id"] for row in rows if row[name] == value)


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
@pytest.mark.parametrize("kind", CASES)
def test_engines_find_the_rows_of_each_value_and_read_fewer_files(tmp_path: Path, kind: str) -> None:
    declared, spec = CASES[kind]
    lake = lake_in(tmp_path)
    capture(lake, PROPERTIES, RECORDS)
    runner_of(lake).run(declared)
    table = LakeTable.load(lake.storage, "t")
    found = check_readers(tmp_path, table)
    assert spec_of(found) == spec
    assert list(verify_derived(lake.storage, table.state)) == []
    rows = rows_of(table.to_arrow().read_all())
    columns = {field.source_id: found.schema().find_column_name(field.source_id) for field in found.spec().fields}
    for name in columns.values():
        assert name is not None
        fewest = len(table.state.files)
        for asked, same, ids in predicates(rows, name):
            scan = found.scan(row_filter=asked)
            assert sorted(scan.to_arrow().column("id").to_pylist()) == ids
            assert sorted(polars.scan_iceberg(found).filter(same).collect()["id"].to_list()) == ids
            fewest = min(fewest, len(list(scan.plan_files())))
        assert fewest < len(table.state.files)


def test_the_order_of_rows_is_said_up_to_the_first_double() -> None:
    world = World({**PROPERTIES, "v": {"type": "string"}})
    for sort_by, orders in ((("v", "id"), [("v", "id")]), (("at", "size", "id"), [("v", "id"), ("at",)]), ((), None)):
        world.capture()
        world.run(replace(DECLARED, sort_by=sort_by))
        made = seen(world.storage)
        ids = {each["id"]: each["name"] for each in made.body["schemas"][-1]["fields"]}
        said = {
            each["order-id"]: tuple(ids[field["source-id"]] for field in each["fields"])
            for each in made.body["sort-orders"]
        }
        assert list(said.values()) == [(), *(orders or [("v", "id"), ("at",), ("id",)])]
        (entry,) = (each for each in entries(world.storage, made, made.current) if each["status"] == 1)
        assert entry["data_file"]["sort_order_id"] == made.body["default-sort-order-id"] == max(said)


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_partitions_change_and_old_snapshots_are_read_as_before(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    turns = [(), ("name", "month(at)"), ("month(at)", "flag"), ("name", "month(at)")]
    snapshots = []
    for number, partition_by in enumerate(turns):
        capture(lake, PROPERTIES, [{**each, "size": number} for each in RECORDS[number:]])
        parts = tuple(Partition("at", "month") if "(" in each else Partition(each) for each in partition_by)
        runner_of(lake).run(replace(DECLARED, partition_by=parts))
        table = LakeTable.load(lake.storage, "t")
        found = check_readers(tmp_path, table)
        snapshots.append(rows_of(table.to_arrow().read_all()))
        for snapshot, rows in zip(found.metadata.snapshots, snapshots, strict=True):
            assert rows_of(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == rows
    specs = {each.spec_id: [field.field_id for field in each.fields] for each in found.specs().values()}
    assert specs == {0: [], 1: [1000, 1001], 2: [1001, 1002]}
    assert found.spec().spec_id == 1
    assert found.metadata.last_partition_id == 1002


def test_a_partition_by_another_type_of_its_column_begins_without_snapshots(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    declared = replace(DECLARED, partition_by=(Partition("at", "day"),))
    for columns, count in (({}, 1), ({}, 2), ({"at": LOCAL}, 1)):
        capture(lake, PROPERTIES, RECORDS)
        runner_of(lake).run(replace(declared, columns=columns))
        found = check_readers(tmp_path, LakeTable.load(lake.storage, "t"))
        assert (len(found.metadata.snapshots), spec_of(found)) == (count, ["day at_day"])


def test_a_column_that_the_declaration_does_not_name_is_no_partition(tmp_path: Path) -> None:
    """Of columns that differ by case one is called otherwise, and perhaps as another property."""
    lake = lake_in(tmp_path)
    text = {"type": "string"}
    capture(
        lake,
        {"id": {"type": "integer"}, "a": text, "A": text, "A_2": text},
        [{"id": 1, "a": "x", "A": "y", "A_2": "z"}],
    )
    for name, count in (("a", 1), ("A", 0), ("A_2", 0)):
        runner_of(lake).run(replace(DECLARED, partition_by=(Partition(name),)))
        table = LakeTable.load(lake.storage, "t")
        found = check_readers(tmp_path, table)
        made = seen(lake.storage)
        (entry,) = (each for each in entries(lake.storage, made, made.current) if each["status"] == 1)
        assert len(entry["data_file"]["partition"]) == count
        assert found.metadata_location == metadata_of(tmp_path)


def test_another_partition_in_the_metadata_is_found(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    capture(lake, PROPERTIES, RECORDS)
    runner_of(lake).run(replace(DECLARED, partition_by=(Partition("id"),)))
    (entry, *_) = (each for each in lake.storage.list("published/t/metadata/") if each.key.endswith("-m0.avro"))
    stored = lake.storage.get(entry.key)
    assert stored is not None
    reader = fastavro.reader(io.BytesIO(stored.body))
    records: list[Any] = list(reader)
    records[0]["data_file"]["partition"]["id"] += 1
    words = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
    body = io.BytesIO()
    fastavro.writer(body, reader.writer_schema, records, metadata=words)
    lake.storage.put(entry.key, body.getvalue())
    (finding,) = verify_derived(lake.storage, LakeTable.load(lake.storage, "t").state)
    assert "another partition" in finding.what


def test_values_of_erased_records_leave_the_metadata(tmp_path: Path) -> None:
    world = World({**PROPERTIES, "v": {"type": "string"}})
    declared = replace(DECLARED, partition_by=(Partition("v"),))
    secrets = [b"kim@example.com", b"kim%40example.com"]

    def holding() -> list[str]:
        found = []
        for entry in world.storage.list("published/"):
            stored = world.storage.get(entry.key)
            assert stored is not None
            body = stored.body
            if entry.key.endswith(".avro"):
                body = str(list(fastavro.reader(io.BytesIO(body)))).encode()
            if any(each in body + entry.key.encode() for each in secrets):
                found.append(entry.key)
        return found

    capture(world.lake, world.properties, [{"id": 1, "v": "kim@example.com"}, {"id": 2, "v": "lee"}])
    world.run(declared)
    assert any("/metadata/" in key for key in holding())
    stream = world.lake.existing_stream(declared.tap, declared.stream)
    stream.erase("v = 'kim@example.com'")
    world.run(declared)
    assert any("/metadata/" in key for key in holding()), "as what went"
    for _ in range(3):
        assert world.lake.verify(erased="v = 'kim@example.com'").findings
        world.gc(days=8)
    assert holding() == []
    assert world.state.retired == ()
