"""Whose turn it is to look at what is published, and when it is to follow: pure rules, over crowds of writers that
die."""

from __future__ import annotations

import random
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import SettingError
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest, Position
from singerlake.stores.publish import SnapshotSettings, is_due, is_to_look
from tests.fakes import START
from tests.format.state.test_fold import add, born, done, new_file

HOUR = timedelta(hours=1)
IN_A_ROW = 10


def at(number: int, *, files: int = 0) -> Manifest:
    """A state of that number with so many files."""
    state = done(born(), add(*(new_file(f"f{each}") for each in range(files)))) if files else born()
    return msgspec.structs.replace(state, transaction=Position(number, "x"))


def due(published: int, newest: Manifest, *, since: timedelta = timedelta(), **how: bool) -> bool:
    told = {"run_ended": False, "eager": False, **how}
    settings = SnapshotSettings(transactions=20, minutes=10)
    return is_due(settings, published=published, newest=newest, since=START - since, now=START, **told)


def test_what_was_never_published_is_and_what_is_newest_is_not() -> None:
    assert due(-1, at(0))
    assert not due(5, at(5), since=HOUR, run_ended=True, eager=True)
    assert not due(6, at(5), since=HOUR, run_ended=True, eager=True)


@pytest.mark.parametrize(("minutes", "expected"), [(9, False), (10, True), (600, True)])
def test_what_is_old_follows_at_any_time(minutes: int, expected: bool) -> None:
    assert due(4, at(5, files=100), since=timedelta(minutes=minutes)) is expected


def test_at_a_run_s_end_it_follows_a_tail_that_is_long_beside_it() -> None:
    few, many = FileList(at(5, files=8).files), at(5, files=400).files
    for files, tail, expected in ((few, 1, False), (few, 2, True), (many, 20, False), (many, 21, True)):
        newest = msgspec.structs.replace(at(100), files=files)
        assert due(100 - tail, newest, run_ended=True) is expected
        assert not due(100 - tail, newest)
        assert due(100 - tail, newest, run_ended=True, eager=True)


@pytest.mark.parametrize("wrong", [{"transactions": 0}, {"transactions": -5}, {"minutes": 0}])
def test_less_than_one_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingError, match=f"snapshot_{next(iter(wrong))} is less than 1"):
        SnapshotSettings(**wrong)


@given(
    most=st.integers(1, 400),
    writers=st.integers(1, 70),
    mortality=st.floats(0, 0.95),
    seed=st.integers(0, 1 << 32),
)
def test_too_many_wait_only_where_ten_writers_died_in_a_row(
    most: int, writers: int, mortality: float, seed: int
) -> None:
    """A writer that dies as it looks is replaced by one that knows what is published as it starts. Others learn of it
    only where they look."""
    settings, chance = SnapshotSettings(transactions=most), random.Random(seed)
    published, died = 0, 0
    known = [0] * writers
    enough = min(IN_A_ROW, most // 4 + 1)
    for number in range(1, 4 * most + 20):
        writer = chance.randrange(writers)
        if is_to_look(settings, number=number, known=known[writer]):
            known[writer] = published
            if number - published >= settings.least:
                if chance.random() < mortality:
                    died += 1
                else:
                    published, died = number, 0
                    known[writer] = number
        assert number - published <= most or died >= enough


@given(most=st.integers(1, 400), writers=st.integers(1, 70), seed=st.integers(0, 1 << 32))
def test_few_look_however_many_they_are(most: int, writers: int, seed: int) -> None:
    settings, chance = SnapshotSettings(transactions=most), random.Random(seed)
    published, looks = 0, 0
    known = [0] * writers
    numbers = 6 * most + 50
    for number in range(1, numbers):
        writer = chance.randrange(writers)
        if is_to_look(settings, number=number, known=known[writer]):
            looks += 1
            if number - published >= settings.least:
                published = number
            known[writer] = published
    assert looks <= numbers // settings.step
    # Each looks once while as many wait as make it due.
    assert looks <= writers * (numbers // settings.least + 1)
