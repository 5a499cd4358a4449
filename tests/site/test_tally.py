"""A million files become a few dozen figures, none of which is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import timestamp
from singerlake.site.totals import PERIODS, Amount, periods, tally, together
from tests.site.lakes import manifest


def files(*given: tuple[str, int]):
    return manifest("t", "s", files=[{"last": last, "bytes": size} for last, size in given]).files


@given(
    st.lists(
        st.tuples(st.datetimes(datetime(1000, 1, 1), timezones=st.just(UTC)).map(timestamp), st.integers(0, 10**18)),
        min_size=1,
        max_size=30,
    )
)
def test_no_file_is_lost_and_there_are_never_too_many_marks(given: list[tuple[str, int]]) -> None:
    found = tally(files(*given))
    _, made = periods(found)
    assert len(made) <= PERIODS
    assert sum((period.came for period in made), Amount()) == made[-1].total
    assert made[-1].total == Amount(len(given), 10 * len(given), sum(size for _, size in given))


@pytest.mark.parametrize(
    ("last", "unit", "labels"),
    [
        ("2026-01-01T02:59:59Z", "hour", ["2026-01-01 00:00", "2026-01-01 01:00", "2026-01-01 02:00"]),
        ("2026-02-25T00:00:00Z", "day", ["2026-01-01", "2026-01-02", "2026-01-03"]),
        ("2026-12-01T00:00:00Z", "week", ["week of 2025-12-29", "week of 2026-01-05", "week of 2026-01-12"]),
        ("2029-01-01T00:00:00Z", "month", ["2026-01", "2026-02", "2026-03"]),
        ("2036-01-01T00:00:00Z", "quarter", ["2026 Q1", "2026 Q2", "2026 Q3"]),
        ("2060-01-01T00:00:00Z", "year", ["2026", "2027", "2028"]),
        ("2400-01-01T00:00:00Z", "10 years", ["2020–2029", "2030–2039", "2040–2049"]),
        ("9999-01-01T00:00:00Z", "1000 years", ["2000–2999", "3000–3999", "4000–4999"]),
    ],
)
def test_the_unit_of_time_suits_the_span(last: str, unit: str, labels: list[str]) -> None:
    named, made = periods(tally(files(("2026-01-01T00:00:00Z", 1), (last, 1))))
    assert named == unit
    assert [period.label for period in made[:3]] == labels
    assert made[-1].came.files == 1


def test_times_that_cannot_be_read_are_counted_apart() -> None:
    found = tally(files(("2026-01-01T00:00:00Z", 1), ("yesterday", 2), ("", 3), ("2026-13-01T00:00:00Z", 4)))
    assert found.undated == Amount(3, 30, 9)
    assert [period.came.files for period in periods(found)[1]] == [1]


def test_a_file_that_begins_later_than_it_ends_has_no_time() -> None:
    times = {"first": "2026-01-01T00:00:19.000000Z", "last": "2026-01-01T00:00:00.001000Z"}
    found = tally(manifest("t", "s", files=[times]).files)
    assert (found.hours, found.undated.files) == ({}, 1)


def test_streams_together_have_what_each_has() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    parts = [tally(files((timestamp(start + timedelta(hours=n % 3)), n + 1), ("?", 5))) for n in range(6)]
    whole = together(parts)
    assert whole.undated == Amount(6, 60, 30)
    assert {hour.hour: amount.files for hour, amount in whole.hours.items()} == {0: 2, 1: 2, 2: 2}


def test_nothing_is_nothing() -> None:
    assert periods(tally(())) == ("", ())
