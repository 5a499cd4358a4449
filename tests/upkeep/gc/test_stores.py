"""Collecting a stream through whichever manifest store keeps it: only what was agreed on goes, and only in time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from singerlake.errors import StorageUnavailableError, StreamClosedError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.state.additions import Conflict
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Close, Rebase
from singerlake.singer_file import Spool, compress_member
from singerlake.upkeep.gc.apply import Collected, collect_stream
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.fakes import START, FakeClock
from tests.storage.memory import MemoryStorage, Step
from tests.stores.stores import Place
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, is_sound, messages, vacuum

pytestmark = pytest.mark.in_turn("place")

GRACE = timedelta(days=7)
DAY = 86_400.0


def collect(place: Place, **options: Any) -> Collected:
    given = {"grace": GRACE, "delete": True, "threads": 1, **options}
    return collect_stream(place.context(), **given)


def days(place: Place, number: float) -> None:
    assert isinstance(place.clock, FakeClock)
    place.clock.seconds += number * DAY


def is_there(place: Place, file: DataFile) -> bool:
    return place.storage.head(PREFIX + file.path) is not None


def dump(place: Place) -> dict[str, bytes]:
    """All objects, by key."""
    bodies = {entry.key: place.storage.get(entry.key) for entry in place.storage.list("")}
    return {key: stored.body for key, stored in bodies.items() if stored}


def orphan(place: Place, id: str = "a0000000000000o0", stream: str = "s", *, name: str | None = None) -> str:
    """A data file that a writer uploaded and never committed; its key. ``name`` is the id in its name."""
    key = PREFIX + layout.file_path("s", "v", START, START, name or id)
    place.storage.put(key, uncommitted(id, stream))
    return key


def uncommitted(id: str, stream: str = "s") -> bytes:
    """A data file of one message."""
    line = b'{"type":"SCHEMA","stream":"%s","schema":{},"key_properties":[]}' % stream.encode()
    header = FileHeader(id=id, created="2026-01-01T00:00:00Z", run="r", seq=0)
    with TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "spool", line, header, level=1)
        spool.append(compress_member(b"{}\n", 1), raw_bytes=3, messages=1, records=1)
        return spool.path.read_bytes()


def replaced(place: Place) -> Manifest:
    """A stream whose five files were joined into one; its state before."""
    before = begun(place)
    vacuum(place)
    return before


def test_a_replaced_file_is_shown_then_deleted_then_forgotten_a_grace_time_apart(place: Place) -> None:
    before = replaced(place)
    text = messages(place)
    first = collect(place)
    assert len(first.plan.shown) == 5
    assert (first.deleted.files, first.plan.waiting.files, first.findings) == (0, 5, ())
    days(place, 6.9)
    second = collect(place)
    assert (second.deleted.files, second.plan.waiting.files) == (0, 5)
    assert all(is_there(place, file) for file in before.files)
    days(place, 0.2)
    third = collect(place)
    assert (third.deleted.files, third.deleted.bytes) == (5, sum(file.bytes for file in before.files))
    assert not any(is_there(place, file) for file in before.files)
    assert [file.deleted is not None for file in place.state().retired] == [True] * 5
    days(place, 6.9)
    assert collect(place).plan.forgotten == ()
    days(place, 0.2)
    assert len(collect(place).plan.forgotten) == 5
    assert not place.state().retired
    assert messages(place) == text
    assert is_sound(place)
    assert collect(place).deleted.files == 0


def test_what_replaced_a_file_may_be_replaced_too(place: Place) -> None:
    before = replaced(place)
    (joined,) = place.state().files
    add(place, 4)
    vacuum(place)
    text = messages(place)
    assert joined.id in place.state().retired_by_id
    for _ in range(3):
        collect(place)
        days(place, 8)
    assert not any(is_there(place, file) for file in (*before.files, joined))
    assert not place.state().retired
    assert messages(place) == text


@pytest.mark.parametrize("harm", ["gone", "other bytes"])
def test_nothing_is_deleted_whose_replacement_is_not_whole(place: Place, harm: str) -> None:
    before = replaced(place)
    (joined,) = place.state().files
    collect(place)
    days(place, 8)
    if harm == "gone":
        place.storage.delete(PREFIX + joined.path)
    else:
        place.storage.put(PREFIX + joined.path, b"x" * joined.bytes)
    done = collect(place)
    assert [(finding.key, finding.problem) for finding in done.findings] == [(PREFIX + joined.path, True)]
    assert done.deleted.files == 0
    assert all(is_there(place, file) for file in before.files)
    assert not any(file.deleted for file in place.state().retired)


def test_what_is_older_than_the_lineage_is_nobody_s_orphan(place: Place) -> None:
    begun(place)
    key = orphan(place)
    days(place, 1)
    base = place.loaded()
    rebuilt = msgspec.structs.replace(base.manifest, lineage="new", created="2026-01-02T00:00:00Z")
    place.committed(base, Rebase(manifest=rebuilt))
    days(place, 30)
    done = collect(place, orphans=True)
    assert (done.plan.orphans, done.retired.files) == ((), 0)
    assert place.storage.head(key) is not None


@pytest.mark.parametrize("collected", [False, True])
def test_what_was_written_since_a_backup_of_the_state_is_kept(place: Place, collected: bool) -> None:
    """Metadata put back: the joined file is the only copy of the messages of those that were collected."""
    before = begun(place)
    days(place, 1)
    vacuum(place)
    for _ in range(2 if collected else 0):
        collect(place)
        days(place, 8)
    text = messages(place)
    (joined,) = place.state().files
    base = place.loaded()
    back = msgspec.structs.replace(before, lineage="restored", retired=())
    place.committed(base, Rebase(manifest=back))
    days(place, 30)
    done = collect(place, orphans=True)
    assert done.retired.files == 0
    assert [finding.kind for finding in done.findings] == ["missing"] * 5 * collected + ["unlisted"]
    assert all("rebuild --discard-manifest" in finding.message for finding in done.findings)
    assert is_there(place, joined)
    repair_stream(place.context(), RepairOptions(discard=True))
    assert messages(place) == text


@pytest.mark.parametrize(
    "odd", [{"name": "b0000000000000o0"}, {"stream": "other"}], ids=["another's name", "another stream"]
)
def test_what_is_no_data_file_of_the_stream_is_no_orphan(place: Place, odd: dict[str, str]) -> None:
    begun(place)
    key = orphan(place, **odd)  # type: ignore[arg-type]
    broken = orphan(place, "a0000000000000o1")
    place.storage.put(broken, b"no gzip")
    add(place, 1)
    days(place, 8)
    done = collect(place, orphans=True)
    assert done.retired.files == 0
    assert {finding.key: finding.problem for finding in done.findings} == {key: False, broken: False}


def test_a_listed_file_under_another_s_name_is_kept(place: Place) -> None:
    before = replaced(place)
    (joined,) = place.state().files
    collect(place)
    days(place, 8)
    key = PREFIX + before.files[0].path
    stored = place.storage.get(PREFIX + joined.path)
    assert stored is not None
    place.storage.put(key, stored.body)
    place.storage.delete(PREFIX + joined.path)
    repair_stream(place.context(), RepairOptions())
    assert [file.path for file in place.state().files] == [before.files[0].path]
    text = messages(place)
    for _ in range(4):
        collect(place, orphans=True)
        days(place, 8)
    assert messages(place) == text


def test_originals_that_were_put_back_are_kept_while_what_replaced_them_is_broken(place: Place) -> None:
    before = replaced(place)
    bodies = {file.path: place.storage.get(PREFIX + file.path) for file in before.files}
    text = messages(place)
    collect(place)
    days(place, 8)
    collect(place)
    (joined,) = place.state().files
    place.storage.put(PREFIX + joined.path, b"x" * joined.bytes)
    for path, stored in bodies.items():
        assert stored is not None
        place.storage.put(PREFIX + path, stored.body)
    done = collect(place)
    assert (done.deleted.files, [finding.kind for finding in done.findings]) == (0, ["differs"])
    repair_stream(place.context(), RepairOptions(discard=True))
    collect(place, orphans=True)
    assert messages(place) == text


def test_a_run_that_ended_between_agreement_and_deletion_is_taken_up(place: Place) -> None:
    before = replaced(place)
    collect(place)
    days(place, 8)
    storage = place.storage
    assert isinstance(storage, MemoryStorage)

    def fail(step: Step) -> None:
        if step.operation == "delete" and step.key.endswith(".singer.gz"):
            raise StorageUnavailableError("gone")

    storage.hook = fail
    with pytest.raises(StorageUnavailableError):
        collect(place)
    storage.hook = lambda _: None
    assert all(is_there(place, file) for file in before.files)
    assert all(file.deleted for file in place.state().retired)
    done = collect(place)
    assert (len(done.plan.again), done.deleted.files) == (5, 5)
    assert not any(is_there(place, file) for file in before.files)


def test_a_file_that_a_rebuild_listed_again_is_kept(place: Place) -> None:
    before = replaced(place)
    collect(place)
    (joined,) = place.state().files
    place.storage.put(PREFIX + joined.path, b"broken")
    repair_stream(place.context(), RepairOptions(discard=True))
    assert {file.id for file in place.state().files} == {file.id for file in before.files}
    for _ in range(3):
        days(place, 8)
        collect(place, orphans=True)
    assert all(is_there(place, file) for file in before.files)
    assert len(messages(place)) == 20


def test_a_state_that_lists_what_is_being_deleted_is_refused(place: Place) -> None:
    before = replaced(place)
    collect(place)
    days(place, 8)
    collect(place)
    base = place.loaded()
    assert isinstance(place.commit(base, Rebase(manifest=before)), Conflict)


def test_readers_of_a_deleted_file_s_bookmark_go_on(place: Place) -> None:
    before = replaced(place)
    middle = before.files[2]
    bookmark = Bookmark(lineage="another", offset=99, file=middle.id, line=3)
    for _ in range(4):
        collect(place)
        days(place, 8)
    stream = place.lake.stream("t", "s")
    assert stream.resume(stream.snapshot(), bookmark) == middle.offset + 3


def test_a_writer_at_work_in_the_middle_of_it_loses_nothing(place: Place) -> None:
    replaced(place)
    collect(place)
    days(place, 8)
    text = messages(place)
    storage = place.storage
    assert isinstance(storage, MemoryStorage)
    written = []

    def write(step: Step) -> None:
        if step.operation == "list" and not written:
            written.append(step)
            add(place, 2)

    storage.hook = write
    collect(place, orphans=True)
    storage.hook = lambda _: None
    assert written
    assert messages(place)[: len(text)] == text
    assert len(messages(place)) == len(text) + 8
    assert is_sound(place)


def test_two_at_once_do_no_harm(place: Place) -> None:
    before = replaced(place)
    collect(place)
    days(place, 8)
    storage = place.storage
    assert isinstance(storage, MemoryStorage)
    others = []

    def other(step: Step) -> None:
        if step.operation == "list" and step.key == PREFIX and not others:
            others.append(step)
            collect(place)

    storage.hook = other
    collect(place)
    storage.hook = lambda _: None
    assert others
    assert not any(is_there(place, file) for file in before.files)
    assert len(messages(place)) == 20


def test_a_stream_without_state_or_closed_is_told(place: Place) -> None:
    assert collect(place).plan.due == ()
    begun(place)
    base = place.loaded()
    place.committed(base, Close(successor="elsewhere"))
    with pytest.raises(StreamClosedError, match="elsewhere"):
        collect(place)
