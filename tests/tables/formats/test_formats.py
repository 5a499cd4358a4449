"""One suite over all formats: independent readers find in each file what was written."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from singerlake.tables.declaration.model import Format, Formulas
from singerlake.tables.formats import parquet
from singerlake.tables.tasks.files import FORMATS, writer_of
from tests.tables.formats import samples

TABLES = {"simple": samples.simple, "nested": samples.nested, "wide": samples.wide}
MANY = {**TABLES, **{f"no-rows-{name}": partial(samples.no_rows, made) for name, made in TABLES.items()}}
Rows = list[tuple[Any, ...]]


def written(tmp_path: Path, table: pa.Table, format: Format, formulas: Formulas = Formulas.KEEP) -> Path:
    """A file of that format with these rows."""
    path = tmp_path / f"file.{format.value}"
    writer_of(format, formulas).write(table, path)
    return path


def rows_of(table: pa.Table) -> Rows:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def same(found: object, wanted: object) -> bool:
    """Equal, with NaN equal to itself and -0.0 no 0.0."""
    return repr(found) == repr(wanted)


def word(value: Any) -> Any:
    """What csv and JSON say of a value, JSON in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "Z"
        # isoformat leaves out a fraction that is zero.
        return f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


def as_json(value: Any) -> Any:
    """What Python's json finds of a value, its numbers as decimals."""
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value
    if value is None or isinstance(value, bool | int | str | Decimal):
        return value
    return word(value)


def json_text(value: Any) -> str:
    """JSON of a value with its decimals as they are."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(as_json(value))


def parsed(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


# csv


@pytest.mark.parametrize("name", MANY)
def test_python_reads_csv(tmp_path: Path, way: str, name: str) -> None:
    table = MANY[name]()
    path = written(tmp_path, table, Format.CSV)
    with path.open(newline="", encoding="utf-8") as file:
        header, *found = csv.reader(file, strict=True)
    assert header == table.column_names
    for row, wanted in zip(found, rows_of(table), strict=True):
        for cell, value in zip(row, wanted, strict=True):
            if isinstance(value, float):
                assert same(float(cell), value)
            elif isinstance(value, dict | list):
                assert parsed(cell) == parsed(json_text(value))
            else:
                assert cell == ("" if value is None else word(value))


def test_lines_of_csv_end_as_the_standard_says(tmp_path: Path, way: str) -> None:
    table = pa.table({'a "b"': ["x", None, ""], "n": [1, None, -2], "t": ["1", "a,b", 'say "hi"\r\n']})
    assert written(tmp_path, table, Format.CSV).read_bytes() == (
        b'"a ""b""","n","t"\r\n"x",1,"1"\r\n,,"a,b"\r\n"",-2,"say ""hi""\r\n"\r\n'
    )


def test_arrow_reads_csv_with_its_types(tmp_path: Path) -> None:
    table = samples.simple()
    found = pyarrow.csv.read_csv(
        written(tmp_path, table, Format.CSV),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=table.schema, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    assert found.schema == table.schema
    assert same(rows_of(found), rows_of(table))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx"])
def test_formulas_are_escaped_where_that_is_declared(tmp_path: Path, way: str, text: str) -> None:
    table = pa.table({text: [text, "1-1", "", None], "n": [-1, 1, 0, None]})
    for formulas, mark in ((Formulas.KEEP, ""), (Formulas.ESCAPE, "'")):
        with written(tmp_path, table, Format.CSV, formulas).open(newline="") as file:
            assert list(csv.reader(file)) == [
                [mark + text, "n"],
                [mark + text, "-1"],
                ["1-1", "1"],
                ["", "0"],
                ["", ""],
            ]


# jsonl


@pytest.mark.parametrize("name", MANY)
def test_python_reads_json_lines(tmp_path: Path, way: str, name: str) -> None:
    table = MANY[name]()
    lines = written(tmp_path, table, Format.JSONL).read_bytes().decode().split("\n")
    assert lines.pop() == ""
    found = list(map(parsed, lines))
    assert found == [parsed(json_text(dict(zip(table.column_names, row, strict=True)))) for row in rows_of(table)]
    assert all(list(each) == table.column_names for each in found)


def test_a_line_has_all_columns(tmp_path: Path, way: str) -> None:
    inside = pa.array([{"a": None}, None], pa.struct([("a", pa.date32())]))
    table = pa.table({'"': ["x\n", None], "d": [1.0, math.nan], "o": inside, "l": [[], [None, -math.inf]]})
    assert written(tmp_path, table, Format.JSONL).read_bytes() == (
        b'{"\\"":"x\\n","d":1.0,"o":{"a":null},"l":[]}\n{"\\"":null,"d":"NaN","o":null,"l":[null,"-Infinity"]}\n'
    )


# avro


def original(record: Any, schema: Any) -> Any:
    """What fastavro reads, with the names that the fields had."""
    if isinstance(schema, list):
        return None if record is None else original(record, schema[1])
    if isinstance(schema, dict) and schema["type"] == "record":
        return {
            each.get("doc", each["name"]): original(record[each["name"]], each["type"]) for each in schema["fields"]
        }
    if isinstance(schema, dict) and schema["type"] == "array":
        return [original(item, schema["items"]) for item in record]
    return record


@pytest.mark.parametrize("name", MANY)
def test_fastavro_reads_avro(tmp_path: Path, way: str, name: str) -> None:
    table = MANY[name]()
    with written(tmp_path, table, Format.AVRO).open("rb") as file:
        reader = fastavro.reader(file)
        found = [original(each, reader.writer_schema) for each in reader]
    assert same(found, [dict(zip(table.column_names, row, strict=True)) for row in rows_of_utc(table)])


def rows_of_utc(table: pa.Table) -> Rows:
    """Times in the zone that fastavro gives them."""
    return [tuple(map(in_utc, row)) for row in rows_of(table)]


def in_utc(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_utc(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(in_utc, value))
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


@pytest.mark.parametrize("name", TABLES)
def test_polars_reads_avro(tmp_path: Path, name: str) -> None:
    table = TABLES[name]()
    found = polars.read_avro(written(tmp_path, table, Format.AVRO))
    if name == "simple":
        assert same(found.rows(), rows_of(table.select(found.columns)))
    assert found.shape == table.shape


def test_names_become_legal_and_stay_distinct(tmp_path: Path) -> None:
    inside = pa.struct([("é", pa.struct([("é", pa.int64()), ("_", pa.int64())])), ("1", pa.int64()), ("", pa.int64())])
    table = pa.table(
        [[1], [2], [3], [4], [{"é": {"é": 5, "_": 6}, "1": 7, "": 8}], [{"é": None, "1": 9, "": 0}]],
        pa.schema(
            [
                ("a b", pa.int64()),
                ("a_b", pa.int64()),
                ("a-b", pa.int64()),
                ("A_B_2", pa.int64()),
                ("o", inside),
                ("O!", inside),
            ]
        ),
    )
    with written(tmp_path, table, Format.AVRO).open("rb") as file:
        reader = fastavro.reader(file)
        (row,) = reader
    assert list(row) == ["a_b_3", "a_b", "a_b_4", "A_B_2", "o", "O_"]
    assert row["o"] == {"_": {"__2": 5, "_": 6}, "_1": 7, "__2": 8}
    docs = [each.get("doc") for each in reader.writer_schema["fields"]]
    assert docs == ["a b", None, "a-b", None, None, "O!"]


# parquet


@pytest.mark.parametrize("name", MANY)
def test_parquet_gives_back_what_was_written(tmp_path: Path, name: str) -> None:
    table = MANY[name]()
    path = written(tmp_path, table, Format.PARQUET)
    with path.open("rb") as file:
        found = FORMATS[Format.PARQUET].read(file, path.stat().st_size, None)
    assert found.schema == table.schema
    assert same(rows_of(found), rows_of(table))


def test_parquet_has_differences_where_values_differ_and_dictionaries_elsewhere(tmp_path: Path) -> None:
    count = 3 * parquet.SAMPLE
    repeated = [index % 7 for index in range(count)]
    columns: dict[str, Any] = {
        "key": range(count),
        "few": repeated,
        "few behind": [*range(parquet.SAMPLE), *repeated[parquet.SAMPLE :]],
        "a.b": range(count),
        "nulls": [None] * count,
        "at": pa.array(range(count)).cast(pa.timestamp("us", "UTC")),
        "text": ["x"] * count,
        "a": [{"b": "x", "c": [{"d": each}]} for each in repeated],
    }
    table = pa.table(
        {name: pa.array(values) if name != "nulls" else pa.nulls(count, "int64") for name, values in columns.items()}
    )
    path = written(tmp_path, table, Format.PARQUET)
    group = pyarrow.parquet.read_metadata(path).row_group(0)
    found = [group.column(index) for index in range(group.num_columns)]
    delta = {each.path_in_schema for each in found if "DELTA_BINARY_PACKED" in each.encodings}
    assert delta == {"key", "at"}
    assert all("RLE_DICTIONARY" in each.encodings for each in found if each.path_in_schema not in delta)
    assert all(each.has_column_index for each in found)
    assert same(rows_of(pyarrow.parquet.read_table(path)), rows_of(table))


READERS: dict[str, Callable[[Path], int]] = {
    "duckdb": lambda path: duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall()[0][0],
    "polars": lambda path: polars.read_parquet(path).height,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", MANY)
def test_others_read_parquet(tmp_path: Path, name: str, reader: str) -> None:
    table = MANY[name]()
    assert READERS[reader](written(tmp_path, table, Format.PARQUET)) == table.num_rows


def test_polars_finds_the_values_of_parquet(tmp_path: Path) -> None:
    table = samples.simple()
    assert same(polars.read_parquet(written(tmp_path, table, Format.PARQUET)).rows(), rows_of(table))
