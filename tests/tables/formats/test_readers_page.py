"""What readers make of tables' files, and what they have to be told, is as `table-formats.md` says."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pandas
import polars
import pyarrow
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest

from singerlake.tables.declaration.model import Format
from singerlake.tables.tasks.files import FORMATS
from tests.tables.formats.readers_page import CELLS, TEXT, Cell, check, hard_table

GIVEN: dict[str, Any] = {
    "duckdb": duckdb,
    "fastavro": fastavro,
    "pandas": pandas,
    "polars": polars,
    "pyarrow": pyarrow,
}


def test_the_table_has_cells_of_every_reader() -> None:
    assert {cell.reader for cell in CELLS} == {"pyarrow", "Polars", "DuckDB", "pandas", "Spark", "fastavro"}
    assert {(cell.reader, cell.format) for cell in CELLS} >= {("Spark", Format.CSV), ("pandas", Format.JSONL)}


@pytest.mark.parametrize(
    "cell", [cell for cell in CELLS if cell.reader != "Spark"], ids=lambda cell: f"{cell.reader} {cell.format.value}"
)
def test_a_reader_gives_back_what_the_page_says(tmp_path: Path, cell: Cell) -> None:
    installed = tuple(map(int, version(cell.reader.lower()).split(".")[: len(cell.version)]))
    assert installed >= cell.version
    check(cell, tmp_path, GIVEN)


def test_readers_guess_as_the_page_says(tmp_path: Path) -> None:
    csv, jsonl = tmp_path / "x.csv", tmp_path / "x.jsonl"
    csv.write_text('"zip","day","price"\r\n"00501","2026-01-02",12345678901234567.89\r\n')
    for read in (pandas.read_csv, polars.read_csv, pyarrow.csv.read_csv):
        assert [int(each) for each in read(str(csv))["zip"]] == [501]
    assert duckdb.read_csv(str(csv)).dtypes[1:] == ["DATE", "DOUBLE"]
    jsonl.write_text('{"x":1.5}\n{"x":"NaN"}\n')
    assert duckdb.read_json(str(jsonl)).dtypes == ["JSON"]
    assert polars.read_ndjson(str(jsonl))["x"].to_list() == ["1.5", "NaN"]


def test_pandas_rounds_integers_beside_a_null(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    FORMATS[Format.PARQUET].write(hard_table(), path)
    assert "9223372036854775807 in a column with a null" in TEXT
    assert float(2**63) in pandas.read_parquet(path)["integer"].tolist()


def test_duckdb_gives_moments_without_pytz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytz", None)
    rows = duckdb.sql("SELECT TIMESTAMPTZ '2026-01-02 03:04:05Z' AS x")
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [rows.fetchall(), rows.to_arrow_table()["x"].to_pylist(), rows.pl()["x"].to_list()] == [
        [(moment,)],
        [moment],
        [moment],
    ]
