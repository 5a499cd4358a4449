"""Tables with partitions, read by engines that know nothing of them: no value is taken from a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from singerlake.lake import Lake
from singerlake.tables.declaration.model import TableDeclaration, partition_of
from tests.lakes import build_stream

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "_code": {"type": ["null", "string"]},
        "day": {"type": "string", "format": "date"},
        "day_month": {"type": ["null", "string"]},
        "number": {"type": "integer"},
    }
}
CODES = ["01234", "1e5", "", None, "a/b c%", "2024-01-01", "x=y", "_", "."]
RECORDS = [
    {"id": id, "_code": code, "day": "2024-01-02", "day_month": "its own", "number": id % 2}
    for id, code in enumerate(CODES)
]
Reader = Callable[[list[str], str], Any]
READERS: dict[str, Reader] = {
    "duckdb": lambda files, folder: duckdb.sql(f"SELECT * FROM read_parquet({files!r})").to_arrow_table(),
    "duckdb-folder": lambda files, folder: duckdb.sql(f"SELECT * FROM '{folder}/**/*.parquet'").to_arrow_table(),
    "polars": lambda files, folder: polars.read_parquet(files).to_arrow(),
    "polars-folder": lambda files, folder: polars.scan_parquet(folder).collect().to_arrow(),
    "polars-hive": lambda files, folder: polars.scan_parquet(files, hive_partitioning=True).collect().to_arrow(),
    "pandas": lambda files, folder: pa.Table.from_pandas(pandas.read_parquet(files)),
    "arrow": lambda files, folder: pyarrow.parquet.read_table(files),
    "arrow-folder": lambda files, folder: pyarrow.parquet.read_table(folder),
    "arrow-dataset": lambda files, folder: pyarrow.dataset.dataset(folder, partitioning="hive").to_table(),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(str(tmp_path_factory.mktemp("parted") / "lake"))
    build_stream(lake, "t", "s", SCHEMA, RECORDS, key_properties=("id",))
    for name, by in (("text", "_code"), ("month", "month(day)"), ("number", "number")):
        parted = TableDeclaration(name=name, tap="t", stream="s", partition_by=(partition_of(by),))
        lake.table_runner().run(parted)
    return lake


@pytest.mark.parametrize("table", ["text", "month", "number"])
@pytest.mark.parametrize("reader", READERS)
def test_an_engine_reads_the_columns_of_the_files(lake: Lake, reader: str, table: str) -> None:
    parted = lake.table(table)
    wanted = parted.to_arrow().read_all()
    assert len(parted.files()) == {"text": 8, "month": 1, "number": 2}[table]
    folder = Path(lake.storage.url) / "published" / table / "g1"
    found = READERS[reader](parted.files(), str(folder))
    assert found.column_names == wanted.column_names
    names = list(SCHEMA["properties"])
    rows = sorted(found.select(names).to_pylist(), key=lambda row: row["id"])
    assert rows == sorted(wanted.select(names).to_pylist(), key=lambda row: row["id"])
