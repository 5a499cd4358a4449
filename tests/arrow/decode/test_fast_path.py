"""The compiled reader takes a chunk and reads what the other ways read, or leaves it; never anything else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.arrow.decode import fast_path
from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.decode.fast_path import PlainLines
from singerlake.arrow.decode.slow_path import Origin
from singerlake.arrow.plan.request import Request
from singerlake.arrow.schema.columns import (
    Array,
    Boolean,
    Column,
    Date,
    Decimal,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
    arrow_schema,
)
from singerlake.arrow.schema.own import METADATA, RECORD_TEXT, RESCUED
from singerlake.arrow.values.known import known_in
from singerlake.errors import BrokenFileError
from tests.arrow.cases import FITS, MISFITS
from tests.arrow.decode.test_decode import record

ORIGIN = Origin("v/file.singer.gz", "hash1")
ALL = Struct(
    (
        Field("i", Integer()),
        Field("s", Integer(16)),
        Field("d", Double()),
        Field("b", Boolean()),
        Field("t", Text()),
        Field("j", JsonText()),
        Field("at", Timestamp()),
        Field("on", Date()),
        Field("c", Decimal(10, 2, number=True, text=False)),
        Field("é", Text()),
        Field("o", Struct((Field("x", Integer()), Field("y", JsonText()), Field("z", Array(Date()))))),
        Field("l", Array(Integer())),
        Field("e", Decimal(10, 2, number=True, text=True)),
    )
)
LINE = (
    '{"type":"RECORD","stream":"s","record":{"i":-12,"s":7,"d":0.1,"b":true,"t":"a","j":[1, {"k":null}],'
    '"at":"2026-01-01T00:00:00.5Z","on":"2026-01-01","c":12.34,"é":"ü",'
    '"o":{"x":1,"y":{"k" : 1.50},"z":["2026-01-01",null]},"l":[1,null],"e":"1.5","other":{"x":[1.5e3,"\\n",false]}},'
    '"time_extracted":"2026-01-02T00:00:00Z","version":1}\n'
)


def taken(data: bytes, columns: Struct = ALL) -> list[dict[str, Any]] | None:
    """The rows that the compiled reader has read; None where it leaves the chunk."""
    found = PlainLines(columns, arrow_schema(columns).types).take(data)
    if found is None:
        return None
    return [
        {field.name: array[row].as_py() for field, array in zip(columns.fields, found.arrays, strict=True)}
        for row in range(found.rows)
    ]


def outcome(columns: Struct, data: bytes, *, compiled: bool, **bounds: int) -> Any:
    """Rows, messages and rescued values of a chunk, or that it holds a line that is no message."""
    wanted = Struct((*columns.fields, *METADATA.fields, RECORD_TEXT, RESCUED))
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(fast_path, "COMPILED", False)
        known = known_in(columns, columns, whole=True)
        decoder = BatchDecoder(wanted, arrow_schema(wanted), Request(metadata=True, record=True), known)
    try:
        batch, messages = decoder.batch(data, 100, ORIGIN, **bounds)
    except BrokenFileError as error:
        return str(error), error.context
    batch.validate(full=True)
    # As text, by which NaN is itself and -0.0 another than 0.0.
    return repr(batch.to_pylist()), messages


def same(columns: Struct, data: bytes, **bounds: int) -> None:
    assert outcome(columns, data, compiled=True, **bounds) == outcome(columns, data, compiled=False, **bounds)


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        record("{}").decode(),
        record('{"é":"ü","t":"b","i":1}').decode(),
        record(' { "i" :\t1 , "t" : "x" } ').decode(),
        record('{"t":"\\u00e9\\ud83d\\ude00\\"\\\\\\/\\b\\f\\n\\r\\t"}').decode(),
        record('{"d":-0.0,"i":-0}').decode(),
        record('{"d":9007199254740992,"i":999999999999999999}').decode(),
        record('{"d":0.30000000000000004,"s":-32768}').decode(),
        record('{"d":1.7976931348623157e308}').decode(),
        record('{"j":"null","c":-0.01}').decode(),
        record('{"o":{"z":[]},"l":[],"e":2.5}').decode(),
        record('{"o":null,"l":null}').decode(),
        '{"record":{"i":5},"stream":"s","more":{"record":{"i":6}},"type":"RECORD"}\r\n',
    ],
)
def test_lines_of_plain_values_are_taken(line: str) -> None:
    data = line.encode() + LINE.encode()
    assert taken(data) is not None
    same(ALL, data)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"SCHEMA","stream":"s","schema":{},"key_properties":[]}\n',
        '{"type":"ACTIVATE_VERSION","stream":"s","version":5}\n',
        '{"type":"RECORD","stream":"s"}\n',
        '{"type":"RECORD","type":"RECORD","record":{}}\n',
        '{"type":"RECORD","record":{"i":1},"record":{"i":2}}\n',
        '{"type":"RECORD","record":null}\n',
        record('{"i":1,"i":2}').decode(),
        record('{"\\u0069":1}').decode(),
        record('{"i":5.0}').decode(),
        record('{"i":1000000000000000000}').decode(),
        record('{"s":32768}').decode(),
        record('{"i":"5"}').decode(),
        record('{"d":9007199254740993}').decode(),
        record('{"d":-0}').decode(),
        record('{"d":1e999}').decode(),
        record('{"d":NaN}').decode(),
        record('{"t":"\\ud800"}').decode(),
        record('{"other":"\\udc00\\ud800"}').decode(),
        record('{"t":1}').decode(),
        record('{"b":1}').decode(),
        record('{"other":01}').decode(),
        record('{"other":[1,]}').decode(),
        record('{"other":' + "[" * 100 + "]" * 100 + "}").decode(),
        record('{"at":"2026-02-30T00:00:00Z"}').decode(),
        record('{"c":1.234}').decode(),
        record('{"o":{"x":"1"}}').decode(),
        record('{"o":{"z":["2026-02-30"]}}').decode(),
        record('{"l":[1.5]}').decode(),
        record('{"e":true}').decode(),
        record('{"i":1}')[:-2].decode() + "\n",
        "\n",
    ],
)
def test_what_it_does_not_know_exactly_is_left(line: str) -> None:
    data = line.encode() + LINE.encode()
    assert taken(data) is None
    same(ALL, data)


@pytest.mark.parametrize("data", [b"", LINE.encode()[:-1], LINE.encode() + b"x"])
def test_what_does_not_end_with_a_line_is_left(data: bytes) -> None:
    assert taken(data) is None


@pytest.mark.parametrize(
    "field",
    [
        Field("x", Integer(), nullable=False),
        Field("x", Array(Struct((Field('"', Integer()),)))),
        Field('"', Integer()),
        Field("\\", Integer()),
        Field("\n", Integer()),
    ],
    ids=repr,
)
def test_columns_that_it_cannot_read_leave_all_to_the_others(field: Field) -> None:
    assert taken(record("{}"), Struct((field,))) is None


@pytest.mark.parametrize(("column", "text"), [case[:2] for case in FITS] + MISFITS)
def test_every_value_is_read_as_the_other_ways_read_it(column: Column, text: str) -> None:
    columns = Struct((Field("x", column), Field("y", Integer())))
    same(columns, record(f'{{"y":1,"x":{text}}}') + record('{"x":null}') + record(f'{{"x":{text},"y":2}}'))


numbers = st.integers(-(2**65), 2**65) | st.integers(-300, 300) | st.floats() | st.decimals(allow_nan=False).map(float)
texts = st.text() | st.sampled_from(["2026-01-01", "2026-01-01T00:00:00Z", "12.5", "\u2028", "\x7f", '"', "\\"])
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
fitting = {
    "i": st.integers(-(2**63), 2**63 - 1),
    "s": st.integers(-(2**15), 2**15 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(),
    "t": texts,
    "j": values,
    "é": texts,
    "o": st.fixed_dictionaries({}, optional={"x": st.none() | st.integers(-5, 5), "y": values}),
    "l": st.lists(st.none() | st.integers(-5, 5), max_size=3),
    "more": values,
}
plain_records = st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in fitting.items()})
any_records = st.dictionaries(st.sampled_from([field.name for field in ALL.fields] + ["more"]), values)
styles = st.fixed_dictionaries(
    {"ensure_ascii": st.booleans(), "separators": st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")])}
)


@given(st.lists(plain_records | any_records, min_size=1, max_size=5), styles, st.randoms(use_true_random=False))
def test_any_records_written_in_any_style_are_read_alike(
    records: list[dict[str, Any]], style: dict[str, Any], chance: random.Random
) -> None:
    lines = []
    for each in records:
        members = list(each.items())
        chance.shuffle(members)
        line = json.dumps({"type": "RECORD", "stream": "s", "record": dict(members)}, **style)
        lines.append(line.encode("utf-8", "surrogatepass") + b"\n")
    same(ALL, b"".join(lines))


@given(st.integers(0, len(LINE.encode()) - 2), st.binary(max_size=3), st.integers(0, 3))
@example(LINE.index('"time'), b'"i":3,', 0)
@example(0, b"\x0b", 0)
def test_a_line_with_any_damage_is_read_alike(at: int, put: bytes, cut: int) -> None:
    whole = LINE.encode()
    damaged = whole[:at] + put.replace(b"\n", b"") + whole[at + cut : -1] + b"\n"
    same(ALL, whole + damaged + whole)


@pytest.mark.parametrize("first", [0, 100, 101, 103, 200])
@pytest.mark.parametrize("stop", [0, 100, 102, 103, 200])
def test_only_the_rows_that_are_wanted_are_in_the_batch(first: int, stop: int) -> None:
    data = b"".join(record(f'{{"i":{row},"t":"t{row}"}}') for row in range(3))
    if stop >= first:
        same(ALL, data, first=first, stop=stop)


def test_chunks_of_lines_that_are_left_are_soon_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0

    def read(*args: Any) -> None:
        nonlocal tried
        tried += 1

    monkeypatch.setattr(fast_path.compiled, "read", read)
    lines = PlainLines(ALL, arrow_schema(ALL).types)
    assert {lines.take(LINE.encode()) for _ in range(1000)} == {None}
    assert tried < 50
