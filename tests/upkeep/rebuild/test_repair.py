"""Repairing a stream: what is readable keeps its offsets, what is gone is made anew, and no writer is overrun."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from singerlake.clock import timestamp
from singerlake.errors import CorruptObjectError, ForeignManifestError, TooManyConflictsError
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import AddFiles, RetireFiles, Transaction
from singerlake.stores.lockfile import LockfileStore
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from singerlake.upkeep.result import Progress
from tests.fakes import START
from tests.storage.memory import MemoryStorage, Step
from tests.upkeep.shelf import (
    OTHER,
    PREFIX,
    SCHEMA,
    STREAM,
    TAP,
    Shelf,
    file_bytes,
    file_id,
    header,
    kinds,
    numbered,
    record,
)

MANIFEST = layout.manifest_key(TAP, STREAM)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def repair(shelf: Shelf, **wish: bool) -> Repair:
    store = LockfileStore(shelf.storage, TAP, STREAM)
    return repair_stream(
        StreamContext(shelf.storage, TAP, STREAM, shelf.clock, shelf.ids, store), RepairOptions(**wish)
    )


def stored(shelf: Shelf) -> Manifest:
    found = shelf.storage.get(MANIFEST)
    assert found is not None
    return from_json(found.body, key=MANIFEST)


def commit(shelf: Shelf, manifest: Manifest) -> None:
    shelf.storage.put(MANIFEST, to_json(manifest))


@pytest.fixture
def settled(shelf: Shelf) -> Shelf:
    """Three files, listed."""
    for number in (1, 2, 3):
        shelf.original(number)
    repair(shelf)
    return shelf


def test_a_state_that_is_right_is_left_alone(settled: Shelf) -> None:
    before = settled.storage.get(MANIFEST)
    plan = repair(settled)
    assert (plan.needed, bool(plan.difference), plan.findings) == (False, False, ())
    assert settled.storage.get(MANIFEST) == before


def test_what_is_not_listed_is_reported_and_added_only_on_request(settled: Shelf) -> None:
    before = stored(settled)
    settled.original(0, schema=OTHER)
    plan = repair(settled)
    assert [(finding.kind, finding.problem) for finding in plan.findings] == [("unlisted", False)]
    assert stored(settled) == before
    plan = repair(settled, adopt=True)
    after = stored(settled)
    assert settled.numbers(after) == [1, 2, 3, 0]
    assert (after.lineage, after.files[:3]) == (before.lineage, before.files)
    assert after.transaction.number == before.transaction.number + 1
    assert list(after.versions.values()) == ["v1", "v2"]
    assert plan.difference.added == (file_id(0),)
    assert after == msgspec.structs.replace(plan.after, transaction=after.transaction)


def test_a_vacuumed_file_whose_originals_are_listed_is_not_adopted(settled: Shelf) -> None:
    settled.vacuumed(50, (1, 2), (2, 2))
    plan = repair(settled, adopt=True)
    assert (plan.needed, plan.findings) == (False, ())


def test_originals_whose_vacuumed_file_is_listed_are_not_adopted(shelf: Shelf) -> None:
    shelf.vacuumed(50, (1, 2), (2, 2))
    repair(shelf)
    shelf.original(1)
    shelf.original(2)
    plan = repair(shelf, adopt=True)
    assert (plan.needed, plan.findings) == (False, ())


@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_file_retired_as_an_orphan_is_not_adopted(settled: Shelf, vacuumed: bool) -> None:
    path = settled.vacuumed(4, (8, 2), (9, 2)) if vacuumed else settled.original(4)
    change = RetireFiles(files=((file_id(4), path),))
    after = fold.apply(stored(settled), Transaction(id="x", at="2026", change=change))
    assert isinstance(after, Manifest)
    commit(settled, after)
    plan = repair(settled, adopt=True)
    assert (plan.needed, plan.findings) == (False, ())


def test_facts_are_mended_and_offsets_kept(settled: Shelf) -> None:
    path = PREFIX + settled.path(2)
    text = gzip.decompress(settled.storage.read_range(path, 0, 1 << 20))
    settled.storage.put(path, gzip.compress(text))
    before = stored(settled)
    plan = repair(settled)
    after = stored(settled)
    assert plan.difference.mended == (file_id(2),)
    assert [(file.id, file.offset) for file in after.files] == [(file.id, file.offset) for file in before.files]
    assert after.files[1].members == ((0, 2),)
    assert after.lineage == before.lineage
    assert not repair(settled).needed


@pytest.mark.parametrize(("first", "last"), [("2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"), ("2026", "soon")])
@pytest.mark.parametrize("anew", [False, True])
def test_unknown_times_become_those_of_the_records_or_of_the_file(
    settled: Shelf, first: str, last: str, anew: bool
) -> None:
    settled.put(9, file_bytes([[record(1, time_extracted="2020-01-01T00:00:00Z")]], extra=header(9)))
    repair(settled, adopt=True)
    before = stored(settled)
    unknown = tuple(msgspec.structs.replace(file, first=first, last=last) for file in before.files)
    commit(settled, msgspec.structs.replace(before, files=unknown))
    repair(settled, discard=anew)
    spans = {file.id: (file.first, file.last) for file in stored(settled).files}
    assert spans.pop(file_id(9)) == ("2020-01-01T00:00:00.000000Z",) * 2
    assert spans == {file_id(n): (timestamp(START + timedelta(seconds=n)),) * 2 for n in (1, 2, 3)}


@pytest.mark.parametrize("anew", [False, True])
def test_known_times_of_records_without_any_stay(settled: Shelf, anew: bool) -> None:
    before = stored(settled)
    times = ("2026-01-01T00:00:00.000000Z", "2026-02-01T00:00:00.000000Z")
    known = tuple(msgspec.structs.replace(file, first=times[0], last=times[1]) for file in before.files)
    commit(settled, msgspec.structs.replace(before, files=known))
    repair(settled, discard=anew)
    assert {(file.first, file.last) for file in stored(settled).files} == {times}


@pytest.mark.parametrize("anew", [False, True])
def test_a_file_whose_header_was_damaged_is_taken_as_it_is_and_named(settled: Shelf, anew: bool) -> None:
    """No checksum covers a header: every message is sound, and only the manifest knows that the bytes are others."""
    path = PREFIX + settled.path(2)
    body = bytearray(settled.storage.read_range(path, 0, 1 << 20))
    body[body.index(b'"run":"r"') + 7] ^= 1
    settled.storage.put(path, bytes(body))
    plan = repair(settled, discard=anew)
    assert [(finding.kind, finding.key, finding.problem) for finding in plan.findings] == [("differs", path, True)]
    assert "listed as it is now" in plan.findings[0].message
    assert plan.difference.mended == (file_id(2),)
    assert repair(settled).findings == ()


def test_a_moved_file_is_found_by_its_id(settled: Shelf) -> None:
    old, new = PREFIX + settled.path(2), "elsewhere/x.singer.gz"
    settled.put(2, settled.storage.read_range(old, 0, 1 << 20), path=new)
    settled.storage.delete(old)
    assert repair(settled).difference.mended == (file_id(2),)
    assert stored(settled).files[1].path == new


@pytest.mark.parametrize("messages", [1, 3])
def test_a_file_with_other_messages_stays_as_it_is_listed(settled: Shelf, messages: int) -> None:
    before = stored(settled)
    settled.put(2, file_bytes([numbered(2, messages)], extra=header(2)))
    plan = repair(settled)
    assert kinds(plan.findings) == ["differs"]
    assert stored(settled) == before


def test_mending_and_adopting_are_one_transaction(settled: Shelf) -> None:
    path = PREFIX + settled.path(1)
    settled.storage.put(path, gzip.compress(gzip.decompress(settled.storage.read_range(path, 0, 1 << 20))))
    settled.original(4)
    before = stored(settled)
    plan = repair(settled, adopt=True)
    after = stored(settled)
    assert settled.numbers(after) == [1, 2, 3, 4]
    assert after.transaction.number == before.transaction.number + 1
    assert (plan.difference.added, plan.difference.mended) == ((file_id(4),), (file_id(1),))


def test_discarding_makes_the_state_anew_under_a_new_lineage(settled: Shelf) -> None:
    before = stored(settled)
    settled.original(0)
    plan = repair(settled, discard=True)
    after = stored(settled)
    assert settled.numbers(after) == [0, 1, 2, 3]
    assert after.lineage != before.lineage
    assert after.transaction.number == before.transaction.number + 1
    assert plan.difference.moved == (file_id(1), file_id(2), file_id(3))
    assert [(finding.kind, finding.problem) for finding in plan.findings] == [("uncommitted", False)]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"format":1}', b"\xff", b'{"format":0}'])
def test_a_state_that_cannot_be_read_is_not_overwritten_unasked(settled: Shelf, body: bytes) -> None:
    settled.storage.put(MANIFEST, body)
    with pytest.raises(CorruptObjectError, match=r"manifest\.json"):
        repair(settled)
    found = settled.storage.get(MANIFEST)
    assert found is not None
    assert found.body == body
    repair(settled, discard=True)
    assert settled.numbers(stored(settled)) == [1, 2, 3]


def test_another_kind_of_stores_state_is_never_overwritten(settled: Shelf) -> None:
    theirs = msgspec.structs.replace(stored(settled), store="log", stream="S")
    commit(settled, theirs)
    with pytest.raises(ForeignManifestError):
        repair(settled, discard=True)
    assert stored(settled) == theirs


def add_beside(shelf: Shelf, number: int) -> None:
    """What a writer does meanwhile: a file uploaded and committed."""
    path = shelf.original(number)
    made = shelf.rebuild().manifest
    file = made.by_id[file_id(number)]
    fields = {name: getattr(file, name) for name in file.__struct_fields__ if name != "offset"}
    new = msgspec.convert(fields, NewFile)
    schema = made.schemas[file.version]
    change = AddFiles(files=(new,), schemas={file.version: schema})
    after = fold.apply(stored(shelf), Transaction(id="w", at=timestamp(shelf.clock.now()), change=change))
    assert isinstance(after, Manifest)
    assert path == new.path
    commit(shelf, after)


def when_first_reading_a_file(shelf: Shelf, act: Callable[[], None]) -> None:
    def hook(step: Step) -> None:
        if step.operation == "open":
            shelf.storage.hook = lambda _: None
            act()

    shelf.storage.hook = hook


@pytest.mark.parametrize("wish", [{"discard": True}, {"adopt": True}])
def test_what_a_writer_commits_meanwhile_is_not_lost(settled: Shelf, wish: dict[str, bool]) -> None:
    settled.original(4)
    when_first_reading_a_file(settled, lambda: add_beside(settled, 5))
    repair(settled, **wish)
    assert sorted(settled.numbers(stored(settled))) == [1, 2, 3, 4, 5]


def test_a_writer_that_gives_birth_meanwhile_is_not_overrun(shelf: Shelf) -> None:
    shelf.original(1)
    birth = fold.empty(tap=TAP, stream=STREAM, store="lockfile", lineage="theirs", created="2026", transaction_id="b")
    when_first_reading_a_file(shelf, lambda: commit(shelf, birth))
    repair(shelf, adopt=True)
    assert (stored(shelf).lineage, shelf.numbers(stored(shelf))) == ("theirs", [1])


def test_a_repaired_state_is_not_deleted_with_the_corrupt_one_it_replaced(settled: Shelf) -> None:
    good = stored(settled)
    settled.storage.put(MANIFEST, b"corrupt")
    when_first_reading_a_file(settled, lambda: commit(settled, msgspec.structs.replace(good, lineage="restored")))
    repair(settled, discard=True)
    assert stored(settled).transaction.number == good.transaction.number + 1


def test_writers_that_never_stop_are_an_error_and_nothing_is_changed(settled: Shelf) -> None:
    settled.original(4)

    def busy(step: Step) -> None:
        if step.operation == "put" and step.key == MANIFEST and not step.done:
            settled.storage.hook = lambda _: None
            found = stored(settled)
            position = msgspec.structs.replace(found.transaction, number=found.transaction.number + 1)
            commit(settled, msgspec.structs.replace(found, transaction=position))
            settled.storage.hook = busy

    settled.storage.hook = busy
    with pytest.raises(TooManyConflictsError, match="nothing was changed"):
        repair(settled, adopt=True)
    assert settled.numbers(stored(settled)) == [1, 2, 3]


def test_without_conditions_the_streams_lock_is_held_while_writing() -> None:
    shelf = Shelf()
    shelf.storage = MemoryStorage(clock=shelf.clock, ids=shelf.ids, ignore_conditions=True)
    shelf.original(1)
    lock = layout.stream_lock_key(TAP, STREAM)
    held: list[bool] = []

    def watch(step: Step) -> None:
        if step.operation == "put" and step.key == MANIFEST and not step.done:
            shelf.storage.hook = lambda _: None
            held.append(shelf.storage.get(lock) is not None)

    shelf.storage.hook = watch
    repair(shelf)
    assert held == [True]
    assert shelf.numbers(stored(shelf)) == [1]
    assert stored(shelf).schemas[stored(shelf).files[0].version].schema == SCHEMA


@pytest.mark.parametrize("held", [1, 2, 3, 4, 9])
def test_who_looks_is_told_the_whole_before_anything_is_read(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    """Also where a listing has more entries than are held."""
    for number in range(3):
        shelf.original(number)
    monkeypatch.setattr("singerlake.upkeep.rebuild.rebuild_lake._LISTED", held)
    told: list[int] = []
    store = LockfileStore(shelf.storage, TAP, STREAM)
    context = StreamContext(shelf.storage, TAP, STREAM, shelf.clock, shelf.ids, store)
    plan = repair_stream(context, RepairOptions(), progress=Progress(True, told.append, told.append))
    assert told[0] == sum(told[1:]) == plan.read.bytes > 0
    assert plan.read.files == 3
    assert shelf.numbers(plan.after) == [0, 1, 2]


@pytest.mark.parametrize("kept", [None, 1, 2, 3])
def test_the_latest_schema_message_rules_where_a_state_has_lost_the_schema(shelf: Shelf, kept: int | None) -> None:
    for number in (1, 2, 3):
        shelf.keyed(number, *["n"] * (number == 3), kept=number == kept)
    repair(shelf)
    whole = stored(shelf)
    commit(shelf, msgspec.structs.replace(whole, schemas={}))
    repair(shelf)
    (schema,) = stored(shelf).schemas.values()
    assert schema.key_properties == ("n",)
    assert schema.first_offset == 0
