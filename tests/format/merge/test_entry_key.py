"""Names that sort by time, newest first, and never clash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.merge.entry_key import (
    COUNT_BITS,
    LAST_TIME,
    NAME,
    TIME_BITS,
    EntryKey,
    EntryKeys,
    ascending,
    counts,
    descending,
    entry_key,
    from_descending,
    milliseconds,
    moment,
    name_before,
)
from tests.fakes import START, counting_ids

NOW = milliseconds(START)


def later(one: EntryKey, other: EntryKey) -> bool:
    """Whether ``other`` comes after ``one`` in the log: its name sorts before."""
    return other.name < one.name


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "3vvvvvvvv"),
        (1, "3vvvvvvvu"),
        (1698260777020, "2eibsa1u3"),
        (1767225600000, "2ci4ialvv"),
        (4398046511103, "000000000"),
    ],
)
def test_times_are_coded_as_mps3_does(number: int, text: str) -> None:
    assert descending(number, TIME_BITS) == text
    assert from_descending(text, TIME_BITS) == number


@pytest.mark.parametrize(("number", "text"), [(0, "vv"), (1, "vu"), (31, "v0"), (32, "uv"), (1023, "00")])
def test_counts_are_coded_as_mps3_does(number: int, text: str) -> None:
    assert descending(number, COUNT_BITS) == text
    assert from_descending(text, COUNT_BITS) == number


@pytest.mark.parametrize(
    ("number", "bits", "text"), [(15, 8, "0f"), (255, 8, "7v"), (65535, 16, "1vvv"), (511, 9, "fv")]
)
def test_numbers_are_padded_to_what_their_bits_need(number: int, bits: int, text: str) -> None:
    assert ascending(number, bits) == text


def test_the_last_time_is_in_2109() -> None:
    assert moment(LAST_TIME) == datetime(2109, 5, 15, 7, 35, 11, 103000, tzinfo=UTC)


@pytest.mark.parametrize("bits", [1, 3, 8, 10, 16])
def test_the_coding_turns_the_order_round_and_loses_nothing(bits: int) -> None:
    numbers = range(2**bits)
    texts = [descending(number, bits) for number in numbers]
    assert texts == sorted(texts, reverse=True)
    assert len(set(texts)) == len(texts)
    assert [from_descending(text, bits) for text in texts] == list(numbers)
    assert [ascending(number, bits) for number in numbers] == list(reversed(texts))


@pytest.mark.parametrize(("number", "bits"), [(1024, 10), (-1, 10), (LAST_TIME + 1, 42)])
def test_a_number_that_does_not_fit_is_refused_and_not_written_as_another(number: int, bits: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        descending(number, bits)


@pytest.mark.parametrize("text", ["", "v", "vvv", "-1", "v!", "V0", "w0", "\u0660\u0660"])
def test_what_is_no_coded_count_is_none(text: str) -> None:
    assert from_descending(text, COUNT_BITS) is None


def test_a_text_beyond_the_bits_is_none() -> None:
    assert from_descending("vvvvvvvvv", TIME_BITS) is None


@given(st.integers(0, LAST_TIME), st.integers(0, 1023))
def test_a_name_says_what_it_was_made_of(time: int, count: int) -> None:
    key = EntryKey(time, "0123456789abcdef", count)
    assert entry_key(key.name) == key


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "00000000000000000001.json",
        NAME + "2ci4ialvv_53a_-1",
        NAME + "2ci4ialvv_53a",
        NAME + "2ci4ialvv__vv",
        NAME + "2ci4ialvv_53a_vv.tmp",
        NAME + "2CI4IALVV_53a_vv",
        NAME + "vvvvvvvvv_53a_vv",
        "x" + NAME + "2ci4ialvv_53a_vv",
        NAME + "2ci4ialvv_53a_vv\n",
    ],
)
def test_what_is_no_entry_s_name_is_none(name: str) -> None:
    assert entry_key(name) is None


@given(st.integers(0, LAST_TIME), st.integers(0, LAST_TIME))
def test_a_listing_from_a_time_on_has_all_that_is_older_and_nothing_else(time: int, horizon: int) -> None:
    name = EntryKey(time, "v" * 16, 0).name
    assert (name > name_before(horizon)) is (time < max(horizon, 1))


@given(st.datetimes(datetime(1970, 1, 1), datetime(2109, 1, 1), timezones=st.just(UTC)))
def test_a_moment_is_cut_to_its_millisecond(when: datetime) -> None:
    assert moment(milliseconds(when)) == when.replace(microsecond=when.microsecond // 1000 * 1000)


def test_two_writers_never_have_one_session() -> None:
    ids = counting_ids()
    assert EntryKeys(ids).next(NOW).session != EntryKeys(ids).next(NOW).session


def test_the_1025th_entry_has_another_session_and_comes_after_the_others() -> None:
    keys = EntryKeys(counting_ids())
    made = [keys.next(NOW) for _ in range(1025)]
    assert len({key.session for key in made[:1024]}) == 1
    assert made[1024].session != made[0].session
    assert made[1024].time == NOW + 1
    assert all(later(one, other) for one, other in pairwise(made))
    assert all(entry_key(key.name) == key for key in made)


class Backwards:
    """Identities that sort the wrong way round, and so tell an order that rests on them."""

    def __init__(self, *, falling: bool) -> None:
        self.left = list(range(50)) if falling else list(range(49, -1, -1))

    def __call__(self) -> str:
        return f"{self.left.pop():016d}"


@pytest.mark.parametrize("falling", [True, False])
@given(moves=st.lists(st.integers(-5000, 5000), max_size=8))
def test_the_keys_of_one_writer_only_grow_whatever_its_clock_does(falling: bool, moves: list[int]) -> None:
    keys = EntryKeys(Backwards(falling=falling))
    now, made = NOW, []
    for move in moves:
        now += move
        made += [keys.next(now) for _ in range(300)]
    assert all(later(one, other) for one, other in pairwise(made))
    assert len({key.name for key in made}) == len(made)


def test_a_time_that_was_wrong_binds_no_later_key() -> None:
    keys = EntryKeys(counting_ids())
    first = keys.next(NOW)
    wrong = keys.next(NOW + 3_600_000)
    keys.back_to(first)
    again = keys.next(NOW + 5)
    assert again.time == NOW + 5
    assert later(first, again)
    assert again.name != wrong.name


def test_after_a_roll_a_key_that_goes_back_is_still_later_than_the_last_that_counts() -> None:
    keys = EntryKeys(Backwards(falling=True))
    made = [keys.next(NOW) for _ in range(1024)]
    keys.next(NOW + 3_600_000)
    keys.back_to(made[-1])
    again = keys.next(NOW)
    assert again.session != made[-1].session
    assert later(made[-1], again)


@pytest.mark.parametrize("now", [-5, 2**60])
def test_a_clock_beyond_all_times_still_gives_a_name(now: int) -> None:
    key = EntryKeys(counting_ids()).next(now)
    assert entry_key(key.name) == key


@pytest.mark.parametrize(
    ("skew", "valid"),
    [(0, True), (1999, True), (-1999, True), (2000, False), (-2000, False), (3_600_000, False)],
)
def test_an_entry_counts_when_it_is_named_for_less_than_stale_from_storage_s_time(skew: int, valid: bool) -> None:
    assert counts(NOW + skew, START, 2000) is valid


@given(st.integers(-4000, 4000), st.integers(0, 999))
def test_everybody_judges_alike_whether_storage_tells_parts_of_a_second_or_not(skew: int, part: int) -> None:
    exact = START + timedelta(milliseconds=part)
    assert counts(NOW + skew, exact, 2000) is counts(NOW + skew, START, 2000)
