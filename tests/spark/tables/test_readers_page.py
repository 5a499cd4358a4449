"""What Spark makes of tables' files, and what it has to be told, is as `table-formats.md` says."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.tables.declaration.model import Format
from singerlake.tables.tasks.files import FORMATS
from tests.tables.formats.readers_page import CELLS, Cell, check, hard_table

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.reader == "Spark"], ids=lambda cell: cell.format.value)
def test_spark_gives_back_what_the_page_says(spark: SparkSession, tmp_path: Path, cell: Cell) -> None:
    assert tuple(map(int, version("pyspark").split(".")[:2])) >= cell.version
    check(cell, tmp_path, {"spark": spark})


def test_without_its_settings_spark_gives_other_rows_as_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    csv, jsonl, parquet = tmp_path / "x.csv", tmp_path / "x.jsonl", tmp_path / "x.parquet"
    csv.write_bytes(b'"id","a","b"\r\n1,"{""x"":""y,z""}","two\r\nlines"\r\n2,"",\r\n')
    split = spark.read.csv(str(csv), header=True, multiLine=True).collect()
    assert '{"x":"y,z"}' not in [row.a for row in split]
    whole = spark.read.csv(str(csv), header=True, multiLine=True, escape='"').collect()
    assert [tuple(row) for row in whole] == [("1", '{"x":"y,z"}', "two\nlines"), ("2", None, None)]
    jsonl.write_text('{"x":1.5}\n{"x":"NaN"}\n')
    assert spark.read.json(str(jsonl)).dtypes == [("x", "string")]
    FORMATS[Format.PARQUET].write(hard_table(), parquet)
    with pytest.raises(ValueError, match="year"):
        spark.read.parquet(str(parquet)).select("timestamp").collect()
