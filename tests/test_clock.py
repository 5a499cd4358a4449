"""Times as taps write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import Backoff, parse_timestamp, random_id, timestamp
from tests.fakes import FakeClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("jitter", "seconds"), [(0, [1, 2, 4, 5, 5]), (0.5, [0.75, 1.5, 3, 3.75, 3.75]), (1, [0.5, 1, 2, 2.5, 2.5])]
)
def test_waits_grow_up_to_the_longest_and_chance_decides_a_share_of_them(jitter: float, seconds: list[float]) -> None:
    clock = FakeClock()
    waited: list[float] = []
    clock.on_sleep = waited.append
    backoff = Backoff(clock, first=1, longest=5, growth=2, jitter=jitter)
    for _ in seconds:
        backoff.wait()
    assert waited == seconds


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-01T12:00:00Z", NOON),
        ("2026-01-01T12:00:00.000000Z", NOON),
        ("2026-01-01t12:00:00z", NOON),
        ("2026-01-01 12:00", NOON),
        ("2026-01-01T12:00:00", NOON),
        ("2026-01-01T14:00:00+02:00", NOON),
        ("2026-01-01T06:30:00-0530", NOON),
        ("2026-01-01T14:00:00+02", NOON),
        ("2026-01-01T12:00:00.5Z", NOON + timedelta(microseconds=500_000)),
        ("2026-01-01T12:00:00.123456789Z", NOON + timedelta(microseconds=123_456)),
        (" 2026-01-01T12:00:00Z\n", NOON),
    ],
)
def test_a_date_time_is_read_as_the_moment_it_names(text: str, moment: datetime) -> None:
    assert parse_timestamp(text) == moment


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-01-01", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+23:00", "1767268800", "२०२६-01-01T00:00Z"],
)
def test_what_names_no_moment_is_none(text: str) -> None:
    assert parse_timestamp(text) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_written_time_reads_back(moment: datetime) -> None:
    assert parse_timestamp(timestamp(moment)) == moment


def test_identities_are_sixteen_characters_of_base32hex_and_differ() -> None:
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(id) == 16 and set(id) <= set("0123456789abcdefghijklmnopqrstuv") for id in ids)


def test_the_year_of_a_timestamp_has_four_digits() -> None:
    for text in ("0001-01-01T00:00:00.000000Z", "0999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"):
        moment = parse_timestamp(text)
        assert moment is not None
        assert timestamp(moment) == text
