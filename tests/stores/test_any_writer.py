"""What a stream's writer does with whichever manifest store: groups of files, receipts, lost and moved states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from singerlake.errors import LostStateError, StorageFullError, StreamClosedError
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Run, StreamSchema
from singerlake.format.state.transactions import Close
from singerlake.singer_file import Spool, compress_member
from singerlake.stores.writer import StreamWriter, Upload
from tests.fakes import START
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place, make_place
from tests.stores.writing.confirming import on_confirm

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
VERSION = schema_hash(SCHEMA)
KEY = layout.manifest_key("t", "s")


@pytest.fixture(params=IN_A_DATABASE)
def database(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)


@pytest.fixture(params=ON_THE_LAKE)
def beside(request: pytest.FixtureRequest) -> Place:
    """With a store that lives beside the data."""
    return make_place(request.param, request)


def writer(place: Place, kind: str | None = None) -> StreamWriter:
    return place.lake.stream("t", "s").writer(writer_id="ada", store=kind or place.kind)


def upload(place: Place, folder: Path, records: int = 3) -> Upload:
    header = FileHeader(id=place.ids(), created="2026", run="r", seq=0)
    spool = Spool(folder / header.id, b'{"type":"SCHEMA","stream":"s","schema":{}}', header, level=1)
    raw = b'{"type":"RECORD","stream":"s","record":{"n":1}}\n' * records
    spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=records, records=records)
    path = layout.file_path("s", VERSION, START, START, header.id)
    file = spool.describe(path=path, version=VERSION, first="2026", last="2026")
    return Upload(spool.path, file, StreamSchema(schema=SCHEMA))


def run(status: str = "running") -> Run:
    return Run(id="r1", writer="ada", started="2026", updated="2026", status=status)


def test_files_that_are_ready_at_once_are_one_transaction(place: Place, tmp_path: Path) -> None:
    own, uploads = writer(place), [upload(place, tmp_path, number + 1) for number in range(3)]
    manifest = own.settled(own.submit(uploads, run()))
    assert [(file.id, file.offset) for file in manifest.files] == [
        (each.file.id, offset) for each, offset in zip(uploads, (0, 1, 3), strict=True)
    ]
    assert manifest.transaction.number == 1
    assert (manifest.runs[0].files, manifest.runs[0].messages) == (3, 6)
    for each in uploads:
        assert place.storage.head("raw/t/s/" + each.file.path) is not None


def test_a_file_that_is_whole_by_the_time_that_another_is_uploaded_goes_into_its_transaction(
    place: Place, tmp_path: Path
) -> None:
    own, made = writer(place), []

    def coming() -> Iterator[Upload]:
        for _ in range(3):
            assert all(place.storage.head("raw/t/s/" + each.file.path) for each in made)
            made.append(upload(place, tmp_path))
            yield made[-1]

    manifest = own.settled(own.submit(coming(), run()))
    assert [file.id for file in manifest.files] == [each.file.id for each in made]
    assert manifest.transaction.number == 1


def test_how_the_run_stands_is_asked_for_when_all_files_are_uploaded(place: Place, tmp_path: Path) -> None:
    own, status = writer(place), ["running"]

    def coming() -> Iterator[Upload]:
        yield upload(place, tmp_path)
        status.append("completed")
        yield upload(place, tmp_path)

    manifest = own.settled(own.submit(coming(), lambda: run(status[-1])))
    assert [each.status for each in manifest.runs] == ["completed"]
    assert manifest.transaction.number == 1


def test_who_waits_for_a_commit_hears_of_it_before_the_files_are_looked_for(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, told = writer(place), list[str]()
    on_confirm(monkeypatch, before=lambda _: told.append("confirmed"))
    own.committed = lambda manifest: told.extend(file.id for file in manifest.files)
    one = upload(place, tmp_path)
    receipt = own.submit([one])
    own.settled(receipt)
    assert told == (["confirmed"] if receipt.commit.pending else [one.file.id, "confirmed"])


def test_where_the_next_file_fails_nothing_of_its_group_is_committed(place: Place, tmp_path: Path) -> None:
    own, first = writer(place), upload(place, tmp_path)

    def coming() -> Iterator[Upload]:
        yield first
        raise StorageFullError("the spool is full")

    with pytest.raises(StorageFullError):
        own.submit(coming(), run())
    assert place.listed() == []
    own.settled(own.submit([first], run()))
    assert place.listed() == [first.file.id]


def test_submitting_the_same_files_again_is_harmless(place: Place, tmp_path: Path) -> None:
    own, uploads = writer(place), [upload(place, tmp_path) for _ in range(2)]
    for _ in range(2):
        own.settled(own.submit(uploads))
    assert place.listed() == [each.file.id for each in uploads]


def test_at_the_end_every_receipt_is_settled_and_readers_see_all_of_it(place: Place, tmp_path: Path) -> None:
    own = writer(place)
    receipts = [own.submit([upload(place, tmp_path)], run()) for _ in range(4)]
    own.record(run("completed"))
    own.finish()
    assert all(receipt.manifest is not None for receipt in receipts)
    snapshot = place.lake.stream("t", "s").snapshot()
    assert [file.id for file in snapshot.files] == [receipt.files[0].id for receipt in receipts]
    assert [each.status for each in snapshot.runs] == ["completed"]


def test_two_writers_at_once_keep_all_files(place: Place, tmp_path: Path) -> None:
    ada, bob = writer(place), writer(place)
    receipts = []
    for _ in range(3):
        receipts += [(ada, ada.submit([upload(place, tmp_path)])), (bob, bob.submit([upload(place, tmp_path)]))]
    for own, receipt in receipts:
        own.settled(receipt)
    assert sorted(place.listed()) == sorted(receipt.files[0].id for _, receipt in receipts)


def test_only_the_store_of_the_spec_takes_locks(place: Place, tmp_path: Path) -> None:
    seen: list[str] = []
    place.storage.hook = lambda step: seen.append(step.key) if step.operation == "put" else None
    own = writer(place)
    own.publish(*_parts(upload(place, tmp_path)))
    assert any(key.endswith(layout.LOCK) for key in seen) == (place.kind == "lockfile")


def _parts(one: Upload) -> tuple[Path, object, StreamSchema]:
    return one.spool, one.file, one.schema


def test_a_database_that_knows_nothing_of_data_on_the_lake_stops_the_writer(database: Place, tmp_path: Path) -> None:
    own = writer(database)
    own.publish(*_parts(upload(database, tmp_path)))  # type: ignore[arg-type]
    database.known_by_another_id()
    before = database.storage.get(KEY)
    with pytest.raises(LostStateError, match="no history of it"):
        writer(database).open()
    assert database.storage.get(KEY) == before


def test_a_database_that_was_put_back_to_an_older_state_stops_the_writer(database: Place, tmp_path: Path) -> None:
    own = writer(database)
    own.publish(*_parts(upload(database, tmp_path)))  # type: ignore[arg-type]
    own.finish()
    stored = database.storage.get(KEY)
    assert stored is not None
    ahead = from_json(stored.body, key=KEY)
    ahead = msgspec.structs.replace(ahead, transaction=msgspec.structs.replace(ahead.transaction, number=9))
    database.storage.put(KEY, to_json(ahead))
    with pytest.raises(LostStateError, match="readers have seen transaction 9"):
        writer(database).open()


def test_a_state_that_is_lost_is_rebuilt_before_anything_is_added(beside: Place, tmp_path: Path) -> None:
    first = upload(beside, tmp_path)
    writer(beside).publish(*_parts(first))  # type: ignore[arg-type]
    beside.lake.lake_id(beside.kind)
    for entry in list(beside.storage.list("raw/t/s/")):
        if not entry.key.endswith(layout.SUFFIX):
            beside.storage.delete(entry.key)
    second = upload(beside, tmp_path)
    writer(beside).publish(*_parts(second))  # type: ignore[arg-type]
    assert beside.listed() == [first.file.id, second.file.id]


def test_a_stream_that_is_closed_and_went_nowhere_yet_stops_the_writer(place: Place, tmp_path: Path) -> None:
    own = writer(place)
    own.open()
    successor = "log" if place.kind != "log" else "lockfile"
    loaded = place.loaded()
    place.committed(loaded, Close(successor=successor))
    for attempt in (own, writer(place)):
        with pytest.raises(StreamClosedError, match=f"{successor}.*store migrate"):
            attempt.settled(attempt.submit([upload(place, tmp_path)]))
    assert place.listed() == []
