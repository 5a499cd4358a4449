"""The table of formats and types says what files hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.arrow.schema.columns import Array, Column, Field, Integer, Struct, Text, arrow_schema
from singerlake.tables.declaration.model import Format, Formulas
from singerlake.tables.delta.schema import type_of
from singerlake.tables.formats.avro import ROW, record_of
from singerlake.tables.rows.columns import type_named
from singerlake.tables.state.types import SIMPLE, value_from_json
from singerlake.tables.tasks.files import FORMATS, writer_of

TEXT = (Path(__file__).parents[2] / "docs/reference/table-formats.md").read_text()
ROWS = [
    [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in TEXT.partition("## Values\n")[2].partition("\n## ")[0].splitlines()[3:]
    if line.startswith("|")
]
NESTED: dict[str, Column] = {
    "array of integer": Array(Integer()),
    "object": Struct((Field("a", Integer()), Field("b", Text()))),
}


def made(words: str, value: str) -> pa.Table:
    """A table of one value."""
    column = NESTED.get(words) or type_named(words)
    assert column is not None, words
    schema = arrow_schema(Struct((Field("x", column),)))
    plain = json.loads(value, parse_constant=float)
    own = schema.field(0).type
    given = plain if pa.types.is_nested(own) or isinstance(plain, bool | int | float) else value_from_json(plain, own)
    return pa.table({"x": pa.array([given], own)}, schema=schema)


def file(tmp_path: Path, table: pa.Table, format: Format) -> Path:
    path = tmp_path / "file"
    FORMATS[format].write(table, path)
    return path


def test_every_type_and_format_is_there() -> None:
    assert {row[0].partition("(")[0] for row in ROWS} == {*SIMPLE, "decimal", *NESTED}
    assert TEXT.partition("## Values\n")[2].splitlines()[1] == f"| Type | Value | {' | '.join(Format)} |"
    assert set(Format) == set(FORMATS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_file_holds_what_the_table_says(tmp_path: Path, row: list[str]) -> None:
    words, value, parquet, csv, jsonl, avro, delta = row
    table = made(words, value)
    column = pq.ParquetFile(file(tmp_path, table, Format.PARQUET)).schema.column(0)
    logical = re.match(r"\w+", str(column.logical_type))
    assert logical is not None
    if not pa.types.is_nested(table.schema.field(0).type):
        assert parquet == column.physical_type + (f" {logical[0]}" if logical[0] != "None" else "")
    assert file(tmp_path, table, Format.CSV).read_bytes() == f'"x"\r\n{csv}\r\n'.encode()
    assert file(tmp_path, table, Format.JSONL).read_bytes() == b'{"x":%s}\n' % jsonl.encode()
    ((_, type),) = [each["type"] for each in record_of(table.schema, ROW, {ROW})["fields"]]
    assert (
        avro
        == (type if isinstance(type, str) else " ".join(map(str, (type["type"], type.get("logicalType", ""))))).strip()
    )

    own = type_of(NESTED.get(words) or type_named(words) or Text())
    assert delta == (own if isinstance(own, str) else own["type"])


@pytest.mark.parametrize("text", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_escape_is_for_what_the_page_says(tmp_path: Path, text: str) -> None:
    table = pa.table({"x": [text]})
    path = tmp_path / "file"
    writer_of(Format.CSV, Formulas.ESCAPE).write(table, path)
    assert path.read_bytes() == f'"x"\r\n"\'{text}"\r\n'.encode()
