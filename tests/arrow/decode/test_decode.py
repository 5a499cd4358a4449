"""From lines to record batches: every value as it was written, or rescued, or an error that says where and what."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.decode.slow_path import Origin
from singerlake.arrow.plan.request import Mode, Request
from singerlake.arrow.schema.columns import (
    Array,
    Boolean,
    Column,
    Date,
    Double,
    Field,
    Integer,
    JsonText,
    Struct,
    Text,
    Timestamp,
)
from singerlake.arrow.schema.own import METADATA
from singerlake.errors import BrokenFileError, ValueDoesNotFitError
from singerlake.spark.spark_types import arrow_schema, to_spark
from tests.arrow.cases import CENTS, EITHER_CENTS, FITS, MISFITS, POINT, SECRET, TEXT_CENTS, UTC

pytestmark = pytest.mark.usefixtures("either_reader")

ORIGIN = Origin("v/file.singer.gz", "hash1", offset=60)
X = "x"


def record(text: str, **envelope: str) -> bytes:
    """A RECORD line around the JSON text of its record."""
    extra = "".join(f',"{key}":{value}' for key, value in envelope.items())
    return f'{{"type":"RECORD","stream":"s","record":{text}{extra}}}\n'.encode()


def decoder_of(columns: Struct, *, metadata: bool = False, mode: Mode = Mode.FAILFAST) -> BatchDecoder:
    return BatchDecoder(columns, arrow_schema(to_spark(columns)), Request(metadata=metadata, mode=mode))


def decode(columns: Struct, lines: Iterable[bytes], *, metadata: bool = False) -> pa.RecordBatch:
    lines = list(lines)
    batch, messages = decoder_of(columns, metadata=metadata).batch(b"".join(lines), 100, ORIGIN)
    assert messages == len(lines)
    return batch


def rows(columns: Struct, lines: Iterable[bytes], *, metadata: bool = False) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = decode(columns, lines, metadata=metadata).to_pylist()
    return found


def one(column: Column, *values: str) -> list[Any]:
    """The values of one column, each given as JSON text."""
    return [row[X] for row in rows(Struct((Field(X, column),)), [record(f'{{"x":{value}}}') for value in values])]


@pytest.mark.parametrize(("column", "text", "expected"), FITS)
def test_a_value_that_fits_is_read_as_it_was_written(column: Column, text: str, expected: Any) -> None:
    assert one(column, text, "null", text) == [expected, None, expected]


@pytest.mark.parametrize("column", {repr(column): column for column, *_ in FITS}.values(), ids=repr)
def test_values_that_fit_alone_fit_together(column: Column) -> None:
    texts, expected = zip(*((text, value) for each, text, value in FITS if each == column), strict=True)
    assert one(column, *texts, *reversed(texts)) == [*expected, *reversed(expected)]


def test_times_written_in_several_ways_stand_in_one_column() -> None:
    texts = ['"2026-01-01T00:00:00"', '"2026-01-01T01:00:00+01:00"', "null", '"2026-01-01 00:00:00.000000Z"']
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert one(Timestamp(), *texts) == [moment, moment, None, moment]


def test_a_property_that_is_missing_or_null_is_null_and_the_last_of_two_counts() -> None:
    columns = Struct((Field("a", Integer()), Field("b", JsonText()), Field("c", POINT)))
    lines = [record("{}"), record('{"a":null,"b":null,"c":null}'), record('{"a":1,"a":2,"b":{},"b":3}')]
    nothing = {"a": None, "b": None, "c": None}
    assert rows(columns, lines) == [nothing, nothing, {"a": 2, "b": "3", "c": None}]


@pytest.mark.parametrize(("column", "text"), MISFITS)
def test_a_value_that_does_not_fit_is_an_error_with_its_place_and_its_beginning(column: Column, text: str) -> None:
    with pytest.raises(ValueDoesNotFitError) as raised:
        one(column, "null", text, "null")
    message = str(raised.value)
    assert "column 'x'" in message
    assert "line=43, offset=101" in message
    assert f"file={ORIGIN.path!r}" in message
    assert (text if len(text) <= 100 else text[:100] + "...") in message


@pytest.mark.parametrize(
    ("column", "text", "path"),
    [
        (POINT, '{"a":"31337"}', "x.a"),
        (POINT, '{"b c":["31337\\ud800"]}', "x.b c[]"),
        (Array(POINT), '[null,{"a":1},{"a":9223372036854775808}]', "x[].a"),
        (Array(Array(Date())), '[["2026-01-01"],["31337"]]', "x[][]"),
    ],
)
def test_a_nested_value_that_does_not_fit_is_named_by_its_path(column: Column, text: str, path: str) -> None:
    with pytest.raises(ValueDoesNotFitError) as raised:
        one(column, text)
    assert f"column {path!r} is" in str(raised.value)


def test_the_first_record_with_a_misfit_is_the_one_named() -> None:
    columns = Struct((Field("a", Date()), Field("b", Date())))
    lines = [record("{}"), record('{"b":"no"}'), record('{"a":"no"}')]
    with pytest.raises(ValueDoesNotFitError, match=r"column 'b' is .*offset=101"):
        rows(columns, lines)


def test_a_null_where_the_schema_forbids_it_is_an_error() -> None:
    for fields, path, text in [
        (Struct((Field("a", Integer(), nullable=False),)), "a", '{"a":null}'),
        (Struct((Field("o", Struct((Field("a", Integer(), nullable=False),))),)), "o.a", '{"o":{}}'),
    ]:
        for mode in Mode:
            with pytest.raises(ValueDoesNotFitError, match=f"column '{path}' is an integer of 64 bits, never null"):
                decoder_of(fields, mode=mode).batch(record(text), 100, ORIGIN)
    required = Struct((Field("o", Struct((Field("a", Integer(), nullable=False),))),))
    batch = decode(required, [record('{"o":null}'), record('{"o":{"a":1}}')])
    assert batch.to_pylist() == [{"o": None}, {"o": {"a": 1}}]


def test_lines_beyond_strict_json_are_coped_with_one_by_one() -> None:
    columns = Struct((Field("n", Double()), Field("j", JsonText()), Field("t", Text())))
    lines = [
        record('{"n":1,"j":{"k":1.50},"t":"a"}'),
        record('{"n":NaN,"j":{"k":NaN,"l":[1e2,true,null,"\\ud800"]},"t":"b","other":"\\udfff"}'),
        record('{"n":2,"j":3,"t":"c"}'),
    ]
    found = rows(columns, lines)
    assert math.isnan(found[1].pop("n"))
    assert found == [
        {"n": 1.0, "j": '{"k":1.50}', "t": "a"},
        {"j": '{"k":NaN,"l":[1e2,true,null,"\\ud800"]}', "t": "b"},
        {"n": 2.0, "j": "3", "t": "c"},
    ]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "", "é", "record", "f0", "a.b"])
def test_a_property_may_have_any_name(name: str) -> None:
    columns = Struct((Field(name, Integer()), Field("y", Text())))
    lines = [record(json.dumps({name: 5, "y": "z"}))]
    assert rows(columns, lines) == [{name: 5, "y": "z"}]


def test_activate_version_is_no_row_and_keeps_its_offset() -> None:
    activate = b'{"type":"ACTIVATE_VERSION","stream":"s","version":5}\n'
    columns = Struct((Field("a", Integer()), *METADATA.fields))
    lines = [activate, record('{"a":1}'), activate, record('{"a":2}', time_extracted='"2026-01-01T00:00:00Z"')]
    for extra in ([], [record('{"a":NaN}')]):
        if extra:
            with pytest.raises(ValueDoesNotFitError, match="offset=104"):
                rows(columns, lines + extra, metadata=True)
            continue
        assert rows(columns, lines, metadata=True) == [
            {
                "a": value,
                "_singerlake_offset": offset,
                "_singerlake_version": "hash1",
                "_singerlake_file": "v/file.singer.gz",
                "_time_extracted": time,
                "_singer_version": None,
            }
            for value, offset, time in [(1, 101, None), (2, 103, datetime(2026, 1, 1, tzinfo=UTC))]
        ]
    assert rows(columns, [activate], metadata=True) == []


def test_a_time_of_extraction_that_is_none_is_an_error_only_where_it_is_asked_for() -> None:
    bad = [record("{}", time_extracted="31337")]
    assert rows(Struct((Field("a", Integer()),)), bad) == [{"a": None}]
    with pytest.raises(ValueDoesNotFitError, match="column '_time_extracted'"):
        rows(METADATA, bad, metadata=True)


def test_without_metadata_its_names_are_ordinary_properties() -> None:
    columns = Struct((Field("_time_extracted", Integer()),))
    assert rows(columns, [record('{"_time_extracted":7}')]) == [{"_time_extracted": 7}]


@pytest.mark.parametrize(
    "line",
    [
        b"not json 31337\n",
        b"\n",
        b"[]\n",
        b'{"type":"STATE","value":31337}\n',
        b'{"type":"RECORD","stream":"s","record":null}\n',
        b'{"type":"RECORD","stream":"s","record":31337}\n',
        b'{"type":"RECORD","stream":"s"}\n',
        b'{"stream":"s","record":{}}\n',
        record('{"a":1}')[:-1] + record('{"a":31337}'),
        b'{"type":"RECORD","record":{"a":"\xff"}}\n',
        b'{"type":"RECORD","record":{"a":' + b"[" * 100_000 + b"}}\n",
    ],
)
def test_a_line_that_is_no_message_breaks_the_file_and_is_not_shown(line: bytes) -> None:
    with pytest.raises(BrokenFileError) as raised:
        rows(Struct((Field("a", Integer()),)), [record('{"a":1}'), line])
    assert "offset=101" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_batches_have_the_very_schema_that_spark_checks_for() -> None:
    columns = Struct((Field("o", POINT), Field("t", Timestamp()), Field("d", CENTS), Field("l", Array(POINT))))
    expected = arrow_schema(to_spark(columns))
    batch = decode(columns, [record('{"o":{"a":1},"l":[{}]}')])
    assert batch.schema.equals(expected, check_metadata=True)
    assert expected.field("t").type == pa.timestamp("us", tz="UTC")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["5", "1.5", "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01 10:00:00.5", "é", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b c"]), inner, max_size=2),
    max_leaves=5,
)
column_types = st.recursive(
    st.sampled_from([Boolean(), Integer(), Integer(16), Double(), CENTS, TEXT_CENTS, EITHER_CENTS, Text(), JsonText()])
    | st.sampled_from([Date(), Timestamp(), Timestamp(zoned=False)]),
    lambda inner: (
        inner.map(Array) | st.tuples(inner, inner).map(lambda p: Struct((Field("a", p[0]), Field("b c", p[1]))))
    ),
    max_leaves=4,
)


@given(column_types, st.lists(json_values, min_size=1, max_size=4))
def test_the_fast_way_and_the_careful_way_read_the_same(column: Column, values: list[Any]) -> None:
    lines = [record(json.dumps({X: value}, ensure_ascii=False, separators=(",", ":"))) for value in values]
    columns = Struct((Field(X, column),))

    def outcome() -> Any:
        try:
            return rows(columns, lines)
        except ValueDoesNotFitError as error:
            # The value itself is shown with or without escapes, as this test patches them.
            return str(error).partition(": ")[0], error.context

    found = outcome()
    with patch.object(BatchDecoder, "_fast", lambda *_: None), patch("json.dumps", _plain_dumps):
        assert outcome() == found


def _plain_dumps(value: Any, _dumps: Any = json.dumps) -> str:
    return str(_dumps(value, ensure_ascii=False))


def test_the_types_of_spark_follow_the_columns() -> None:
    columns = Struct(
        (
            Field("b", Boolean()),
            Field("i", Integer()),
            Field("d", Double()),
            Field("c", CENTS),
            Field("t", Text()),
            Field("j", JsonText()),
            Field("ts", Timestamp()),
            Field("tn", Timestamp(zoned=False)),
            Field("da", Date()),
            Field("a", Array(POINT)),
        )
    )
    assert to_spark(columns).simpleString() == (
        "struct<b:boolean,i:bigint,d:double,c:decimal(10,2),t:string,j:string,ts:timestamp,tn:timestamp_ntz,"
        "da:date,a:array<struct<a:bigint,b c:array<string>>>>"
    )
    assert all(field.nullable for field in to_spark(columns))
    assert isinstance(to_spark(columns), spark.StructType)
