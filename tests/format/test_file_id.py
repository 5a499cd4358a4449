"""An id of a data file says roughly when it was made, and is unlike any other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import random_id
from singerlake.format.file_id import is_timed, made_by, timed_id

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(MOMENTS, st.text("0123456789abcdefghijklmnopqrstuv", min_size=16, max_size=16))
def test_it_is_timed_and_keeps_fifty_random_bits(moment: datetime, random: str) -> None:
    made = timed_id(moment, random)
    assert is_timed(made)
    assert not is_timed(random)
    assert made[6:] == random[6:]


@given(MOMENTS, MOMENTS)
def test_the_later_one_comes_behind(one: datetime, other: datetime) -> None:
    first, second = sorted((one, other))
    if second - first >= timedelta(seconds=128):
        assert timed_id(first, "v" * 16) < timed_id(second, "0" * 16)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), "w00000aaaaaaaaaa"),
        (datetime(1970, 1, 1, 0, 2, 8, tzinfo=UTC), "w00001aaaaaaaaaa"),
        (datetime(2026, 1, 1, tzinfo=UTC), "wd5ariaaaaaaaaaa"),
    ],
)
def test_the_five_digits_are_the_time_over_128_seconds(moment: datetime, expected: str) -> None:
    assert int(expected[1:6], 32) == int(moment.timestamp()) // 128
    assert timed_id(moment, "a" * 16) == expected


@pytest.mark.parametrize(
    "text", ["", "w", "w00000000000000", "w0000000000000000", "W000000000000000", "w00000000000000w"]
)
def test_what_is_not_timed(text: str) -> None:
    assert not is_timed(text)


def test_a_short_random_part_is_filled() -> None:
    assert timed_id(datetime(1970, 1, 1, tzinfo=UTC), "21") == "w000000000000021"


def test_ids_of_one_moment_differ() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert len({timed_id(now, random_id()) for _ in range(1000)}) == 1000


@given(MOMENTS)
def test_it_says_by_when_it_was_made(moment: datetime) -> None:
    assert timedelta(0) < made_by(timed_id(moment, "0" * 16)) - moment <= timedelta(seconds=128)
