"""What a record holds and no schema declares: it is rescued, refused or counted, and vanishes in no mode."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.decode.slow_path import Origin
from singerlake.arrow.plan.request import Mode, Request
from singerlake.arrow.schema.columns import Struct, arrow_schema
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.arrow.schema.own import RESCUED
from singerlake.arrow.values.known import known_in
from singerlake.errors import ValueDoesNotFitError
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from tests.arrow.decode.test_decode import record
from tests.lakes import build_stream

pytestmark = pytest.mark.usefixtures("either_reader")

ORIGIN = Origin("v/file.singer.gz", "hash1")
INTEGER = {"type": "integer"}
POINT = {"type": "object", "properties": {"x": INTEGER, "in": {"type": "object", "properties": {"y": INTEGER}}}}
PROPERTIES: dict[str, Any] = {
    "n": INTEGER,
    "é": {"type": "string"},
    "o": POINT,
    "l": {"type": "array", "items": POINT},
    "ll": {"type": "array", "items": {"type": "array", "items": POINT}},
    "free": {"type": "object"},
    "any": {"type": "object", "additionalProperties": INTEGER, "properties": {"a": INTEGER}},
    'q"': INTEGER,
}
COLUMNS = columns_of([{"type": "object", "additionalProperties": True, "properties": PROPERTIES}])


def batch(text: bytes, mode: Mode = Mode.PERMISSIVE, columns: Struct = COLUMNS, known: Any = None) -> Any:
    """The rows of some lines, and the decoder that has read them."""
    wanted = Struct((*columns.fields, RESCUED)) if mode is Mode.PERMISSIVE else columns
    known = known or known_in(columns, COLUMNS, whole=True)
    decoder = BatchDecoder(wanted, arrow_schema(wanted), Request(mode=mode), known)
    return decoder.batch(text, 0, ORIGIN)[0].to_pylist(), decoder


def rescued(*texts: str) -> list[str | None]:
    """What is kept of records beside their rows."""
    return [row[RESCUED.name] for row in batch(b"".join(map(record, texts)))[0]]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"n":1}', None),
        ("{}", None),
        ('{"n":1,"more":2}', '{"more":2}'),
        ('{"more":null}', '{"more":null}'),
        ('{"a":{ "b" : 1.50 },"n":1,"z":"\\u00e9"}', '{"a":{ "b" : 1.50 },"z":"\\u00e9"}'),
        ('{"ü":"é"}', '{"ü":"é"}'),
        ('{"é":"a","o":{"x":1,"more":2}}', '{"o":{"more":2}}'),
        ('{"o":{"in":{"y":1,"z":2},"w":3},"v":4}', '{"o":{"in":{"z":2},"w":3},"v":4}'),
        ('{"v":4,"o":{"in":{"z":2}}}', '{"v":4,"o":{"in":{"z":2}}}'),
        ('{"l":[{"x":1},null,{"x":1,"more":2},{"x":3}]}', '{"l":[null,null,{"more":2}]}'),
        ('{"l":[{"m":1},{"m":2}]}', '{"l":[{"m":1},{"m":2}]}'),
        ('{"ll":[[],[{"x":1},{"m":1}]]}', '{"ll":[null,[null,{"m":1}]]}'),
        ('{"free":{"a":{"b":1}},"any":{"a":1,"b":2}}', None),
        ('{"o":null,"l":null,"ll":[null]}', None),
        ('{"\\u006dore":1}', '{"more":1}'),
        ('{"\\u006e":1,"q\\"":2}', None),
        ('{"a\\"b":1,"\\n":2}', '{"a\\"b":1,"\\n":2}'),
        ('{"o":{"\\u0078":1,"\\u0079":2}}', '{"o":{"y":2}}'),
    ],
)
def test_what_is_undeclared_is_kept_in_its_shape_as_it_was_written(text: str, kept: str | None) -> None:
    assert rescued("{}", text, '{"n":7}') == [None, kept, None]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"more":1,"n":2,"more":3}', '{"more":3}'),
        ('{"o":{"m":1},"o":{"x":1}}', None),
        ('{"o":{"x":1},"v":1,"o":{"m":2}}', '{"o":{"m":2},"v":1}'),
        ('{"o":{"in":{"m":1},"w":1,"in":{"m":2}}}', '{"o":{"in":{"m":2},"w":1}}'),
        ('{"o":{"m":1,"m":[2]}}', '{"o":{"m":[2]}}'),
        ('{"n":1,"n":2}', None),
    ],
)
def test_of_a_property_that_stands_twice_the_last_one_counts(text: str, kept: str | None) -> None:
    assert rescued(text) == [kept]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"n":"x","more":1}', '{"n":"x","more":1}'),
        ('{"o":{"x":"a","m":1},"m":2}', '{"o":{"x":"a","m":1},"m":2}'),
        ('{"o":[1],"m":2}', '{"o":[1],"m":2}'),
        ('{"l":[{"x":1,"m":1},{"x":"a"}]}', '{"l":[{"x":1,"m":1},{"x":"a"}]}'),
        ('{"l":[{"m":1},{"x":9223372036854775808}],"m":2}', '{"l":[{"m":1},{"x":9223372036854775808}],"m":2}'),
        ('{"more":NaN,"n":1}', '{"more":NaN}'),
        ('{"m":"\\ud800","o":{"\\ud800":1},"l":[{"m":NaN}]}', '{"m":"\\ud800","o":{"\\ud800":1},"l":[{"m":NaN}]}'),
    ],
)
def test_what_does_not_fit_and_what_is_undeclared_are_kept_together(text: str, kept: str) -> None:
    assert rescued(text, "{}") == [kept, None]


def test_rows_are_as_they_are_without_it() -> None:
    plain_rows, _ = batch(record('{"n":1,"o":{"x":2},"l":[{"x":3}]}'))
    rows, _ = batch(record('{"n":1,"m":[],"o":{"x":2,"m":1},"l":[{"x":3,"m":{}}]}'))
    assert [{**row, RESCUED.name: None} for row in rows] == plain_rows


@pytest.mark.parametrize(
    ("text", "path"),
    [('{"n":1,"more":31337}', "more"), ('{"o":{"in":{"z":31337}}}', "o.in.z"), ('{"l":[{},{"m":31337}]}', "l[].m")],
)
def test_failfast_names_the_property_and_its_place(text: str, path: str) -> None:
    with pytest.raises(ValueDoesNotFitError) as raised:
        batch(record('{"n":1}') + record(text), Mode.FAILFAST)
    assert f"property '{path}' has no column, and a record holds it: 31337; read with mode" in str(raised.value)
    assert "line=3, offset=1" in str(raised.value)


def test_dropmalformed_keeps_a_row_that_has_merely_more_and_counts_it() -> None:
    lines = [record(text) for text in ('{"n":1}', '{"n":2,"more":1}', '{"n":"x","more":1}', '{"o":{"m":1}}')]
    rows, decoder = batch(b"".join(lines), Mode.DROPMALFORMED)
    assert [row["n"] for row in rows] == [1, 2, None]
    assert (decoder.dropped, decoder.undeclared) == (1, 2)
    _, decoder = batch(lines[0] + lines[1], Mode.DROPMALFORMED)
    assert (decoder.dropped, decoder.undeclared) == (0, 1)


def test_only_rows_that_are_meant_are_looked_at() -> None:
    lines = b"".join(record(text) for text in ('{"m":1}', '{"n":1}', '{"m":2}'))
    known = known_in(COLUMNS, COLUMNS, whole=True)
    for mode in (Mode.FAILFAST, Mode.DROPMALFORMED):
        decoder = BatchDecoder(COLUMNS, arrow_schema(COLUMNS), Request(mode=mode), known)
        found, messages = decoder.batch(lines, 10, ORIGIN, first=11, stop=12)
        assert (found.num_rows, messages, decoder.undeclared) == (1, 3, 0)


def stream_of(folder: Path, *versions: tuple[Any, Iterable[dict[str, Any]]]) -> LakeStream:
    lake = Lake.open(str(folder / "lake"))
    for schema, given_records in versions:
        build_stream(lake, "t", "s", schema, given_records)
    return lake.stream("t", "s")


A, B = {"properties": {"a": INTEGER}}, {"properties": {"b": INTEGER, "o": POINT}}


def test_a_property_is_known_where_any_version_that_is_read_declares_it(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, (A, [{"a": 1, "b": 2}]), (B, [{"a": 3, "b": 4, "c": 5}]))
    assert stream.to_arrow().read_all().select(["a", "b", "_rescued_data"]).to_pylist() == [
        {"a": 1, "b": 2, "_rescued_data": None},
        {"a": 3, "b": 4, "_rescued_data": '{"c":5}'},
    ]
    assert stream.to_arrow(versions=["v1"]).read_all().to_pylist() == [{"a": 1, "_rescued_data": '{"b":2}'}]


def test_whoever_chooses_columns_knows_of_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = stream_of(tmp_path, (B, [{"b": 1, "o": {"x": 1}, "c": 2}, {"b": 3, "o": {"x": 1, "m": 4}}]))
    for mode in Mode:
        assert stream.to_arrow(columns=["b"], mode=mode.value).read_all().to_pylist() == [{"b": 1}, {"b": 3}]
    assert caplog.records == []
    rows = stream.to_arrow(columns=["b", "_rescued_data"]).read_all().to_pylist()
    assert rows == [{"b": 1, "_rescued_data": '{"c":2}'}, {"b": 3, "_rescued_data": None}]
    with pytest.raises(ValueDoesNotFitError, match=r"'o\.m' has no column"):
        stream.to_arrow(columns=["o"], mode="FAILFAST").read_all()
    with caplog.at_level(logging.WARNING):
        assert stream.to_arrow(columns=["o"]).read_all().num_rows == 2
    assert [each.getMessage() for each in caplog.records] == [
        "t/s: 1 rows have properties that no schema declares and no column holds"
    ]


def test_what_is_kept_is_no_warning_and_what_is_counted_is_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stream_of(tmp_path, (A, [{"a": n, **({"m": n} if n % 2 else {})} for n in range(10)]))
    with caplog.at_level(logging.WARNING):
        kept = stream.to_arrow().read_all().column("_rescued_data").to_pylist()
        assert kept == [f'{{"m":{n}}}' if n % 2 else None for n in range(10)]
        assert caplog.records == []
        assert stream.to_arrow(mode="DROPMALFORMED").read_all().num_rows == 10
    assert "t/s: 5 rows have properties that no schema declares" in caplog.text


def test_more_names_than_the_compiled_reader_takes_are_read_all_the_same(tmp_path: Path) -> None:
    wide = {"properties": {f"c{n}": INTEGER for n in range(5000)}}
    stream = stream_of(tmp_path, (wide, [{"c7": 1, "m": 2, **{f"u{n}": n for n in range(400)}}]))
    (row,) = stream.to_arrow().read_all().to_pylist()
    assert (row["c7"], row["c8"], len(json.loads(row["_rescued_data"]))) == (1, None, 401)
