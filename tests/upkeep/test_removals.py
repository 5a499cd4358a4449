"""Erasing, expiring and dropping beside whatever else is at work on the stream, and with faults, at every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import CommitRefusedError, SingerlakeError
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.model import Manifest
from singerlake.upkeep.drop import delete_now
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.erase.erasing import data_files, erase_alone, holders, read
from tests.upkeep.expire.expiring import expire, messages, problems
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import Killed, a_file, at, kill_at, unanswered, writer_of
from tests.upkeep.test_drop_stream import drop
from tests.upkeep.vacuum.test_stores import add, begun, vacuum

pytestmark = pytest.mark.in_turn("kind")

Seen = Mapping[int, bytes]
"""Messages by their offsets."""


@dataclass(frozen=True)
class Removal:
    """``gone``: which offsets of ``begin`` no reader finds behind it. ``at_once``: all of them with one commit.
    ``now`` deletes at once what it retired; ``told``: whether what it said is so."""

    act: Callable[[Place], Any]
    gone: range | tuple[int, ...]
    now: Callable[[Place, Any], object]
    told: Callable[[Any, Manifest], bool] = lambda done, state: True
    at_once: bool = True


REMOVALS = {
    "erase": Removal(
        lambda place: erase_alone(place, 1, 6, 9),
        (1, 6, 9),
        lambda place, done: collect_now(place.context(), frozenset(each.id for each in done.left if each.id)),
        at_once=False,
    ),
    "expire": Removal(
        lambda place: expire(place, 8),
        range(8),
        lambda place, done: collect_now(place.context(), frozenset(done.ids)),
        lambda done, state: done.floor == done.records == state.floor,
    ),
    "drop": Removal(drop, range(100), lambda place, done: delete_now(place.context())),
}


@pytest.fixture(params=REMOVALS)
def removal(request: pytest.FixtureRequest) -> Removal:
    return REMOVALS[request.param]


def begin(kind: str) -> Place:
    """A file that was joined of two, whose originals are due, and two more of four messages each."""
    place = Place(kind)
    begun(place, 2)
    vacuum(place)
    for _ in range(2):
        # A rebuild orders files by when they were made.
        place.clock.sleep(1)
        add(place, 1)
    collect(place)
    days(place, 8)
    return place


def calm(place: Place) -> Place:
    place.storage.hook = lambda _: None
    return place


def seen(place: Place) -> dict[int, bytes]:
    """What any program reads that knows the manifest and gzip, without holes."""
    return {offset: line for offset, line in messages(place).items() if line != HOLE[:-1]}


def left(removal: Removal, text: Seen) -> Seen:
    return {offset: line for offset, line in text.items() if offset not in removal.gone}


def assert_between(place: Place, removal: Removal, text: Seen, number: int) -> None:
    """Nothing is gone but what is meant, for readers of the published state and for writers."""
    for found in (seen(place), dict(read(place.opened()))):
        gone = text.keys() - found.keys()
        assert {**found, **{offset: text[offset] for offset in gone}} == text, number
        assert gone <= {*removal.gone}, number
        assert not removal.at_once or found in (text, left(removal, text)), number


def assert_sound(place: Place, number: int) -> None:
    # What was made in vain may lie there until a collector takes it.
    assert [found for found in problems(place) if "'unlisted'" not in found] == [], number
    assert sum(run.kind == "drop" for run in place.state().runs) <= 1, number


def assert_collected(place: Place, number: int) -> None:
    """Collectors leave what is listed, and nothing else."""
    before = seen(place)
    for _ in range(5):
        assert not [found for found in collect(place, orphans=True).findings if found.problem], number
        days(place, 8)
    state = place.state()
    assert (seen(place), list(state.retired)) == (before, []), number
    assert {file.path for file in state.files} <= data_files(place), number
    assert_sound(place, number)


def interrupted(kind: str, act: Callable[[Place], object], stride: int = 1) -> Iterator[tuple[int, Place]]:
    """Places in which ``act`` was killed, at each of its steps, or at one of so many."""
    for number in itertools.count(0, stride):
        place = begin(kind)
        kill_at(place, number)
        try:
            act(place)
        except Killed:
            calm(place).clock.sleep(1000)
            yield number, place
            continue
        assert number > 3
        return


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_what_was_killed_at_any_step_is_ended_by_the_next(removal: Removal, kind: str) -> None:
    text = seen(begin(kind))
    for number, place in interrupted(kind, removal.act):
        assert_between(place, removal, text, number)
        removal.act(place)
        assert seen(place) == dict(read(place.opened())) == left(removal, text), number
        known = {file.path for file in place.state().retired}
        assert removal.at_once or set(holders(place, *removal.gone)) <= known, number
        assert_sound(place, number)


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_deleting_at_once_that_was_killed_at_any_step_is_ended(removal: Removal, kind: str, stride: int) -> None:
    text = seen(begin(kind))
    for number, place in interrupted(kind, lambda place: removal.now(place, removal.act(place)), stride):
        removal.now(place, removal.act(place))
        assert seen(place) == left(removal, text), number
        assert removal.at_once or holders(place, *removal.gone) == [], number
        assert_collected(place, number)


@pytest.mark.crossed("kind", "operation")
@pytest.mark.parametrize("finished", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", ["put", "get", "list", "upload", "open", "beginning"])
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_request_without_answer_leaves_it_undone_or_done(
    removal: Removal, kind: str, operation: str, finished: bool
) -> None:
    text = seen(begin(kind))
    for number in itertools.count():
        place = begin(kind)
        failed = unanswered(place, number, operation, finished=finished)
        try:
            removal.act(place)
        except SingerlakeError:
            assert_between(calm(place), removal, text, number)
            removal.act(place)
        assert seen(calm(place)) == left(removal, text), number
        assert_sound(place, number)
        if not failed:
            return


NEW = b'{"type":"RECORD","stream":"s","record":{"n":1}}'
"""The message of a writer's file, which is meant by an erasure, too."""


def assert_apart_from_new(place: Place, expected: Seen, number: int) -> bool:
    """Gives whether a reader finds the writer's message behind all others."""
    found = {offset: line for offset, line in seen(place).items() if line != NEW}
    assert found == expected, number
    assert_sound(place, number)
    return len(seen(place)) > len(found)


def assert_known_once(place: Place, id: str, number: int) -> None:
    """A writer's file is listed or retired: nobody may collect it as an orphan."""
    state = place.state()
    assert (id in state.by_id) != (id in state.retired_by_id), number


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_writer_that_commits_at_any_step_loses_nothing_but_what_is_meant(
    removal: Removal, kind: str, tmp_path: Path
) -> None:
    text, kept = seen(begin(kind)), set()
    for number in itertools.count():
        place = begin(kind)
        writer, upload = writer_of(place), a_file(place, tmp_path)
        writer.open()
        met = at(place, number, lambda: writer.publish(upload.spool, upload.file, upload.schema))  # noqa: B023
        done = removal.act(place)
        calm(place)
        if not met:
            break
        kept.add(assert_apart_from_new(place, left(removal, text), number))
        assert_known_once(place, upload.file.id, number)
        assert removal.told(done, place.state()), number
        writer.finish()
        assert_collected(place, number)
    # It comes too late, or in time, but to an expiry, which ends before it.
    assert kept == ({True} if removal is REMOVALS["expire"] else {False, True})


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_at_any_step_of_a_writer_it_takes_nothing_that_the_writer_acknowledges_later(
    removal: Removal, kind: str, tmp_path: Path
) -> None:
    text, refused = seen(begin(kind)), []
    for number in itertools.count():
        place = begin(kind)
        writer, upload = writer_of(place), a_file(place, tmp_path)
        writer.open()
        met = at(place, number, lambda: removal.act(place))  # noqa: B023
        try:
            writer.publish(upload.spool, upload.file, upload.schema)
        except CommitRefusedError as error:
            # Its file was on storage and listed nowhere: it was dropped, and its STATE never goes out.
            refused.append(str(error))
            assert upload.file.id in place.state().retired_by_id
        calm(place)
        if not met:
            break
        assert_apart_from_new(place, left(removal, text), number)
        assert_known_once(place, upload.file.id, number)
    assert bool(refused) is (removal is REMOVALS["drop"])
    assert all("upload it again under a new id" in reason for reason in refused)


def rebuild(place: Place) -> None:
    repair_stream(place.context(), RepairOptions(discard=True))


OTHERS = {"vacuum": vacuum, "collect": lambda place: collect(place, orphans=True), "rebuild": rebuild, "drop": drop}


@pytest.mark.parametrize(
    ("name", "other"),
    [("erase", other) for other in OTHERS] + [(name, other) for name in ("expire", "drop") for other in (*OTHERS,)[:2]],
)
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_others_at_any_step_of_it_do_no_harm(name: str, other: str, kind: str, stride: int) -> None:
    removal, text = REMOVALS[name], seen(begin(kind))
    expected = {} if other == "drop" else left(removal, text)
    for number in itertools.count(0, stride):
        place = begin(kind)
        met = at(place, number, lambda: OTHERS[other](place))  # type: ignore[no-untyped-call] # noqa: B023
        done = removal.act(place)
        calm(place)
        if not met:
            assert number > 3
            return
        # A vacuum that came first joined files across the offset, so that nothing expired.
        found = seen(place)
        assert found == expected or ((name, other) == ("expire", "vacuum") and found == text), number
        assert other == "drop" or removal.told(done, place.state()), number
        assert_collected(place, number)
        # What a vacuum made in vain stays while it is newer than every listed file.
        if name == "erase" and other != "vacuum":
            assert holders(place, *removal.gone) == [], number


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_at_any_step_of_a_vacuum_nothing_comes_back(removal: Removal, kind: str) -> None:
    text = seen(begin(kind))
    for number in itertools.count():
        place = begin(kind)
        met = at(place, number, lambda: removal.act(place))  # noqa: B023
        vacuum(place)
        if not met:
            return
        found = seen(calm(place))
        assert found == left(removal, text) or (removal is REMOVALS["expire"] and found == text), number
        assert_collected(place, number)
