"""What the page on tables shows of Spark, run as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from singerlake.lake import Lake
from singerlake.tables.declaration.model import ColumnRule, TableDeclaration
from tests.docs.readme import blocks
from tests.lakes import build_stream

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/tables.md"
SCHEMA = {"properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}}


def test_a_table_is_read_in_three_ways(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path / "lake")
    lake = Lake.open(root)
    build_stream(lake, "my-tap", "users", SCHEMA, [{"id": 1}, {"id": 2, "name": "Ada"}], key_properties=("id",))
    columns = {"name": ColumnRule(rename="first_name")}
    lake.table_runner().run(TableDeclaration(name="people", tap="my-tap", stream="users", columns=columns))
    (shown,) = [block.text for block in blocks(PAGE) if "singerlake.spark" in block.text]
    # The session's working folder is that of its beginning.
    exec(compile(shown.replace('"lake"', repr(root)), str(PAGE), "exec"), {"spark": spark})
    printed = capsys.readouterr().out
    assert printed.count("|first_name|") == 2
    assert printed.count("|       Ada|") == 2
    assert "|       2|" in printed
