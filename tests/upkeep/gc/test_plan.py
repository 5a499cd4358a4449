"""Which step of collection each file may take, and when: for any states, listings and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import timestamp
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, Retired
from singerlake.format.state.transactions import CollectFiles, RetireFiles, Transaction
from singerlake.storage.port import Entry
from singerlake.upkeep.gc.plan import CollectionPlan, Replaced, make_plan
from singerlake.upkeep.result import Tally
from tests.format.state.test_fold import add, born, done, new_file

NOW = datetime(2026, 6, 1, tzinfo=UTC)
GRACE = timedelta(days=7)
BORN = timestamp(datetime(2026, 1, 1, tzinfo=UTC))


def path(id: str) -> str:
    return f"hash/s-20260101T000000.000000Z-20260101T000000.000000Z-{id}.singer.gz"


def id_of(number: int) -> str:
    return f"{number:016d}"


def retired(number: int, by: int | None = 99, **marks: timedelta | None) -> Retired:
    """A retired file whose marks were set so long ago."""
    times: dict[str, Any] = {name: timestamp(NOW - age) for name, age in marks.items() if age is not None}
    return Retired(
        id=id_of(number), path=path(id_of(number)), by=None if by is None else id_of(by), since=BORN, **times
    )


def state(*gone: Retired, listed: tuple[int, ...] = (99,)) -> Manifest:
    files = [msgspec.structs.replace(new_file(id_of(number)), path=path(id_of(number))) for number in listed]
    manifest = done(msgspec.structs.replace(born(), created=BORN), add(*files))
    return msgspec.structs.replace(manifest, retired=gone)


def entry(manifest: Manifest, number: int, age: timedelta = timedelta(days=100), size: int = 10) -> Entry:
    key = layout.stream_prefix(manifest.tap, manifest.stream) + path(id_of(number))
    return Entry(key, size, NOW - age, "etag")


def plan(manifest: Manifest, *entries: Entry, now: datetime = NOW) -> CollectionPlan:
    return make_plan(manifest, entries, now=now, grace=GRACE)


DAY = timedelta(days=1)


def test_each_file_waits_for_its_own_time() -> None:
    manifest = state(
        retired(1),
        retired(2, shown=6 * DAY),
        retired(3, shown=7 * DAY),
        retired(4, shown=20 * DAY, deleted=6 * DAY),
        retired(5, shown=20 * DAY, deleted=7 * DAY),
    )
    found = plan(manifest, *(entry(manifest, number, size=number) for number in (1, 2, 3)))
    assert found.shown == (id_of(1),)
    assert [each.file.id for each in found.due] == [id_of(3)]
    assert found.forgotten == (id_of(5),)
    assert (found.waiting.files, found.waiting.bytes, found.until) == (2, 3, NOW + DAY)
    assert (found.deleted.files, found.deleted.bytes) == (1, 3)


def test_what_should_be_gone_and_is_not_goes_again_and_is_not_forgotten() -> None:
    manifest = state(retired(1, shown=90 * DAY, deleted=80 * DAY))
    found = plan(manifest, entry(manifest, 1))
    assert [each.entry for each in found.again] == [entry(manifest, 1)]
    assert found.forgotten == ()


def test_a_file_that_leads_to_none_that_is_listed_is_stuck() -> None:
    manifest = state(
        retired(1, by=2, shown=90 * DAY), retired(2, by=3, shown=90 * DAY), retired(4, by=5, shown=90 * DAY)
    )
    manifest = msgspec.structs.replace(manifest, retired=[*manifest.retired, retired(5, by=4, shown=90 * DAY)])
    found = plan(manifest)
    assert [file.id for file in found.stuck] == [id_of(number) for number in (1, 2, 4, 5)]
    assert found.due == ()


def test_the_way_to_a_listed_file_stays_known_while_it_is_needed() -> None:
    chain = [retired(1, by=2), retired(2, by=99, shown=90 * DAY, deleted=80 * DAY)]
    manifest = state(*chain)
    assert plan(manifest).forgotten == ()
    longer = [retired(1, by=2), *(retired(n, by=n + 1, shown=90 * DAY, deleted=80 * DAY) for n in (2, 3, 4))]
    assert plan(state(*longer)).forgotten == ()
    done = [retired(n, by=n + 1, shown=90 * DAY, deleted=80 * DAY) for n in (1, 2, 3)]
    assert len(plan(state(*done)).forgotten) == 3
    holder = Replaced(manifest).holder_of(chain[0])
    assert holder is not None
    assert holder.id == id_of(99)


def test_an_object_under_another_path_is_not_the_retired_one() -> None:
    manifest = state(retired(1, shown=90 * DAY))
    copy = entry(manifest, 1)
    elsewhere = Entry(copy.key.replace("/hash/", "/other/"), 10, copy.last_modified, "etag")
    found = plan(manifest, elsewhere)
    assert [each.entry for each in found.due] == [None]
    assert (found.orphans, found.again) == ((), ())


@pytest.mark.parametrize("text", ["", "yesterday", "9999-12-31T23:59:59.999999Z"])
def test_a_mark_that_names_no_time_is_never_due(text: str) -> None:
    manifest = state(msgspec.structs.replace(retired(1), shown=text), msgspec.structs.replace(retired(2), deleted=text))
    found = plan(manifest, entry(manifest, 1))
    assert (found.due, found.forgotten) == ((), ())


def test_a_stream_whose_birth_is_not_known_has_no_orphans() -> None:
    manifest = msgspec.structs.replace(state(), created="long ago")
    found = plan(manifest, entry(manifest, 5, size=7))
    assert (found.orphans, found.left) == ((), Tally(1, 7))


def test_what_is_listed_stays_whatever_its_name_says() -> None:
    named_like_another = msgspec.structs.replace(new_file(id_of(1)), path=path(id_of(7)))
    manifest = done(msgspec.structs.replace(born(), created=BORN), add(named_like_another))
    gone = msgspec.structs.replace(retired(7, by=1, shown=90 * DAY), path=named_like_another.path)
    for marked in ((), (gone,), (msgspec.structs.replace(gone, deleted=BORN),)):
        found = plan(msgspec.structs.replace(manifest, retired=marked), entry(manifest, 7))
        assert (found.orphans, found.due, found.again, found.missing) == ((), (), (), ())


@pytest.mark.parametrize("name", ["manifest.json", "_log/00000000000000000001.json", "hash/singerlake.lock"])
def test_nothing_but_a_data_file_goes_whatever_a_path_says(name: str) -> None:
    manifest = state(msgspec.structs.replace(retired(1, shown=90 * DAY, deleted=80 * DAY), path=name))
    key = layout.stream_prefix(manifest.tap, manifest.stream) + name
    found = plan(manifest, Entry(key, 10, NOW - 100 * DAY, "etag"))
    assert found.deleted.files == 0


def test_while_a_listed_file_is_missing_there_are_no_orphans() -> None:
    manifest = state(listed=(98, 99))
    found = plan(manifest, entry(manifest, 98), entry(manifest, 5))
    assert ([file.id for file in found.missing], found.orphans) == ([id_of(99)], ())
    found = plan(manifest, entry(manifest, 98), entry(manifest, 99), entry(manifest, 5))
    assert (found.missing, [each.key for each in found.orphans]) == ((), [entry(manifest, 5).key])


def test_while_an_unlisted_file_is_newer_than_all_listed_ones_there_are_no_orphans() -> None:
    manifest = state()
    listed = entry(manifest, 99, 50 * DAY)
    found = plan(manifest, listed, entry(manifest, 5, 60 * DAY), entry(manifest, 6, 40 * DAY))
    assert (found.orphans, [each.key for each in found.newer]) == ((), [entry(manifest, 6).key])
    assert len(plan(manifest, listed, entry(manifest, 5, 60 * DAY)).orphans) == 1


def test_two_files_that_claim_one_id_are_left_alone() -> None:
    manifest = state()
    one = entry(manifest, 5)
    other = Entry(one.key.replace("/hash/", "/other/"), 10, one.last_modified, "etag")
    copy = Entry(entry(manifest, 99).key.replace("/hash/", "/other/"), 5, one.last_modified, "etag")
    found = plan(manifest, entry(manifest, 99), one, other, entry(manifest, 6), copy)
    assert [each.key for each in found.orphans] == [entry(manifest, 6).key]
    assert found.left == Tally(3, one.size + other.size + 5)


def test_a_state_that_names_a_file_twice_takes_no_step_with_it_twice() -> None:
    manifest = state(retired(1, shown=90 * DAY), retired(1, shown=90 * DAY), retired(99, shown=90 * DAY))
    assert [each.file.id for each in plan(manifest, entry(manifest, 99)).due] == [id_of(1)]


ages = st.none() | st.integers(0, 30).map(lambda days: days * DAY)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Manifest, list[Entry]]:
    gone = []
    for number in draw(st.lists(st.integers(1, 12), unique=True, max_size=8)):
        shown = draw(ages)
        deleted = draw(ages) if shown is not None else None
        gone.append(retired(number, draw(st.none() | st.integers(1, 14) | st.just(99)), shown=shown, deleted=deleted))
    manifest = state(*gone, listed=(99, 98, 97))
    there = draw(st.lists(st.integers(1, 20) | st.sampled_from([97, 98, 99]), unique=True, max_size=16))
    return manifest, [entry(manifest, number, draw(st.integers(0, 200)) * DAY) for number in there]


@given(streams())
def test_a_plan_names_nothing_that_is_listed_and_fits_the_state_that_it_was_made_for(
    stream: tuple[Manifest, list[Entry]],
) -> None:
    manifest, entries = stream
    found = plan(manifest, *entries)
    listed = {layout.stream_prefix(manifest.tap, manifest.stream) + file.path for file in manifest.files}
    going = [each.entry for each in (*found.due, *found.again) if each.entry]
    keys = [each.key for each in (*found.orphans, *going)]
    assert not listed & set(keys)
    assert len(set(keys)) == len(keys)
    steps = CollectFiles(shown=found.shown, deleted=tuple(due.file.id for due in found.due), forgotten=found.forgotten)
    after = fold.apply(manifest, Transaction(id="t", at=timestamp(NOW), change=steps))
    assert isinstance(after, Manifest)
    named = tuple(
        (layout.file_id_in(each.key) or "", path(layout.file_id_in(each.key) or "")) for each in found.orphans
    )
    assert isinstance(fold.apply(after, Transaction(id="u", at=BORN, change=RetireFiles(files=named))), Manifest)


@given(streams())
def test_whatever_is_replaced_is_gone_and_forgotten_in_the_end(stream: tuple[Manifest, list[Entry]]) -> None:
    manifest, entries = stream
    there = {each.key: each for each in entries}
    now = NOW
    for _ in range(20):
        found = plan(manifest, *there.values(), now=now)
        steps = CollectFiles(
            shown=found.shown, deleted=tuple(due.file.id for due in found.due), forgotten=found.forgotten
        )
        outcome = fold.apply(manifest, Transaction(id="t", at=timestamp(now), change=steps))
        assert isinstance(outcome, Manifest)
        manifest = outcome
        for each in (*found.again, *found.due):
            if each.entry:
                del there[each.entry.key]
        now += GRACE
    replaced = Replaced(manifest)
    stuck = {file.id for file in manifest.retired if file.by is not None and replaced.holder_of(file) is None}
    assert stuck >= {file.id for file in plan(manifest, *there.values(), now=now).stuck}
    needed = {file.by for file in manifest.retired}
    assert {file.id for file in manifest.retired} <= stuck | needed
