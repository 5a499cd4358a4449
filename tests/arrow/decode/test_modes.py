"""What becomes of values that do not fit: rescued beside the row, left out with the row and counted, or an error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.decode.decode import BatchDecoder
from singerlake.arrow.decode.slow_path import Origin
from singerlake.arrow.plan.request import Mode, Request
from singerlake.arrow.schema.columns import Array, Date, Double, Field, Integer, JsonText, Struct, Text, Timestamp
from singerlake.arrow.schema.own import METADATA, RESCUED
from singerlake.errors import BrokenFileError, ValueDoesNotFitError
from singerlake.spark.spark_types import arrow_schema, to_spark
from tests.arrow.cases import MISFITS, POINT
from tests.arrow.decode.test_decode import X, column_types, json_values, record

pytestmark = pytest.mark.usefixtures("either_reader")

ORIGIN = Origin("v/file.singer.gz", "hash1")
ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":5}\n'
SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{},"key_properties":[]}\n'


def decoder_of(columns: Struct, mode: Mode, *, metadata: bool = False) -> BatchDecoder:
    return BatchDecoder(columns, arrow_schema(to_spark(columns)), Request(metadata=metadata, mode=mode))


def rescued(columns: Struct, lines: Iterable[bytes], *, metadata: bool = False) -> list[dict[str, Any]]:
    """The rows in the mode PERMISSIVE, what was rescued parsed."""
    wanted = Struct((*columns.fields, RESCUED))
    decoder = decoder_of(wanted, Mode.PERMISSIVE, metadata=metadata)
    found: list[dict[str, Any]] = decoder.batch(b"".join(lines), 0, ORIGIN)[0].to_pylist()
    assert decoder.rescued == sum(row[RESCUED.name] is not None for row in found)
    return [{**row, RESCUED.name: json.loads(row[RESCUED.name] or "null")} for row in found]


@pytest.mark.parametrize(("column", "text"), MISFITS)
def test_a_value_that_does_not_fit_is_rescued_as_it_was_written_and_its_neighbours_stay(column: Any, text: str) -> None:
    wanted = Struct((Field(X, column), Field("y", Integer()), RESCUED))
    lines = [record('{"x":null,"y":1}'), record(f'{{"x":{text},"y":2}}'), record('{"x":null,"y":3}')]
    batch, _ = decoder_of(wanted, Mode.PERMISSIVE).batch(b"".join(lines), 0, ORIGIN)
    assert batch.column(0).to_pylist() == [None, None, None]
    assert batch.column(1).to_pylist() == [1, 2, 3]
    assert batch.column(2).to_pylist() == [None, f'{{"x":{text}}}', None]


def test_what_fits_of_an_object_stays_and_the_rest_is_rescued_in_its_shape() -> None:
    inner = Struct((Field("zip", Integer()), Field("on", Date()), Field("street", Text())))
    columns = Struct((Field("address", inner), Field("n", Integer())))
    lines = [
        record('{"address":{"zip":"x","on":"2026-13-01","street":"s"},"n":1.5}'),
        record('{"address":{"zip":7,"on":"2026-01-01"},"n":1}'),
        record('{"address":{"zip":7,"on":"tomorrow"},"n":1}'),
        record('{"address":[1],"n":2}'),
    ]
    found = rescued(columns, lines)
    assert [row[RESCUED.name] for row in found] == [
        {"address": {"zip": "x", "on": "2026-13-01"}, "n": 1.5},
        None,
        {"address": {"on": "tomorrow"}},
        {"address": [1]},
    ]
    assert [(row["address"] or {}).get("street") for row in found] == ["s", None, None, None]
    assert [(row["address"] or {}).get("zip") for row in found] == [None, 7, 7, None]
    assert [row["n"] for row in found] == [None, 1, 1, 2]


def test_an_array_fits_as_a_whole_or_not() -> None:
    columns = Struct((Field("days", Array(Date())), Field("points", Array(POINT))))
    lines = [
        record('{"days":["2026-01-01","soon"],"points":[{"a":1},{"a":2}]}'),
        record('{"days":["2026-01-01"],"points":[{"a":1},{"a":"x"}]}'),
        record('{"days":[1],"points":[9223372036854775808]}'),
    ]
    assert [row[RESCUED.name] for row in rescued(columns, lines)] == [
        {"days": ["2026-01-01", "soon"]},
        {"points": [{"a": 1}, {"a": "x"}]},
        {"days": [1], "points": [9223372036854775808]},
    ]


def test_the_time_of_extraction_is_rescued_too() -> None:
    lines = [record('{"a":1}', time_extracted="7"), record('{"a":2}', time_extracted='"soon"'), record('{"a":3}')]
    found = rescued(Struct((Field("a", Integer()), *METADATA.fields)), lines, metadata=True)
    assert [row[RESCUED.name] for row in found] == [{"_time_extracted": 7}, {"_time_extracted": "soon"}, None]


def test_a_value_that_only_the_careful_way_takes_is_no_misfit() -> None:
    lines = [record('{"n":9007199254740993.0}'), record('{"n":1e18}'), record('{"n":"5"}')]
    found = rescued(Struct((Field("n", Integer()),)), lines)
    assert [row["n"] for row in found] == [9007199254740993, 10**18, None]
    assert [row[RESCUED.name] for row in found] == [None, None, {"n": "5"}]


def test_offsets_count_on_over_lines_that_are_no_rows_and_schemas_are_no_messages() -> None:
    columns = Struct((Field("a", Integer()), METADATA.fields[0], RESCUED))
    lines = [SCHEMA, record('{"a":1}'), ACTIVATE, SCHEMA, record('{"a":"x"}'), record('{"a":3}'), SCHEMA]
    for mode, expected in {
        Mode.PERMISSIVE: [(1, 50), (None, 52), (3, 53)],
        Mode.DROPMALFORMED: [(1, 50), (3, 53)],
    }.items():
        wanted = columns if mode is Mode.PERMISSIVE else Struct(columns.fields[:2])
        batch, messages = decoder_of(wanted, mode, metadata=True).batch(b"".join(lines), 50, ORIGIN)
        assert messages == 4
        assert [(row["a"], row["_singerlake_offset"]) for row in batch.to_pylist()] == expected


def test_dropmalformed_leaves_the_rows_out_and_counts_them() -> None:
    columns = Struct((Field("a", Integer()), Field("d", Date())))
    decoder = decoder_of(columns, Mode.DROPMALFORMED)
    lines = [record('{"a":1}'), record('{"a":"x"}'), record('{"a":3,"d":"soon"}'), record('{"a":"x","d":"soon"}')]
    batch, messages = decoder.batch(b"".join(lines), 0, ORIGIN)
    assert (batch.column(0).to_pylist(), messages, decoder.dropped) == ([1], 4, 3)
    decoder.batch(b"".join(lines), 4, ORIGIN)
    assert decoder.dropped == 6


def test_a_column_declared_without_null_drops_misfits_too_and_names_them_in_the_other_modes() -> None:
    inner = Struct((Field("x", Integer(), nullable=False),))
    columns = Struct((Field("a", Integer(), nullable=False), Field("o", inner)))
    lines = [record('{"a":1,"o":{"x":1}}'), record('{"a":"two","o":{"x":1}}'), record('{"a":3,"o":{"x":"y"}}')]
    decoder = decoder_of(columns, Mode.DROPMALFORMED)
    batch, _ = decoder.batch(b"".join(lines), 0, ORIGIN)
    assert (batch.to_pylist(), decoder.dropped) == ([{"a": 1, "o": {"x": 1}}], 2)
    for mode in (Mode.PERMISSIVE, Mode.FAILFAST):
        with pytest.raises(
            ValueDoesNotFitError, match=r"column 'a' .* holds a string: \"two\"; declare .* without NOT NULL"
        ):
            decoder_of(columns, mode).batch(b"".join(lines), 0, ORIGIN)
    with pytest.raises(ValueDoesNotFitError, match="never null"):
        decoder_of(columns, Mode.DROPMALFORMED).batch(record('{"a":null}'), 0, ORIGIN)


def test_an_offset_that_its_column_cannot_hold_is_an_error_in_every_mode() -> None:
    columns = Struct((Field("_singerlake_offset", Integer(8)),))
    for mode in Mode:
        decoder = decoder_of(columns, mode, metadata=True)
        assert decoder.batch(record("{}"), 127, ORIGIN)[0].column(0).to_pylist() == [127]
        with pytest.raises(ValueDoesNotFitError, match="a larger number: 128; read it as BIGINT"):
            decoder.batch(record("{}"), 128, ORIGIN)


def test_json_text_is_as_it_was_written_in_rows_with_a_misfit_too() -> None:
    text = '{ "a": 1.50, "a":[2] ,"n":"\\u00e9\\/é"}'
    columns = Struct((Field("a", Integer()), Field("j", JsonText()), Field("o", Struct((Field("j", JsonText()),)))))
    found = rescued(columns, [record(f'{{"a":{a},"j":{text},"o":{{"j":{text}}}}}') for a in ('"x"', "1")])
    assert [(row["j"], row["o"]["j"]) for row in found] == [(text, text)] * 2
    assert [row["a"] for row in found] == [None, 1]


@pytest.mark.parametrize("depth", [300, 400, 900])
def test_a_deep_value_is_kept_beside_a_misfit_and_as_one(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    columns = Struct((Field("a", Integer()), Field("j", JsonText()), Field("o", Struct((Field("n", Integer()),)))))
    wanted = Struct((*columns.fields, RESCUED))
    lines = record(f'{{"a":"x","j":{deep},"o":{{"n":{deep}}}}}')
    (row,) = decoder_of(wanted, Mode.PERMISSIVE).batch(lines, 0, ORIGIN)[0].to_pylist()
    assert (row["a"], row["j"], row["o"]) == (None, deep, {"n": None})
    assert row[RESCUED.name] == f'{{"a":"x","o":{{"n":{deep}}}}}'


def test_a_line_may_begin_with_spaces_and_write_its_type_with_escapes() -> None:
    columns = Struct((Field("a", Integer()),))
    line = b'  {"type":"REC\\u004fRD","stream":"s","record":{"a":"x"}}\n'
    assert rescued(columns, [line])[0][RESCUED.name] == {"a": "x"}


def test_failfast_names_the_first_record_whichever_way_its_misfit_was_found() -> None:
    columns = Struct((Field("d", Date()), Field("n", Integer())))
    decoder = decoder_of(columns, Mode.FAILFAST)
    lines = [record("{}"), record('{"d":"no"}'), record('{"n":"no"}')]
    with pytest.raises(ValueDoesNotFitError, match=r"column 'd' .*: \"no\"; .*line=3, offset=1"):
        decoder.batch(b"".join(lines), 0, ORIGIN)


def test_outside_the_range_meant_nothing_is_given_nor_refused() -> None:
    columns = Struct((Field("a", Integer()), METADATA.fields[0]))
    lines = [
        record('{"a":"x"}'),
        record('{"a":1}'),
        ACTIVATE,
        record('{"a":2}'),
        record('{"a":3}'),
        record('{"a":"x"}'),
    ]
    decoder = decoder_of(columns, Mode.FAILFAST, metadata=True)
    for first, stop, expected in [(11, 15, [1, 2, 3]), (12, 14, [2]), (12, 13, []), (11, 12, [1]), (99, 100, [])]:
        batch, messages = decoder.batch(b"".join(lines), 10, ORIGIN, first=first, stop=stop)
        assert (batch.column(0).to_pylist(), messages) == (expected, 6)
    mended, _ = decoder_of(Struct((*columns.fields, RESCUED)), Mode.PERMISSIVE, metadata=True).batch(
        b"".join(lines), 10, ORIGIN, first=14
    )
    assert mended.column(2).to_pylist() == [None, '{"a":"x"}']
    with pytest.raises(ValueDoesNotFitError, match="offset=15"):
        decoder.batch(b"".join(lines), 10, ORIGIN, first=11)


def test_messages_with_gaps_between_them_keep_their_offsets() -> None:
    columns = Struct((Field("a", Integer()), METADATA.fields[0]))
    lines = [record('{"a":1}'), ACTIVATE, record('{"a":2}'), record('{"a":"x"}'), record('{"a":3}')]
    offsets = [12, 15, 16, 20, 23]
    decoder = decoder_of(columns, Mode.FAILFAST, metadata=True)
    for first, stop, expected in [(0, 20, [12, 16]), (13, 17, [16]), (13, 16, []), (21, 99, [23]), (24, 99, [])]:
        batch, messages = decoder.batch(b"".join(lines), offsets, ORIGIN, first=first, stop=stop)
        assert (batch.column(1).to_pylist(), messages) == (expected, 5)
    plain, _ = decoder.batch(lines[0] + lines[2] + lines[4], [12, 16, 23], ORIGIN, first=13)
    assert plain.to_pylist() == [{"a": 2, "_singerlake_offset": 16}, {"a": 3, "_singerlake_offset": 23}]
    with pytest.raises(ValueDoesNotFitError, match="offset=20"):
        decoder.batch(b"".join(lines), offsets, ORIGIN)
    with pytest.raises(BrokenFileError, match="offset=15"):
        decoder.batch(lines[0] + b"{}\n" + lines[2], [12, 15, 16], ORIGIN)


@pytest.mark.parametrize("mode", Mode)
def test_a_line_that_is_no_message_breaks_the_file_in_every_mode(mode: Mode) -> None:
    with pytest.raises(BrokenFileError, match="offset=1"):
        decoder_of(Struct((Field("a", Integer()),)), mode).batch(record('{"a":"x"}') + b"{}\n", 0, ORIGIN)


def test_in_other_modes_the_name_is_an_ordinary_property() -> None:
    columns = Struct((Field(RESCUED.name, Integer()),))
    batch, _ = decoder_of(columns, Mode.FAILFAST).batch(record('{"_rescued_data":5}'), 0, ORIGIN)
    assert batch.column(0).to_pylist() == [5]


@given(st.lists(column_types, min_size=1, max_size=3), st.data())
def test_every_value_is_in_its_column_or_rescued_and_a_record_that_fits_is_untouched(
    types: list[Any], data: st.DataObject
) -> None:
    columns = Struct(tuple(Field(f"c{index}", column) for index, column in enumerate(types)))
    one_record = st.fixed_dictionaries({field.name: json_values for field in columns.fields})
    records = data.draw(st.lists(one_record, min_size=1, max_size=4))
    lines = [record(json.dumps(each)) for each in records]
    wanted = Struct((*columns.fields, RESCUED))
    batch, _ = decoder_of(wanted, Mode.PERMISSIVE).batch(b"".join(lines), 0, ORIGIN)
    dropping = decoder_of(columns, Mode.DROPMALFORMED)
    kept, _ = dropping.batch(b"".join(lines), 0, ORIGIN)
    fitting = []
    for row, (line, given_record) in enumerate(zip(lines, records, strict=True)):
        found = batch.slice(row, 1)
        lost = json.loads(found.column(RESCUED.name)[0].as_py() or "{}")
        try:
            alone, _ = decoder_of(columns, Mode.FAILFAST).batch(line, 0, ORIGIN)
        except ValueDoesNotFitError:
            assert lost
        else:
            assert not lost
            fitting.append(alone)
            assert found.select([field.name for field in columns.fields]).equals(alone)
        for name in lost:
            if found.column(name)[0].as_py() is None:
                assert lost[name] == given_record[name]
    assert dropping.dropped == len(records) - len(fitting)
    assert pa.Table.from_batches([kept]).equals(pa.Table.from_batches(fitting, kept.schema))


def test_a_chunk_with_a_few_misfits_among_many_rows_keeps_all_others() -> None:
    columns = Struct((Field("n", Integer()), Field("t", Timestamp()), Field("f", Double()), Field("j", JsonText())))
    lines = []
    for number in range(2000):
        n = '"five"' if number % 500 == 7 else str(number)
        t = "soon" if number % 700 == 9 else "2026-01-01T00:00:00Z"
        lines.append(record(f'{{"n":{n},"t":"{t}","f":{number},"j":[{number}]}}'))
    found = rescued(columns, lines)
    assert [row["f"] for row in found] == list(range(2000))
    assert [row["j"] for row in found] == [f"[{number}]" for number in range(2000)]
    assert {i: row[RESCUED.name] for i, row in enumerate(found) if row[RESCUED.name]} == {
        **{i: {"n": "five"} for i in range(7, 2000, 500)},
        **{i: {"t": "soon"} for i in range(9, 2000, 700)},
    }
