"""Engines that read Iceberg find the rows that the lake's own reader finds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest
from pyiceberg.table import StaticTable

from singerlake.lake import Lake
from singerlake.tables.declaration.model import ColumnRule, Format, Keep, TableDeclaration
from singerlake.tables.maintain.verify import verify_derived
from singerlake.tables.read import LakeTable
from tests.tables.delta import test_readers as delta
from tests.tables.delta.test_readers import PROPERTIES, capture, lake_in, record, rows_of
from tests.tables.tables import runner_of

TABLES = {name: replace(each, format=Format.PARQUET, iceberg=True) for name, each in delta.TABLES.items()}


def metadata_of(folder: Path) -> str:
    """What the hint leads to."""
    metadata = folder / "published/t/metadata"
    return str(metadata / f"v{(metadata / 'version-hint.text').read_text()}.metadata.json")


def check_readers(folder: Path, table: LakeTable) -> StaticTable:
    """Each reader finds the same columns and rows. Gives back the table of pyiceberg."""
    wanted = rows_of(table.to_arrow().read_all())
    found = StaticTable.from_metadata(metadata_of(folder))
    assert [field.name for field in found.schema().fields] == table.schema.names
    read = rows_of(found.scan().to_arrow())
    assert read == wanted, "pyiceberg"
    assert rows_of(polars.scan_iceberg(found).collect().to_arrow()) == wanted, "polars"
    return found


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
@pytest.mark.parametrize("kind", TABLES)
def test_readers_agree(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "a lake%20é"
    lake = lake_in(folder)
    for turn in range(2):
        capture(lake, PROPERTIES, [record(id, turn) for id in range(turn * 3, 8)])
        runner_of(lake).run(TABLES[kind])
        table = LakeTable.load(lake.storage, "t")
        found = check_readers(folder, table)
        assert len(found.metadata.snapshots) == turn + 1


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_columns_are_added_widened_renamed_and_go(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    declared = TABLES["latest"]
    properties = {name: PROPERTIES[name] for name in ("id", "name", "where")}
    where = {"type": ["null", "object"], "properties": {"x.y": {"type": "integer"}, "z": {"type": "string"}}}
    turns: list[tuple[dict[str, Any], TableDeclaration]] = [
        (properties, declared),
        ({**properties, "new": {"type": "integer"}}, declared),
        ({**properties, "where": where}, declared),
        ({**properties, "id": {"type": "number"}}, declared),
        (properties, replace(declared, columns={"name": ColumnRule(rename="called"), "where": ColumnRule(drop=True)})),
        ({**properties, "id": {"type": "string"}}, replace(declared, keep=Keep.HISTORY, metadata=True)),
    ]
    seen = []
    for turn, (schema, table) in enumerate(turns):
        id: Any = str(turn) if schema["id"]["type"] == "string" else turn
        capture(lake, schema, [{"id": id, "name": f"n{turn}", "where": {"x.y": turn, "z": "z"}, "new": turn}])
        runner_of(lake).run(table)
        made = LakeTable.load(lake.storage, "t")
        check_readers(tmp_path, made)
        seen.append(rows_of(made.to_arrow().read_all()))
    # Every snapshot is still there, with the columns that it had.
    found = StaticTable.from_metadata(metadata_of(tmp_path))
    for snapshot, rows in zip(found.metadata.snapshots, seen, strict=True):
        assert rows_of(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == rows
        read = polars.scan_iceberg(found, snapshot_id=snapshot.snapshot_id).collect()
        assert rows_of(read.to_arrow()) == rows


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_a_lake_that_was_copied_is_read_where_it_is(tmp_path: Path) -> None:
    lake = lake_in(tmp_path / "first")
    capture(lake, PROPERTIES, [record(id, 0) for id in range(8)])
    runner_of(lake).run(TABLES["latest"])
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    copy = Lake.open(str(tmp_path / "second"))
    state = LakeTable.load(copy.storage, "t").state
    (finding,) = verify_derived(copy.storage, state)
    assert "of others, or of another place" in finding.what
    runner_of(copy).run(TABLES["latest"])
    shutil.rmtree(tmp_path / "first")
    check_readers(tmp_path / "second", LakeTable.load(copy.storage, "t"))
