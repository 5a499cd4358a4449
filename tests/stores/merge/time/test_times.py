"""The times of the ``merge`` store: what they must be, and what storage's clock is taken to say."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import SettingError
from singerlake.format.merge.entry_key import milliseconds
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.merge.storage_time import StorageTime
from tests.fakes import START, FakeClock
from tests.stores.merge.merging import Skewed

NOW = milliseconds(START)


def test_the_lag_covers_two_wrong_clocks_whole_seconds_and_the_longest_write() -> None:
    assert MergeSettings().lag_ms == 10_000
    assert MergeSettings(stale=5, longest=1).lag_ms == 12_000
    assert MergeSettings(lag=60).lag_ms == 60_000


@pytest.mark.parametrize(
    "settings",
    [
        {"lag": 9.9},
        {"lag": 5, "stale": 5},
        {"stale": 1},
        {"stale": 0},
        {"stale": -2},
        {"stale": float("nan")},
        {"stale": float("inf")},
        {"lag": float("nan")},
        {"longest": 0},
        {"longest": float("inf")},
        {"touch": -1},
        {"look": -1},
        {"entries": 0},
        {"parallel": 0},
    ],
    ids=str,
)
def test_times_that_would_lose_the_order_of_writes_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(SettingError):
        MergeSettings(**settings)  # type: ignore[arg-type]


def test_the_error_names_the_setting() -> None:
    with pytest.raises(SettingError, match="merge_stale_seconds"):
        MergeSettings(stale=1)


def measured(
    skew: float, *, cut: bool = False, sent: float = 0.0, effect: float = 0.0, received: float = 0.0
) -> tuple[FakeClock, Skewed, StorageTime]:
    """A measurement: sent, taking effect and answered at those seconds of the true time."""
    true = FakeClock()
    clock = Skewed(true, skew)
    time = StorageTime(clock)
    true.seconds = received
    modified = START + timedelta(seconds=effect)
    shown = modified.replace(microsecond=0) if cut else modified
    time.observe(shown, sent=sent + clock.begins, received=received + clock.begins)
    return true, clock, time


def test_before_any_measurement_the_machine_s_clock_is_believed_and_nothing_is_certain() -> None:
    time = StorageTime(Skewed(FakeClock(), 7.5))
    assert time.now() == NOW + 7500
    assert time.at_least() is None


@pytest.mark.parametrize("skew", [-10, 12, 3600, -3600, 0])
def test_a_clock_is_corrected_in_both_directions(skew: float) -> None:
    true, clock, time = measured(skew, sent=100.0, effect=100.1003, received=100.2)
    assert abs(time.now() - (NOW + 100_200)) <= 200
    assert time.at_least() == NOW + 100_100
    clock.skew += 5000
    true.seconds += 50
    assert abs(time.now() - (NOW + 150_200)) <= 300


def test_a_clock_that_may_be_right_is_left_alone() -> None:
    _, _, time = measured(0.05, sent=100.0, effect=100.1003, received=100.2)
    assert time.now() == NOW + 100_250


def test_whole_seconds_are_read_as_an_interval() -> None:
    _, _, behind = measured(-10, cut=True, sent=100.7, effect=100.75, received=100.8)
    assert behind.at_least() == NOW + 100_000
    _, _, ahead = measured(10, cut=True, sent=100.7, effect=100.75, received=100.8)
    assert NOW + 101_000 <= ahead.now() <= NOW + 101_101


@given(
    st.floats(-4000, 4000),
    st.lists(st.tuples(st.floats(0, 30), st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=8),
    st.booleans(),
)
def test_what_has_certainly_come_has_come_and_the_likeliest_is_near(
    skew: float, writes: list[tuple[float, float, float]], cut: bool
) -> None:
    true = FakeClock()
    clock = Skewed(true, skew)
    time = StorageTime(clock)
    for pause, there, back in writes:
        true.seconds += round(pause, 3)
        sent = clock.monotonic()
        true.seconds += round(there, 3)
        modified = true.now()
        true.seconds += round(back, 3)
        time.observe(modified.replace(microsecond=0) if cut else modified, sent=sent, received=clock.monotonic())
        now = milliseconds(true.now())
        least = time.at_least()
        assert least is not None
        assert least <= now
        assert abs(time.now() - now) <= (there + back) * 1000 + 1000 + 250


def test_many_measurements_in_whole_seconds_come_closer_than_one() -> None:
    true = FakeClock()
    clock = Skewed(true, -100)
    time = StorageTime(clock)
    for _ in range(40):
        true.seconds += 0.37
        moment = clock.monotonic()
        time.observe(true.now().replace(microsecond=0), sent=moment, received=moment)
    assert abs(time.now() - milliseconds(true.now())) <= 60


def test_a_clock_that_was_set_since_is_measured_anew() -> None:
    true, clock, time = measured(0, sent=100.0, effect=100.1, received=100.2)
    true.seconds += 500
    clock.begins -= 500  # the machine slept
    behind = time.at_least()
    assert behind is not None
    assert behind < NOW + 200_000
    moment = clock.monotonic()
    time.observe(true.now(), sent=moment, received=moment)
    assert abs(time.now() - milliseconds(true.now())) <= 1
