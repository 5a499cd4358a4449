"""Vacuuming a stream through whichever manifest store keeps it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from singerlake.errors import StreamClosedError
from singerlake.format import layout
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Close, RetireFiles
from singerlake.stores.port import Loaded
from singerlake.upkeep.defaults import TARGET_BYTES
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.vacuum.vacuum import Vacuumed, vacuum_stream
from singerlake.upkeep.verify import verify_stream
from tests.lakes import build_stream
from tests.storage.memory import Step
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.shelf import SCHEMA, kinds

pytestmark = pytest.mark.in_turn("place")

PREFIX = layout.stream_prefix("t", "s")


def begun(place: Place, files: int = 5) -> Manifest:
    """A stream of so many files of four messages, in two gzip members each."""
    place.born()
    return add(place, files)


def add(place: Place, files: int, schema: Any = SCHEMA, **head: Any) -> Manifest:
    start = place.state().next_offset
    records = [{"n": n} for n in range(start, start + 4 * files)]
    build_stream(place.lake, "t", "s", schema, records, file_size=4, member_size=2, **head)
    return place.state()


def vacuum(place: Place, **options: Any) -> Vacuumed:
    given = {"target_bytes": TARGET_BYTES, "threads": 1, **options}
    return vacuum_stream(place.context(), **given)


def messages(place: Place) -> list[bytes]:
    """Every message by its offset, as any program reads it that knows the manifest and gzip."""
    found: list[bytes] = []
    for file in place.state().files:
        stored = place.storage.get(PREFIX + file.path)
        assert stored is not None
        lines = [line for line in gzip.decompress(stored.body).splitlines() if b'"SCHEMA"' not in line]
        assert (file.offset, file.messages) == (len(found), len(lines))
        found += lines
    return found


def is_sound(place: Place) -> bool:
    return verify_stream(place.storage, "t", "s", place.state).findings == ()


@pytest.mark.parametrize("threads", [1, 4])
def test_small_files_become_one_with_the_same_messages(place: Place, threads: int) -> None:
    before = begun(place)
    text = messages(place)
    done = vacuum(place, threads=threads)
    after = place.state()
    assert (done.joined.files, done.into.files, done.findings) == (5, 1, ())
    (file,) = after.files
    assert messages(place) == text
    assert (file.offset, file.messages, file.records) == (0, 20, 20)
    assert file.raw_bytes == sum(each.raw_bytes for each in before.files)
    assert len(file.members) == 10
    assert [(gone.id, gone.by) for gone in after.retired] == [(each.id, file.id) for each in before.files]
    assert (after.lineage, after.next_offset, after.versions) == (before.lineage, before.next_offset, before.versions)
    assert after.schemas == before.schemas
    assert is_sound(place)
    assert place.lake.stream("t", "s").snapshot() == after


def test_what_was_joined_is_joined_again_with_its_originals_flattened(place: Place) -> None:
    before = begun(place, 3)
    vacuum(place)
    after = add(place, 3)
    text = messages(place)
    assert vacuum(place).into.files == 1
    (file,) = place.state().files
    provenance = place.lake.stream("t", "s").provenance(file)
    assert provenance is not None
    originals = [*before.files, *after.files[1:]]
    assert provenance.replaces == tuple((each.id, 4) for each in originals)
    assert (provenance.id, provenance.lineage, provenance.offset) == (file.id, before.lineage, 0)
    assert messages(place) == text
    assert is_sound(place)


def test_bookmarks_in_replaced_files_stay_good(place: Place) -> None:
    before = begun(place)
    middle = before.files[2]
    bookmark = Bookmark(lineage=before.lineage, offset=middle.offset + 3, file=middle.id, line=3)
    vacuum(place)
    stream = place.lake.stream("t", "s")
    assert stream.resume(stream.snapshot(), bookmark) == middle.offset + 3
    # In another lineage only the file that holds the message tells where it went.
    foreign = Bookmark(lineage="another", offset=99, file=middle.id, line=3)
    assert stream.resume(stream.snapshot(), foreign) == middle.offset + 3


@pytest.mark.parametrize("originals", ["all", "some", "none"])
def test_a_rebuild_from_files_alone_gives_every_message_once(place: Place, originals: str) -> None:
    before = begun(place)
    text = messages(place)
    vacuum(place)
    left = {"all": before.files[:0], "some": before.files[1:3], "none": before.files[:]}
    for file in left[originals]:
        place.storage.delete(PREFIX + file.path)
    repair_stream(place.context(), RepairOptions(discard=True))
    assert messages(place) == text
    assert place.state().lineage != before.lineage
    assert len(place.state().files) == 1


def test_a_rebuild_after_a_vacuum_that_died_before_its_commit_gives_every_message_once(place: Place) -> None:
    before = begun(place)
    text = messages(place)

    def die() -> None:
        raise ConnectionError("the process is gone")

    once(place, "compose", die, done=True)
    with pytest.raises(ConnectionError):
        vacuum(place)
    assert place.state() == before
    repair_stream(place.context(), RepairOptions(discard=True))
    assert messages(place) == text


def test_files_that_others_replaced_and_removed_meanwhile_are_no_finding(place: Place) -> None:
    before = begun(place)
    text = messages(place)

    def replace_and_remove() -> None:
        vacuum(place)
        for file in before.files:
            place.storage.delete(PREFIX + file.path)

    once(place, "compose", replace_and_remove)
    done = vacuum(place)
    assert not any(finding.problem for finding in done.findings)
    assert done.into.files == 0
    assert messages(place) == text


def test_a_writer_that_commits_in_the_middle_of_it_loses_nothing(place: Place) -> None:
    begun(place)

    def write() -> None:
        add(place, 2)

    once(place, "compose", write)
    vacuum(place)
    assert messages(place) == [
        f'{{"type": "RECORD", "stream": "s", "record": {{"n": {n}}}}}'.encode() for n in range(28)
    ]
    assert [file.messages for file in place.state().files] == [20, 4, 4]
    assert is_sound(place)


@pytest.mark.parametrize("operation", ["beginning", "compose"])
def test_of_two_vacuums_at_once_one_is_first_and_both_end_well(place: Place, operation: str) -> None:
    begun(place)
    text = messages(place)
    once(place, operation, lambda: vacuum(place))
    second = vacuum(place)
    assert second.into.files == 0
    assert [(finding.kind, finding.problem) for finding in second.findings] == [("unlisted", False)]
    assert "the stream changed meanwhile: files to replace are not listed" in second.findings[0].message
    assert second.overtaken.files == 5
    assert messages(place) == text
    assert len(place.state().files) == 1


def test_what_others_are_known_to_have_replaced_is_not_made(place: Place) -> None:
    before = begun(place, 6)
    target = sum(file.bytes for file in before.files[:3]) + 5
    once(place, "compose", lambda: vacuum(place))
    second = vacuum(place, target_bytes=target)
    assert (len(second.plan.groups), second.into.files, second.overtaken.files) == (2, 0, 6)
    made = [layout.file_id_in(entry.key) or "" for entry in place.storage.list(PREFIX)]
    known = place.state()
    strays = [id for id in made if id and id not in known.by_id and id not in known.retired_by_id]
    # Where commits are settled later, the second was made before it was known what became of the first.
    assert len(strays) == (2 if place.kind == "merge" else 1)


def test_joins_that_wait_for_their_place_do_not_wait_for_each_other() -> None:
    place = Place("merge")
    before = begun(place, 20)
    target = sum(file.bytes for file in before.files[-2:]) + 5
    text, started = messages(place), place.clock.monotonic()
    assert vacuum(place, target_bytes=target).into.files == 10
    assert place.clock.monotonic() - started < 30
    assert messages(place) == text
    assert len(place.state().files) == 10


def test_a_file_that_was_retired_before_it_was_committed_is_not_listed(place: Place) -> None:
    begun(place)

    def sweep() -> None:
        keys = [entry.key[len(PREFIX) :] for entry in place.storage.list(PREFIX)]
        known = place.state().by_id
        strays = [(layout.file_id_in(key) or "", key) for key in keys if layout.is_data_file(key)]
        orphans = tuple((id, key) for id, key in strays if id not in known)
        assert orphans
        loaded = place.loaded()
        place.committed(loaded, RetireFiles(files=orphans))

    once(place, "compose", sweep, done=True)
    assert kinds(vacuum(place).findings) == ["unlisted"]
    assert len(place.state().files) == 5


def test_a_stream_that_is_moved_to_another_store_is_left_to_be_moved(place: Place) -> None:
    begun(place)
    other = next(kind for kind in ON_THE_LAKE if kind != place.kind)

    def close() -> None:
        loaded = place.loaded()
        assert isinstance(place.commit(loaded, Close(successor=other)), Loaded)

    once(place, "compose", close)
    with pytest.raises(StreamClosedError, match=other):
        vacuum(place)
    with pytest.raises(StreamClosedError, match=other):
        vacuum(place)


def test_files_with_other_schema_messages_of_the_same_version_are_kept_apart(place: Place) -> None:
    begun(place, 3)
    add(place, 2, key_properties=("n",))
    add(place, 1)
    text = messages(place)
    done = vacuum(place)
    assert (done.joined.files, done.into.files, done.apart.files) == (5, 2, 1)
    assert [file.messages for file in place.state().files] == [12, 8, 4]
    assert messages(place) == text
    assert vacuum(place).into.files == 0
    assert is_sound(place)


@pytest.mark.parametrize("kind", ["lockfile", "merge"])
def test_where_storage_honours_no_conditions_the_stream_s_lock_is_held(kind: str) -> None:
    place = Place(kind, ignore_conditions=True)
    begun(place)
    text = messages(place)
    locked: list[str] = []
    place.storage.hook = lambda step: locked.append(step.key) if step.operation == "put" else None
    vacuum(place)
    assert (layout.stream_lock_key("t", "s") in locked) is place.store().exclusive
    assert messages(place) == text
    assert len(place.state().files) == 1


def once(place: Place, operation: str, act: Callable[[], object], *, done: bool = False) -> None:
    """Do something when storage is first asked for an operation on a data file, before or after it is done."""
    left = [act]

    def hook(step: Step) -> None:
        due = (step.operation, step.done) == (operation, done) and step.key.endswith(layout.SUFFIX)
        if due and left:
            left.pop()()

    place.storage.hook = hook
