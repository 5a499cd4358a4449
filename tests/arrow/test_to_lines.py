"""Arrow batches as RECORD lines: what comes out is what a JSON parser reads back as the very same values."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.to_lines import LineEncoder, pieces
from singerlake.errors import SettingError, ValueDoesNotFitError

TIME = "2026-01-01T00:00:00.000001Z"
EASTERN = pa.timestamp("us", "America/New_York")


def encoder(stream: str = "s") -> LineEncoder:
    return LineEncoder(stream, TIME, variant=lambda value, metadata: (metadata + value).decode())


def texts(array: pa.Array) -> list[str]:
    """The JSON text of each value of a column."""
    lines = encoder().lines(pa.record_batch([array], names=["c"])).decode().split("\n")
    head, tail = '{"type":"RECORD","stream":"s","record":{"c":', f'}},"time_extracted":"{TIME}"}}'
    assert lines.pop() == ""
    assert all(line.startswith(head) and line.endswith(tail) for line in lines)
    return [line[len(head) : -len(tail)] for line in lines]


def test_a_line_is_a_whole_record_message_with_every_column_in_it() -> None:
    batch = pa.record_batch([pa.array([1, None]), pa.array(["a", None])], names=["id", 'na"me\n'])
    assert encoder('s"\\é\n').lines(batch).decode() == (
        f'{{"type":"RECORD","stream":"s\\"\\\\é\\n","record":{{"id":1,"na\\"me\\n":"a"}},"time_extracted":"{TIME}"}}\n'
        f'{{"type":"RECORD","stream":"s\\"\\\\é\\n","record":{{"id":null,"na\\"me\\n":null}},"time_extracted":"{TIME}"}}\n'
    )


def test_no_rows_are_no_lines() -> None:
    assert encoder().lines(pa.record_batch([pa.array([], pa.int64())], names=["id"])) == b""


CASES: dict[str, tuple[pa.Array, list[str]]] = {
    "boolean": (pa.array([True, False, None]), ["true", "false", "null"]),
    "bytes": (pa.array([-128, 127], pa.int8()), ["-128", "127"]),
    "longs": (pa.array([-(2**63), 2**63 - 1]), ["-9223372036854775808", "9223372036854775807"]),
    "doubles": (pa.array([0.1, -0.0, 1.0, 1e300, None]), ["0.1", "-0.0", "1.0", "1e+300", "null"]),
    "floats are written as the doubles they are": (pa.array([0.1], pa.float32()), ["0.10000000149011612"]),
    "decimals are plain": (
        pa.array([Decimal("1e-18"), Decimal("0"), Decimal("-12.5"), None], pa.decimal128(38, 18)),
        ['"0.000000000000000001"', '"0.000000000000000000"', '"-12.500000000000000000"', "null"],
    ),
    "dates": (pa.array([date.min, date.max, None]), ['"0001-01-01"', '"9999-12-31"', "null"]),
    "times are UTC": (
        pa.array([datetime(2026, 1, 1, 5, tzinfo=UTC), None], EASTERN),
        ['"2026-01-01T05:00:00.000000Z"', "null"],
    ),
    "times without zone": (
        pa.array([datetime.min, datetime.max]),
        ['"0001-01-01T00:00:00.000000"', '"9999-12-31T23:59:59.999999"'],
    ),
    "only null": (pa.nulls(2), ["null", "null"]),
    "strings": (
        pa.array(['a"\\', "\x00\x1f\x7f", "\u2028é😀", "", None]),
        [r'"a\"\\"', '"\\u0000\\u001f\x7f"', '"\u2028é😀"', '""', "null"],
    ),
    "large strings": (pa.array(["a", '"'], pa.large_string()), ['"a"', r'"\""']),
    "lists": (pa.array([[1, None], [], None]), ["[1,null]", "[]", "null"]),
    "lists of lists of nothing": (pa.array([[[]], [], None], pa.list_(pa.list_(pa.string()))), ["[[]]", "[]", "null"]),
    "structs": (
        pa.array([{"a": 1, "b": {"c": None}}, None, {"b": None}]),
        ['{"a":1,"b":{"c":null}}', "null", '{"a":null,"b":null}'],
    ),
    "structs of nothing": (pa.array([{}, None], pa.struct([])), ["{}", "null"]),
    "maps": (
        pa.array([[('k"', 1), ("", None)], [], None], pa.map_(pa.string(), pa.int64())),
        [r'{"k\"":1,"":null}', "{}", "null"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_type_has_its_text(case: str) -> None:
    array, expected = CASES[case]
    assert texts(array) == expected
    for start in range(len(array)):
        assert texts(array.slice(start)) == expected[start:]
        assert texts(array.slice(start, 1)) == expected[start : start + 1]


def variants(values: list[dict[str, bytes] | None]) -> pa.Array:
    marked = pa.field("metadata", pa.binary(), metadata={"variant": "true"})
    return pa.array(values, pa.struct([pa.field("value", pa.binary()), marked]))


def test_variants_are_the_text_their_engine_gives_on_one_line() -> None:
    assert texts(variants([{"value": b"\n 1}", "metadata": b'{"a":'}, None])) == ['{"a":  1}', "null"]


def test_a_variant_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueDoesNotFitError, match="column 'c' holds a variant that is not JSON"):
        texts(variants([{"value": b"NaN", "metadata": b""}]))


def not_utf8() -> pa.Array:
    return pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())


BAD: dict[str, tuple[pa.Array, str]] = {
    "NaN": (pa.array([1.0, math.nan]), "column 'c' holds NaN or an infinity"),
    "infinity": (pa.array([-math.inf], pa.float32()), "column 'c' holds NaN or an infinity"),
    "NaN within": (pa.array([[{"d": math.nan}]]), r"column 'c\[\].d' holds NaN"),
    "no UTF-8": (not_utf8(), "column 'c' holds text that is not UTF-8"),
    "a key without UTF-8": (
        pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), not_utf8(), pa.array([1])),
        r"column 'c \(key\)' holds text that is not UTF-8",
    ),
    "the year 10000": (
        pa.array([2_932_897], pa.int32()).cast(pa.date32()),
        "column 'c' holds a time outside the years",
    ),
    "the year 0": (pa.array([-719_163], pa.int32()).cast(pa.date32()), "column 'c' holds a time outside the years"),
    "a moment after": (pa.array([253_402_300_800_000_000], EASTERN), "column 'c' holds a time outside the years"),
    "a moment before": (pa.array([-62_135_596_800_000_001], pa.timestamp("us")), "column 'c' holds a time outside"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_json_cannot_hold_is_refused_with_its_column(case: str) -> None:
    array, message = BAD[case]
    with pytest.raises(ValueDoesNotFitError, match=message):
        texts(array)


def test_nan_below_a_null_is_no_value() -> None:
    child = pa.array([math.nan, 1.0])
    assert texts(pa.StructArray.from_arrays([child], ["a"], mask=pa.array([True, False]))) == ["null", '{"a":1.0}']


@pytest.mark.parametrize(
    "array",
    [pa.array([b"x"]), pa.array([timedelta(1)]), pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))],
)
def test_a_type_without_counterpart_is_refused(array: pa.Array) -> None:
    with pytest.raises(SettingError, match="column 'c' has a type without a counterpart in JSON"):
        texts(array)


ATOMS = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (pa.bool_(), st.booleans()),
]


def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.text('ab"\\é', min_size=1), min_size=1, max_size=3, unique=True)
    lists = inner.map(lambda pair: (pa.list_(pair[0]), st.lists(st.none() | pair[1], max_size=3)))
    structs = st.tuples(names, st.lists(inner, min_size=3, max_size=3)).map(
        lambda drawn: (
            pa.struct([pa.field(name, pair[0]) for name, pair in zip(*drawn, strict=False)]),
            st.fixed_dictionaries({name: st.none() | pair[1] for name, pair in zip(*drawn, strict=False)}),
        )
    )
    return lists | structs


COLUMNS = st.recursive(st.sampled_from(ATOMS), wider, max_leaves=4).flatmap(
    lambda pair: st.lists(st.none() | pair[1], min_size=1, max_size=6).map(lambda values: (pair[0], values))
)


@given(COLUMNS)
def test_any_value_comes_back_from_a_parser_as_it_was(column: tuple[pa.DataType, list[Any]]) -> None:
    kind, values = column
    found = [json.loads(text) for text in texts(pa.array(values, kind))]
    assert json.dumps(found, sort_keys=True) == json.dumps(values, sort_keys=True)


@pytest.mark.parametrize("target", [1, 100, 1 << 20])
def test_pieces_are_all_rows_in_order(target: int) -> None:
    batch = pa.record_batch([pa.array(range(100)), pa.array(["x" * n for n in range(100)])], names=["a", "b"])
    found = list(pieces(batch, target))
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
    assert (len(found) > 1) == (target < batch.nbytes)


def test_pieces_of_nothing_are_none() -> None:
    assert list(pieces(pa.record_batch([pa.array([], pa.int64())], names=["a"]))) == []
