"""The span of times: every text that a reader takes for a moment lies in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.schema.columns import Field, Timestamp
from singerlake.arrow.values.arrays import build
from singerlake.format.lines.times import joined, known_span, span

START = datetime(2026, 1, 1, tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([], None),
        ([None, "no time", 5, {"a": 1}, ["2026-01-01T00:00:00Z"], "2026-01-01", "\ud800"], None),
        ([START], (START, START)),
        ([START, None, START - timedelta(1)], (START - timedelta(1), START)),
        (["2026-01-01T02:00:00+02:00", "2026-01-01T01:00:00", START], (START, START + timedelta(hours=1))),
        ([START.replace(tzinfo=None), START + timedelta(1)], (START, START + timedelta(1))),
        (["2026-01-01T00:00:00.9Z", "2026-01-01T00:00:00Z"], (START, START + timedelta(seconds=0.9))),
        (["9999-12-31T23:59:59-10:00", "2026-01-01T00:00:00Z"], (START, LATEST)),
        (["0001-01-01T00:00:00+10:00", "0000-01-01T00:00:00Z"], (EARLIEST, EARLIEST)),
    ],
)
def test_the_span_is_from_the_earliest_to_the_latest(times: list[Any], expected: Any) -> None:
    assert span(times) == expected


def test_spans_are_joined() -> None:
    one, other = (START, START), (START - timedelta(1), START - timedelta(1))
    assert joined(one, other) == joined(other, one) == (other[0], one[0])
    assert joined(one, None) == joined(None, one) == one
    assert joined(None, None) is None


@pytest.mark.parametrize(
    ("first", "last", "known"),
    [
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z", True),
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000001Z", True),
        ("2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000000Z", False),
        ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", False),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", True),
        ("2026-01-01T05:00:00+05:00", "2026-01-01T01:00:00Z", True),
        ("0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", True),
        ("2026-01-01T00:00:00Z", "soon", False),
        ("", "2026-01-01T00:00:00Z", False),
        ("2026-02-30T00:00:00.000000Z", "2026-03-30T00:00:00.000000Z", False),
        ("2026-W01-1T00:00:00.000000Z", "2026-03-30T00:00:00.000000Z", False),
    ],
)
def test_a_span_that_ends_before_it_begins_is_unknown_as_one_that_names_no_moment(
    first: str, last: str, known: bool
) -> None:
    assert (known_span(first, last) is not None) is known


PARTS = (
    st.sampled_from(["2026-01-01", "2026-1-1", "0001-01-01", "0000-06-01", "9999-12-31", "2024-02-29", "2026-02-29"]),
    st.sampled_from(["T", "t", " ", "_", ""]),
    st.sampled_from(["05", "05:06", "05:06:07", "23:59:59", "24:00:00", "05:06:60", "0506", "5:6:7", ""]),
    st.sampled_from(["", ".5", ".123456", ".1234560", ".1234567", ",5", "."]),
    st.sampled_from(["", "Z", "z", "+01", "+0130", "-01:30", "+00:00", "-10:00", "+14:00", "+25:00", " Z", "UTC"]),
)


@given(st.tuples(*PARTS).map("".join))
def test_what_a_reader_takes_for_a_time_lies_in_the_span(text: str) -> None:
    try:
        array = build([text], Field("at", Timestamp()), pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid:
        return
    found = span([text])
    assert found is not None
    seconds = array.cast(pa.int64())[0].as_py() / 1_000_000
    earliest, latest = (moment.timestamp() for moment in found)
    beyond = seconds > LATEST.timestamp() or seconds < EARLIEST.timestamp()
    assert found in ((LATEST, LATEST), (EARLIEST, EARLIEST)) if beyond else earliest - 1e-5 <= seconds <= latest + 1e-5
