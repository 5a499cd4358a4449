"""The compiled encoder writes what the one in Python writes."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.tables.formats.encode import rows
from tests.tables.formats import samples

FORMS = (rows.CSV, rows.CSV_ESCAPED, rows.JSON, rows.AVRO)
INT64 = st.integers(-(2**63), 2**63 - 1)
SIMPLE = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), INT64),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.float64(), st.floats() | st.integers(-(10**13), 10**13).map(lambda number: number / 10_000)),
    (pa.string(), st.text()),
    (pa.decimal128(38, 7), st.decimals(-(10**30), 10**30, places=7)),
    (pa.decimal128(20, 0), st.decimals(-(10**20) + 1, 10**20 - 1, places=0)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC))),
]


def typed(levels: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[object]]]:
    """A type, and what makes its values."""
    leaf = st.sampled_from(SIMPLE)
    if not levels:
        return leaf
    below = typed(levels - 1)
    lists = below.map(lambda each: (pa.list_(each[0]), st.lists(st.none() | each[1], max_size=3)))
    objects = st.lists(below, max_size=3).map(
        lambda each: (
            pa.struct([(f"f{index}", own) for index, (own, _) in enumerate(each)]),
            st.fixed_dictionaries({f"f{index}": st.none() | values for index, (_, values) in enumerate(each)}),
        )
    )
    return leaf | lists | objects


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Some rows, as a part of more."""
    count, arrays = draw(st.integers(0, 6)), []
    for own, values in draw(st.lists(typed(2), min_size=1, max_size=4)):
        arrays.append(pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), own))
    batch = pa.RecordBatch.from_arrays(arrays, [f'"{index}' for index in range(len(arrays))])
    begin = draw(st.integers(0, count))
    return batch.slice(begin, draw(st.integers(0, count - begin)))


def compiled(batch: pa.RecordBatch, form: str) -> bytes:
    """What ``_rows.c`` makes."""
    assert rows.compiled is not None, "the module is not compiled; run: make install"
    made = rows.encoded(batch, form, b"\n", texts=False)
    if made is None:
        made = rows.encoded(batch, form, b"\n", texts=True)
    assert made is not None
    return made


@given(batches(), st.sampled_from(FORMS))
def test_both_make_the_same_bytes(batch: pa.RecordBatch, form: str) -> None:
    assert compiled(batch, form) == rows.in_python(batch, form, b"\n")


@pytest.mark.parametrize("form", FORMS)
def test_both_make_the_same_bytes_of_what_is_hard(form: str) -> None:
    for table in (samples.simple(), samples.nested(), samples.nothing(), samples.wide()):
        (batch,) = table.combine_chunks().to_batches()
        for part in (batch, batch.slice(1), batch.slice(2, 1), batch.slice(0, 0)):
            assert compiled(part, form) == rows.in_python(part, form, b"\n")


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00.000000"),
        (-1, "1969-12-31T23:59:59.999999"),
        (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000"),
        (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999"),
        (2**63 - 1, "+294247-01-10T04:00:54.775807"),
        (-(2**63), "-290308-12-21T19:59:05.224192"),
    ],
)
def test_times_outside_the_years_of_python_are_iso_8601(micros: int, text: str, way: str) -> None:
    table = pa.table({"t": pa.array([micros]).cast(pa.timestamp("us"))})
    assert b"".join(block for _, block in rows.blocks(table, rows.CSV, b"")) == text.encode()


def test_every_day_of_eight_centuries_is_the_calendars() -> None:
    days = pa.array(range(-146_097, 146_097), pa.int32())
    made = compiled(pa.record_batch({"d": days.cast(pa.date32())}), rows.CSV).decode().split()
    assert made == [f"{day:%Y-%m-%d}" for day in days.cast(pa.date32()).to_pylist()]
    assert datetime.fromisoformat(made[0])


def test_a_block_holds_so_many_rows_whatever_the_chunks(way: str) -> None:
    table = pa.table({"n": pa.chunked_array([pa.array(range(rows.BLOCK + 1)), pa.array([7])])})
    made = list(rows.blocks(table, rows.CSV, b"\n"))
    assert [count for count, _ in made] == [rows.BLOCK, 1, 1]
    assert b"".join(block for _, block in made).split() == [b"%d" % number for number in (*range(rows.BLOCK + 1), 7)]
