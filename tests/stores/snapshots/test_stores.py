"""Snapshots that writers of every manifest store make while they commit: a reader that starts replays few
transactions, and nothing that goes wrong with a snapshot reaches the commit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from unittest import mock

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format import layout
from singerlake.stores.commit import commit_transaction
from singerlake.stores.merge.records import SettledStore
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.publish import published
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.stores import KINDS, Place, make_place

KEY = layout.manifest_key("t", "s")
MOST = 8
LOGGED = [kind for kind in KINDS if kind != "lockfile"]


@pytest.fixture(params=LOGGED)
def place(request: pytest.FixtureRequest) -> Place:
    return often(make_place(request.param, request))


def often(place: Place, most: int = MOST) -> Place:
    """The same, with writers that let at most so many transactions wait."""
    place.settings = replace(place.settings, snapshot_transactions=most)
    place.lake = place.opened()
    return place


def number_shown(place: Place) -> int:
    there = published(place.storage, KEY)
    assert there is not None
    return there.number


class Committing:
    """One writer's run that does not end, a file with each commit."""

    def __init__(self, place: Place, base: Loaded | None = None, name: str = "f") -> None:
        self._place = place
        self._name = name
        self._count = 0
        self.store: ManifestStore = place.store()
        loaded = base or self.store.load()
        assert loaded is not None
        self.base = loaded

    def commit(self) -> Loaded:
        transaction = self._place.transaction(add(new_file(f"{self._name}{self._count}")))
        self._count += 1
        outcome = commit_transaction(self.store, self.base, transaction, clock=self._place.clock)
        assert isinstance(outcome, Loaded)
        self.base = outcome
        return outcome


@contextmanager
def counting_replays() -> Iterator[list[int]]:
    """The records that are followed in this block."""
    followed: list[int] = []

    def counted(real):  # type: ignore[no-untyped-def]
        def follow(self, state, number, body):  # type: ignore[no-untyped-def]
            followed.append(number)
            return real(self, state, number, body)

        return follow

    with (
        mock.patch.object(NumberedStore, "_follow", counted(NumberedStore._follow)),
        mock.patch.object(SettledStore, "_follow", counted(SettledStore._follow)),
    ):
        yield followed


def test_a_reader_that_starts_in_a_long_run_replays_few(place: Place) -> None:
    place.born()
    writer = Committing(place)
    asked: list[str] = []
    for count in range(1, 3 * MOST):
        state = writer.commit().manifest
        asked.clear()
        place.storage.hook = lambda step: None if step.done or step.operation != "get" else asked.append(step.key)
        with counting_replays() as followed:
            assert place.state() == state
        place.storage.hook = lambda step: None
        assert len(followed) <= MOST, count
        assert len([key for key in asked if re.search(r"/_log/\d{20}\.json$", key)]) <= MOST
        assert state.transaction.number - number_shown(place) < MOST
        # Nobody trims here: what writers keep for readers is no more than the one object.
        assert not [entry.key for entry in place.storage.list("raw/") if ".snapshot." in entry.key]
    assert place.listed() == [f"f{each}" for each in range(3 * MOST - 1)]


def test_so_does_one_behind_many_short_runs_and_writers(place: Place) -> None:
    place.born()
    for run in range(2 * MOST):
        state = Committing(place, name=f"r{run}f").commit().manifest
        assert state.transaction.number - number_shown(place) < MOST
    writers = [Committing(place, name=f"w{each}f") for each in range(5)]
    for turn in range(3 * MOST):
        state = writers[turn % 5].commit().manifest
        assert state.transaction.number - number_shown(place) < MOST
    assert len(place.listed()) == 5 * MOST


def test_a_snapshot_that_fails_is_not_the_commit_s_fault(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.born()
    writer = Committing(place)

    def away(step: Step) -> None:
        if step.key == KEY and not step.done:
            raise StorageUnavailableError("storage could not answer")

    place.storage.hook = away
    for _ in range(MOST):
        writer.commit()
    assert f"{KEY} does not follow its log now" in caplog.text
    place.storage.hook = lambda step: None
    assert number_shown(place) == 0
    assert place.listed() == [f"f{each}" for each in range(MOST)]
    state = writer.commit().manifest
    assert number_shown(place) == state.transaction.number


def test_what_is_old_is_published_by_the_next_commit(place: Place) -> None:
    place.born()
    writer = Committing(place)
    writer.commit()
    assert number_shown(place) == 0
    place.clock.seconds += place.settings.snapshot_minutes * 60 + 1
    state = writer.commit().manifest
    assert number_shown(place) == state.transaction.number


class Killed(BaseException):
    """The end of a process."""


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_a_writer_killed_at_any_step_leaves_it_to_the_next(kind: str, request: pytest.FixtureRequest) -> None:
    step, met = 0, True
    while met:
        place = often(make_place(kind, request), most=2)
        place.born()
        writer = Committing(place)
        writer.commit()
        left, met = [step], False

        def die(step: Step, left: list[int] = left) -> None:
            nonlocal met
            if step.key == KEY:
                if not left[0]:
                    met = True
                    raise Killed
                left[0] -= 1

        place.storage.hook = die
        with suppress(Killed):
            writer.commit()
        place.storage.hook = lambda step: None
        following = Committing(place, name="g")
        for _ in range(2):
            state = following.commit().manifest
        assert place.listed() == ["f0", "f1", "g0", "g1"]
        assert state.transaction.number - number_shown(place) < 2
        step += 1
    assert step > 4


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_two_at_once_end_with_the_newest(kind: str, request: pytest.FixtureRequest) -> None:
    """The other writer commits, and publishes, between any two steps of the first one's snapshot."""
    step, met = 0, True
    while met:
        place = often(make_place(kind, request), most=1)
        place.born()
        first, other = Committing(place), Committing(place, name="g")
        left, met, states = [step], False, list[Loaded]()

        def overtake(
            step: Step, left: list[int] = left, other: Committing = other, states: list[Loaded] = states
        ) -> None:
            nonlocal met
            if step.key == KEY and not met:
                met = not left[0]
                left[0] -= 1
                if met:
                    states.append(other.commit())

        place.storage.hook = overtake
        states.append(first.commit())
        place.storage.hook = lambda step: None
        newest = max(state.manifest.transaction.number for state in states)
        assert number_shown(place) == newest == place.state().transaction.number
        step += 1
    assert step > 4


def test_who_is_overtaken_before_it_writes_sends_nothing(request: pytest.FixtureRequest) -> None:
    place = often(make_place("log", request), most=1)
    place.born()
    first, other = Committing(place), Committing(place, name="g")
    puts: list[str] = []

    def overtake(step: Step) -> None:
        if step.key == KEY and step.operation == "read_range" and step.done and not puts:
            puts.append("other")
            other.commit()
        elif step.key == KEY and step.operation == "put" and not step.done:
            puts.append(step.operation)

    place.storage.hook = overtake
    first.commit()
    assert puts == ["other", "put"]


def test_a_commit_asks_for_no_more_than_before(request: pytest.FixtureRequest) -> None:
    place = make_place("log", request)
    place.born()
    writer = Committing(place)
    counts: list[int] = []

    def count(step: Step) -> None:
        counts[-1] += not step.done

    place.storage.hook = count
    for _ in range(160):
        counts.append(0)
        writer.commit()
    more = [number for number, requests in enumerate(counts, 1) if requests != 2]
    # Seventy-five wait at 75, and the next even number is 76; then those after it.
    assert more == [76, 152]
    assert [counts[number - 1] for number in more] == [5, 5]


def test_lockfile_has_nothing_to_follow(request: pytest.FixtureRequest) -> None:
    place = often(make_place("lockfile", request), most=1)
    place.born()
    writer = Committing(place)
    asked: list[Step] = []
    place.storage.hook = lambda step: None if step.done else asked.append(step)
    state = writer.commit().manifest
    assert [step.operation for step in asked] == ["put"]
    assert number_shown(place) == state.transaction.number
