"""Engines that read Delta find the rows that the lake's own reader finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.tables.declaration.model import ColumnRule, Format, Keep, Partition, TableDeclaration
from singerlake.tables.read import LakeTable
from tests.lakes import build_stream
from tests.tables.tables import STREAM, TAP, runner_of

OFFSET = "_singerlake_offset"
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "flag": {"type": ["null", "boolean"]},
    "size": {"type": ["null", "number"]},
    "price": {"type": ["null", "string"], "format": "singer.decimal", "precision": 38, "scale": 9},
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": ["null", "string"]}},
    "where": {"type": ["null", "object"], "properties": {"x.y": {"type": ["null", "integer"]}}},
}
DECLARED = TableDeclaration(name="t", tap=TAP, stream=STREAM, format=Format.DELTA)
TABLES = {
    "append": replace(DECLARED, keep=Keep.APPEND),
    "latest": DECLARED,
    "history": replace(DECLARED, keep=Keep.HISTORY),
    "parted": replace(DECLARED, partition_by=(Partition("name"), Partition("at", "month")), sort_by=("at",)),
    "local": replace(DECLARED, columns={"at": ColumnRule(cast="local_timestamp"), "day": ColumnRule(rename="a.b")}),
}


def record(id: int, turn: int) -> dict[str, Any]:
    if id % 4 == 3:
        return {"id": id}
    return {
        "id": id,
        "name": ("a/b c%é", "=", "x" * 90, "plain")[(id + turn) % 4],
        "flag": bool(id % 2),
        "size": id / 3,
        "price": f"{id}.000000001",
        "day": f"2026-01-{id + 1:02}",
        "at": f"2026-0{turn + 1}-01T00:00:00.00000{id}Z",
        "tags": ["a", None],
        "where": {"x.y": id},
    }


def lake_in(folder: Path) -> Lake:
    clock = SystemClock()
    return Lake(LocalStorage(folder, clock=clock, ids=random_id), clock=clock, ids=random_id)


def capture(lake: Lake, properties: Mapping[str, Any], records: list[dict[str, Any]]) -> None:
    build_stream(lake, TAP, STREAM, {"properties": properties}, records, key_properties=["id"])


def rows_of(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(), key=lambda row: row[OFFSET])


def check_readers(folder: Path, table: LakeTable) -> deltalake.DeltaTable:
    """Each reader finds the same columns and rows. Gives back the Delta table."""
    wanted = rows_of(table.to_arrow().read_all())
    root = str(folder / "published/t")
    found = deltalake.DeltaTable(root)
    assert [field.name for field in found.schema().fields] == table.schema.names
    rows = duckdb.from_arrow(deltalake.QueryBuilder().register("t", found).execute("SELECT * FROM t")).to_arrow_table()
    assert rows_of(rows) == wanted, "deltalake"
    assert rows_of(polars.scan_delta(root).collect().to_arrow()) == wanted, "polars"
    return found


@pytest.mark.parametrize("kind", TABLES)
def test_readers_agree(tmp_path: Path, kind: str) -> None:
    lake = lake_in(tmp_path)
    for turn in range(2):
        capture(lake, PROPERTIES, [record(id, turn) for id in range(turn * 3, 8)])
        runner_of(lake).run(TABLES[kind])
        table = LakeTable.load(lake.storage, "t")
        found = check_readers(tmp_path, table)
        assert found.version() == turn
        assert found.transaction_version("singerlake") == table.state.number
        (source,) = table.state.sources
        assert found.transaction_version(f"singerlake:{source.lineage}") == source.offset
        # DuckDB's own extension reads the same log; here it reads what deltalake finds by it.
        dataset = found.to_pyarrow_dataset()
        assert duckdb.from_arrow(dataset).aggregate("count(id)").fetchall() == [(table.rows,)]


def test_files_are_left_out_by_their_statistics_and_no_row_with_them(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    capture(lake, PROPERTIES, [record(id, 0) for id in range(8)])
    runner_of(lake).run(TABLES["parted"])
    found = deltalake.DeltaTable(str(tmp_path / "published/t"))
    dataset = found.to_pyarrow_dataset()
    assert len(list(dataset.get_fragments(pc.field("id") == 7))) == 1 < len(list(dataset.get_fragments()))
    for id in range(8):
        assert polars.scan_delta(found).filter(polars.col("id") == id).collect().height == 1
    for condition, rows in (
        ("at = '2026-01-01T00:00:00.000004Z'", 1),
        ("price > 3.9", 3),
        ("name = 'a/b c%é'", 2),
        ("name is null", 2),
        ("day >= '2026-01-05'", 3),
        ("size >= 2", 1),
    ):
        statement = f"SELECT count(*) AS n FROM t WHERE {condition}"
        counted = duckdb.from_arrow(deltalake.QueryBuilder().register("t", found).execute(statement)).fetchall()
        assert counted == [(rows,)], condition


def test_columns_are_added_widened_renamed_and_go(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    properties = {name: PROPERTIES[name] for name in ("id", "name", "where")}
    where = {"type": ["null", "object"], "properties": {"x.y": {"type": "integer"}, "z": {"type": "string"}}}
    turns: list[tuple[dict[str, Any], TableDeclaration]] = [
        (properties, DECLARED),
        ({**properties, "new": {"type": "integer"}}, DECLARED),
        ({**properties, "where": where}, DECLARED),
        ({**properties, "id": {"type": "number"}}, DECLARED),
        (properties, replace(DECLARED, columns={"name": ColumnRule(rename="called"), "where": ColumnRule(drop=True)})),
        ({**properties, "id": {"type": "string"}}, replace(DECLARED, keep=Keep.HISTORY, metadata=True)),
    ]
    seen = []
    for turn, (declared, table) in enumerate(turns):
        id: Any = str(turn) if declared["id"]["type"] == "string" else turn
        capture(lake, declared, [{"id": id, "name": f"n{turn}", "where": {"x.y": turn, "z": "z"}, "new": turn}])
        runner_of(lake).run(table)
        made = LakeTable.load(lake.storage, "t")
        found = check_readers(tmp_path, made)
        assert found.version() == turn
        seen.append(rows_of(made.to_arrow().read_all()))
    # Every version is still there, with the columns that it had.
    for version, rows in enumerate(seen):
        old = polars.scan_delta(str(tmp_path / "published/t"), version=version).collect()
        assert rows_of(old.to_arrow()) == rows, version


def test_a_log_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    for turn in range(12):
        capture(lake, PROPERTIES, [record(turn % 5, turn % 3)])
        runner_of(lake).run(TABLES["local"])
    log = tmp_path / "published/t/_delta_log"
    assert [each.name for each in log.glob("*.checkpoint.parquet")] == [f"{9:020}.checkpoint.parquet"]
    for version in range(9):
        (log / f"{version:020}.json").unlink()
    found = check_readers(tmp_path, LakeTable.load(lake.storage, "t"))
    assert found.version() == 11
    assert found.protocol().reader_features == ["timestampNtz"]
    (log / "_last_checkpoint").unlink()
    check_readers(tmp_path, LakeTable.load(lake.storage, "t"))
    # Writers of Delta take it, too: their checkpoint is one that runs go on from.
    found.create_checkpoint()
    capture(lake, PROPERTIES, [record(1, 2)])
    runner_of(lake).run(TABLES["local"])
    assert check_readers(tmp_path, LakeTable.load(lake.storage, "t")).version() == 12
