"""What one listing of a log says: whether a ``manifest.json`` that was read before is as new as the log."""

from __future__ import annotations

import pytest

from singerlake.format import layout
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Close
from singerlake.stores.log import is_newest
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage, Step
from tests.stores.stores import Place

KEY = layout.manifest_key("t", "s")


class FarStorage(MemoryStorage):
    """Storage of which every request counts."""

    @property
    def near(self) -> bool:
        return False


@pytest.fixture
def place() -> Place:
    far = Place("log")
    far.storage = FarStorage(clock=far.clock, ids=far.ids)
    far.lake = far.opened()
    return far


def states(place: Place, commits: int) -> list[Loaded]:
    """A stream's states, each one transaction further than the one before."""
    found = [place.born()]
    for number in range(commits):
        found.append(place.committed(found[-1], add(new_file(f"f{number}"))))
    return found


def requests_of_state(place: Place) -> tuple[Manifest, list[str]]:
    """What a reader sees, and by which requests."""
    seen: list[str] = []

    def note(step: Step) -> None:
        if not step.done:
            seen.append(f"{step.operation} {step.key.rpartition('/')[2]}")

    place.storage.hook = note
    state = place.opened().stream("t", "s").state()
    place.storage.hook = lambda _: None
    assert state is not None
    return state, seen


class Crash(Exception):
    pass


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_however_far_a_trim_got_no_older_state_passes_for_the_newest(keep: int) -> None:
    moment, through = 0, False
    while not through:
        place = Place("log")
        known = states(place, 4)
        steps = iter(range(1000))

        def die(_: Step, steps: object = steps, moment: int = moment) -> None:
            if next(steps) == moment:  # type: ignore[call-overload]
                raise Crash

        place.storage.hook = die
        try:
            place.store().trim(keep=keep, dry_run=False)
            through = True
        except Crash:
            pass
        place.storage.hook = lambda _: None
        newest = [is_newest(place.storage, state.manifest) for state in known]
        assert newest == [False, False, False, False, True], moment
        moment += 1
    assert moment > 10


def test_a_log_that_a_trim_emptied_has_its_newest_state_all_the_same(place: Place) -> None:
    known = states(place, 2)
    place.store().trim(keep=0, dry_run=False)
    after = place.committed(known[-1], add(new_file("later")))
    place.store().trim(keep=0, dry_run=False)
    assert [is_newest(place.storage, state.manifest) for state in (*known, after)] == [False, False, False, True]


def test_that_nothing_is_new_takes_a_reader_two_requests(place: Place) -> None:
    newest = states(place, 3)[-1]
    place.store().publish(newest, run_ended=True)
    state, seen = requests_of_state(place)
    assert state == newest.manifest
    assert seen == ["beginning manifest.json", "list 0"]


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_manifest_that_was_put_back_is_read_with_what_came_after_it(place: Place, trimmed: bool) -> None:
    known = states(place, 3)
    if trimmed:
        place.store().trim(keep=0, dry_run=False)
    place.storage.put(KEY, to_json(known[1].manifest))
    assert requests_of_state(place)[0].transaction == known[-1].manifest.transaction


def test_a_log_that_was_closed_is_not_taken_for_the_newest(place: Place) -> None:
    newest = states(place, 1)[-1]
    place.store().publish(newest, run_ended=True)
    stored = place.storage.get(KEY)
    assert stored is not None
    published = from_json(stored.body, key=KEY)
    assert is_newest(place.storage, published)
    place.commit(newest, Close(successor="lockfile"))
    assert not is_newest(place.storage, published)
    assert requests_of_state(place)[0].closed == "lockfile"
