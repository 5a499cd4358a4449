"""Tables in every format: made, gone on with, read and verified."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow.parquet as pq
import pytest

from singerlake.errors import BrokenFileError
from singerlake.tables.declaration.model import Format, Formulas, TableDeclaration
from singerlake.tables.declaration.stored import declaration_of
from singerlake.tables.read import LakeTable
from singerlake.tables.tasks.files import FORMATS, check_written
from tests.lakes import build_stream
from tests.tables.tables import STREAM, TAP, memory_lake, runner_of

SCHEMA = {"properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}, "o": {"type": "array"}}}
READERS = {
    Format.CSV: lambda body: [row["name"] for row in csv.DictReader(io.StringIO(body.decode(), newline=""))],
    Format.JSONL: lambda body: [json.loads(line)["name"] for line in body.splitlines()],
    Format.AVRO: lambda body: [row["name"] for row in fastavro.reader(io.BytesIO(body))],
}


def record(id: int, name: str) -> dict[str, object]:
    return {"id": id, "name": name, "o": [id]}


@pytest.mark.parametrize("format", READERS)
def test_a_table_of_every_format_is_made_and_gone_on_with(format: Format) -> None:
    lake = memory_lake()
    declared = TableDeclaration(name="t", tap=TAP, stream=STREAM, format=format)
    for lines, wanted in (
        ([record(1, "a"), record(2, "=b")], ["a", "=b"]),
        ([record(2, 'say "é"'), record(3, "c")], ["a", 'say "é"', "c"]),
    ):
        build_stream(lake, TAP, STREAM, SCHEMA, lines, key_properties=["id"])
        runner_of(lake).run(declared)
        table = LakeTable.load(lake.storage, "t")
        assert table.to_arrow(columns=["name"]).read_all()["name"].to_pylist() == wanted
        found: list[str] = []
        for file in table.state.files:
            check_written(lake.storage, "published/t/", file)
            assert file.path is not None
            assert file.path.endswith(f".{format.value}")
            with lake.storage.open(f"published/t/{file.path}") as stored:
                found += READERS[format](stored.read())
        assert found == wanted


CASED = {
    "type": "object",
    "properties": {
        name: {"type": ["null", kind]} for name, kind in (("a", "integer"), ("A", "string"), ("a_2", "boolean"))
    },
}
FILES: dict[Format, Callable[[bytes], Any]] = {
    Format.PARQUET: lambda body: pq.read_table(io.BytesIO(body)).to_pylist()[0]["o"],
    Format.CSV: lambda body: json.loads(next(csv.DictReader(io.StringIO(body.decode(), newline="")))["o"]),
    Format.JSONL: lambda body: json.loads(body)["o"],
    Format.AVRO: lambda body: next(iter(fastavro.reader(io.BytesIO(body))))["o"],
}


@pytest.mark.parametrize("format", Format)
def test_fields_of_objects_differ_in_more_than_case_in_every_format(tmp_path: Path, format: Format) -> None:
    """Spark refuses a file where they do not, and DuckDB takes one for the other."""
    lake = memory_lake()
    one = {"a": 1, "A": "x", "a_2": True}
    schema = {
        "properties": {"id": {"type": "integer"}, "o": {**CASED, "properties": {**CASED["properties"], "k": CASED}}}
    }
    schema["properties"]["list"] = {"type": "array", "items": CASED}
    records = [{"id": 1, "o": {**one, "k": {"A": "y"}}, "list": [one]}, {"id": 2, "o": {"A": 3, "k": {"A": 4}}}]
    build_stream(lake, TAP, STREAM, schema, records, key_properties=["id"])
    runner_of(lake).run(TableDeclaration(name="t", tap=TAP, stream=STREAM, format=format))
    table = LakeTable.load(lake.storage, "t")
    told = {"a": 1, "A_2": "x", "a_2_2": True}
    wanted = {**told, "k": {"a": None, "A_2": "y", "a_2_2": None}}
    first, second = table.to_arrow().read_all().to_pylist()
    assert (first["o"], first["list"]) == (wanted, [told])
    assert json.loads(second["_rescued_data"]) == {"o": {"A": 3, "k": {"A": 4}}}
    with lake.storage.open(f"published/t/{table.state.files[0].path}") as stored:
        body = stored.read().splitlines()[0] if format is Format.JSONL else stored.read()
    assert FILES[Format.PARQUET if format is Format.DELTA else format](body) == wanted
    if format in (Format.PARQUET, Format.JSONL):
        path = tmp_path / f"t.{format.value}"
        path.write_bytes(body)
        assert duckdb.sql(f"SELECT o.a, o.A_2, o.k.A_2 FROM '{path}' LIMIT 1").fetchall() == [(1, "x", "y")]


def test_formulas_are_escaped_in_the_file_and_not_in_the_table() -> None:
    lake = memory_lake()
    build_stream(lake, TAP, STREAM, SCHEMA, [record(1, "=1+1")], key_properties=["id"])
    declared = TableDeclaration(name="t", tap=TAP, stream=STREAM, format=Format.CSV, csv_formulas=Formulas.ESCAPE)
    runner_of(lake).run(declared)
    table = LakeTable.load(lake.storage, "t")
    assert table.to_arrow(columns=["name"]).read_all()["name"].to_pylist() == ["=1+1"]
    with lake.storage.open(f"published/t/{table.state.files[0].path}") as stored:
        assert READERS[Format.CSV](stored.read()) == ["'=1+1"]
    assert declaration_of(table.state) == declared
    # Files of the other kind are no part of the same table.
    runner_of(lake).run(replace(declared, csv_formulas=Formulas.KEEP))
    assert LakeTable.load(lake.storage, "t").state.generation == table.state.generation + 1


@pytest.mark.parametrize("format", READERS)
def test_rows_are_never_read_from_files_that_do_not_give_them_back(format: Format) -> None:
    assert not FORMATS[format].readable
    with pytest.raises(BrokenFileError, match=f"rows are not read from {format.value} files"):
        FORMATS[format].read(io.BytesIO(b""), 0, None)
