"""Moving a stream to another manifest store: what stays, and what stops it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from singerlake.errors import (
    ConditionNotSupportedError,
    ForeignManifestError,
    LostStateError,
    StreamClosedError,
)
from singerlake.format import layout
from singerlake.format.state.manifest import to_json
from singerlake.format.state.transactions import Close
from singerlake.upkeep.lock_files import locks_of
from singerlake.upkeep.migrate import Migration
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place
from tests.upkeep.migrate.moving import (
    KEY,
    KINDS,
    PAIRS,
    a_file,
    content,
    lives_in,
    migrate,
    newest,
    publish,
    published,
    with_history,
    writer_of,
)


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_everything_but_the_store_stays_and_numbers_go_on(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    place = lives_in(source, target, request=request)
    before = with_history(place)
    done = migrate(place, target)
    after = newest(place)
    assert (after.store, after.closed) == (target, None)
    assert content(after) == content(before)
    assert after.transaction.number == before.transaction.number + 2
    assert published(place) == after == place.lake.stream("t", "s").snapshot()
    assert done == Migration(
        tap="t",
        stream="s",
        source=source,
        target=target,
        needed=True,
        transaction=after.transaction.number,
        files=2,
        messages=9,
    )


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_there_and_back_again_with_commits_on_every_leg(
    source: str, target: str, request: pytest.FixtureRequest
) -> None:
    place = lives_in(source, target, request=request)
    with_history(place)
    numbers = [newest(place).transaction.number]
    for leg, kind in enumerate((target, source, target, source)):
        assert migrate(place, kind).needed
        place.kind = kind
        before = newest(place)
        assert (before.store, before.closed) == (kind, None)
        place.committed(place.store().load(), add(new_file(f"leg{leg}", 2)))  # type: ignore[arg-type]
        numbers.append(newest(place).transaction.number)
    after = newest(place)
    assert [file.id for file in after.files] == ["ab", "c", "leg0", "leg1", "leg2", "leg3"]
    assert after.next_offset == 17
    assert numbers == sorted(set(numbers))
    if source in ON_THE_LAKE:
        assert place.lake.stream("t", "s").snapshot() == after


@pytest.mark.parametrize("target", [kind for kind in KINDS if kind != "log"])
def test_a_log_that_was_trimmed_in_an_earlier_life_goes_on(target: str, request: pytest.FixtureRequest) -> None:
    place = lives_in("log", target, request=request)
    with_history(place)
    place.store().trim(keep=1, dry_run=False)
    migrate(place, target)
    migrate(place, "log")
    place.committed(place.store().load(), add(new_file("late", 1)))  # type: ignore[arg-type]
    assert place.listed() == ["ab", "c", "late"]
    place.store().trim(keep=0, dry_run=False)
    assert place.listed() == ["ab", "c", "late"]


def test_a_lake_whose_manifest_is_lost_after_migrations_is_read_from_its_log() -> None:
    place = Place("log")
    with_history(place)
    migrate(place, "lockfile")
    migrate(place, "log")
    before = newest(place)
    place.storage.delete(KEY)
    loaded = place.loaded()
    assert loaded.manifest == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_store_needs_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    place = lives_in(kind, request=request)
    before = with_history(place)
    done = migrate(place, kind)
    assert (done.needed, done.transaction, done.files) == (False, before.transaction.number, 2)
    assert newest(place) == before


@pytest.mark.crossed("source", "target")
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_dry_run_changes_nothing(source: str, target: str, request: pytest.FixtureRequest) -> None:
    place = lives_in(source, target, request=request)
    before = with_history(place)
    place.lake.announce(before)
    objects = [(entry.key, entry.etag) for entry in place.storage.list("")]
    done = migrate(place, target, dry_run=True)
    assert (done.needed, done.resumed, done.files) == (True, False, 2)
    assert [(entry.key, entry.etag) for entry in place.storage.list("")] == objects
    assert newest(place) == before


def test_a_stream_on_its_way_to_a_third_store_is_left_alone() -> None:
    place = Place("lockfile")
    base = place.committed(place.born(), add(new_file("a", 3)), Close(successor="dynamodb"))
    for kind in ("log", "lockfile"):
        with pytest.raises(StreamClosedError, match="'dynamodb'") as raised:
            migrate(place, kind)
        assert "--to dynamodb" in raised.value.hint
    assert published(place) == base.manifest


def test_data_files_without_state_are_not_taken_for_a_new_stream(tmp_path: Path) -> None:
    place = Place("lockfile")
    publish(a_file(place, tmp_path), writer_of(place))
    place.storage.delete(KEY)
    with pytest.raises(LostStateError, match="no state") as raised:
        migrate(place, "log")
    assert "singerlake rebuild" in raised.value.hint
    assert place.storage.get(KEY) is None


def test_a_stream_that_is_not_born_is_not_moved() -> None:
    place = Place("lockfile")
    assert migrate(place, "log") == Migration(tap="t", stream="s", source="lockfile", target="log")
    assert list(place.storage.list("")) == []


@pytest.mark.parametrize("target", IN_A_DATABASE)
def test_another_state_in_a_database_is_never_replaced(target: str, request: pytest.FixtureRequest) -> None:
    place = lives_in("lockfile", target, request=request)
    before = with_history(place)
    stored = place.storage.get(KEY)
    assert stored is not None
    place.storage.delete(KEY)
    other = place.store(kind=target).create(msgspec.structs.replace(place.first(), store=target))
    place.storage.put(KEY, stored.body)
    for dry_run in (True, False):
        with pytest.raises(ForeignManifestError, match=f"'{target}' already holds another state"):
            migrate(place, target, dry_run=dry_run)
    assert newest(place) == before
    there = place.store(kind=target).load()
    assert there is not None
    assert there.manifest == other.manifest


def test_a_log_that_was_left_behind_is_not_read_again() -> None:
    place = Place("log")
    place.committed(place.born(), *(add(new_file(f"old{number}", 1)) for number in range(9)))
    before = msgspec.structs.replace(place.first(), store="lockfile")
    place.storage.put(KEY, to_json(before))
    place.kind = "lockfile"
    place.committed(place.store().load(), add(new_file("new", 1)))  # type: ignore[arg-type]
    assert migrate(place, "log").transaction == 10
    place.kind = "log"
    place.committed(place.store().load(), add(new_file("newer", 1)))  # type: ignore[arg-type]
    assert place.listed() == ["new", "newer"]
    assert newest(place).lineage == before.lineage


@pytest.mark.parametrize("body", [b"{", b'{"number":3}'])
def test_a_log_that_cannot_be_read_and_was_left_behind_is_in_nobody_s_way(body: bytes) -> None:
    place = Place("lockfile")
    with_history(place)
    place.storage.put(layout.log_prefix("t", "s") + layout.log_name(3), body)
    migrate(place, "log")
    place.kind = "log"
    place.committed(place.store().load(), add(new_file("later", 1)))  # type: ignore[arg-type]
    assert place.listed() == ["ab", "c", "later"]


def test_a_store_that_needs_conditions_is_refused_before_anything_is_closed() -> None:
    place = Place("lockfile", ignore_conditions=True)
    before = with_history(place)
    with pytest.raises(ConditionNotSupportedError, match="'log'"):
        migrate(place, "log")
    assert newest(place) == before


@pytest.mark.parametrize(("source", "target"), [("lockfile", "merge"), ("merge", "lockfile")])
def test_where_conditions_are_ignored_the_stream_s_lock_is_held_meanwhile(source: str, target: str) -> None:
    place = Place(source, ignore_conditions=True)
    before = with_history(place)
    key = layout.stream_lock_key("t", "s")
    held: list[bool] = []

    def hook(step: Step) -> None:
        if step.operation == "put" and step.key == KEY and not step.done:
            place.storage.hook = lambda _: None
            held.append(any(not lock.free for lock in locks_of(place.storage, "t", "s") if lock.key == key))
            place.storage.hook = hook

    place.storage.hook = hook
    migrate(place, target)
    place.storage.hook = lambda _: None
    assert held
    assert all(held)
    assert not any(not lock.free for lock in locks_of(place.storage, "t", "s"))
    assert content(newest(place)) == content(before)
    place.kind = target
    place.committed(place.store().load(), add(new_file("later", 1)))  # type: ignore[arg-type]
    assert place.listed() == ["ab", "c", "later"]


@pytest.mark.parametrize("field", ["tap", "stream"])
def test_another_s_manifest_stops_it(field: str) -> None:
    place = Place("lockfile")
    place.storage.put(KEY, to_json(msgspec.structs.replace(place.first(), **{field: "other"})))
    with pytest.raises(ForeignManifestError, match=field):
        migrate(place, "log")
