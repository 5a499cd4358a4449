"""One writer of one stream: birth, rebuild, publication, and what happens when it dies or is not alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from singerlake.errors import (
    CommitRefusedError,
    LockTimeoutError,
    MissingFileError,
    SingerlakeError,
    StorageUnavailableError,
    StreamClosedError,
)
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.format.state.transactions import Close, RetireFiles, Transaction
from singerlake.lock_file import Lock, LockSettings
from singerlake.singer_file import Spool, compress_member
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.writer import StreamWriter
from singerlake.work.bounded_map import AT_ONCE, for_each
from tests.fakes import START, FakeClock, counting_ids
from tests.format.state.test_fold import check_log
from tests.storage.memory import MemoryStorage, Step

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
VERSION = schema_hash(SCHEMA)
LINE = b'{"type":"RECORD","stream":"s","record":{"n":1}}\n'
LOCK = LockSettings(max_wait=100, stale_after=30, refresh=10)


@dataclass
class Place:
    folder: Path
    ignore_conditions: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    ids: Callable[[], str] = field(default_factory=counting_ids)
    rebuilds: int = 0

    def __post_init__(self) -> None:
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids, ignore_conditions=self.ignore_conditions)

    def rebuild(self, kind: str) -> Manifest:
        self.rebuilds += 1
        return fold.empty(tap="t", stream="s", store="lockfile", lineage="re", created="2026", transaction_id="re")

    def writer(self, name: str = "ada") -> StreamWriter:
        return StreamWriter(
            place=StreamPlace(self.storage, "t", "s", self.clock, self.ids),
            store=LockfileStore(self.storage, "t", "s"),
            writer_id=name,
            lock=LOCK,
            rebuild=self.rebuild,
        )

    def file(self, records: int = 3) -> tuple[Path, NewFile]:
        header = FileHeader(id=self.ids(), created="2026", run="r", seq=0)
        spool = Spool(self.folder / header.id, b'{"type":"SCHEMA","stream":"s","schema":{}}', header, level=1)
        raw = LINE * records
        spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=records, records=records)
        path = layout.file_path("s", VERSION, START, START, header.id)
        return spool.path, spool.describe(path=path, version=VERSION, first="2026", last="2026")

    def publish(self, writer: StreamWriter, records: int = 3) -> NewFile:
        spool, file = self.file(records)
        writer.publish(spool, file, StreamSchema(schema=SCHEMA))
        return file

    def state(self) -> Manifest:
        loaded = LockfileStore(self.storage, "t", "s").load()
        assert loaded is not None
        check_log(loaded.manifest)
        return loaded.manifest

    def listed(self) -> list[str]:
        return [file.id for file in self.state().files]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_first_act_on_a_stream_is_its_birth_before_any_upload(place: Place) -> None:
    manifest = place.writer().open()
    assert (manifest.transaction.number, manifest.files, manifest.store) == (0, (), "lockfile")
    assert [entry.key for entry in place.storage.list("")] == ["raw/t/s/manifest.json"]
    assert place.rebuilds == 0


def test_a_published_file_is_listed_and_there_and_the_lock_is_gone(place: Place) -> None:
    file = place.publish(place.writer())
    assert [listed.id for listed in place.state().files] == [file.id]
    keys = [entry.key for entry in place.storage.list("")]
    assert keys == sorted(["raw/t/s/manifest.json", f"raw/t/s/{file.path}"])


def test_the_lock_of_the_stream_schema_is_held_from_the_upload_to_the_commit(place: Place) -> None:
    key = layout.version_lock_key("t", "s", VERSION)
    seen: dict[str, bool] = {}
    writer = place.writer()
    writer.open()

    def hook(step: Step) -> None:
        if step.operation == "upload" or (step.operation == "put" and step.key.endswith("manifest.json")):
            place.storage.hook = lambda _: None
            seen[step.operation] = place.storage.head(key) is not None
            place.storage.hook = hook

    place.storage.hook = hook
    place.publish(writer)
    assert seen == {"upload": True, "put": True}


def test_files_without_state_mean_lost_state_and_are_rebuilt_first(place: Place) -> None:
    place.publish(place.writer())
    place.storage.delete("raw/t/s/manifest.json")
    manifest = place.writer("bob").open()
    assert place.rebuilds == 1
    assert manifest.lineage == "re"


def test_two_writers_that_take_turns_lose_nothing(place: Place) -> None:
    writers = [place.writer("ada"), place.writer("bob")]
    for writer in writers:
        writer.open()
    published = [place.publish(writers[number % 2]).id for number in range(6)]
    assert place.listed() == published
    assert place.state().next_offset == 18


def test_a_live_slow_writer_is_waited_for_and_then_named(place: Place) -> None:
    slow = Lock(place.storage, layout.version_lock_key("t", "s", VERSION), "slow", LOCK, place.clock, place.ids)
    slow.acquire()
    place.clock.on_sleep = lambda _: slow.refresh()
    with pytest.raises(LockTimeoutError, match="writer slow"):
        place.publish(place.writer())
    assert place.listed() == []


def test_losing_the_lock_in_the_middle_stops_nothing(place: Place) -> None:
    key = layout.version_lock_key("t", "s", VERSION)

    def hook(step: Step) -> None:
        if step.operation == "upload" and step.done:
            place.storage.hook = lambda _: None
            place.storage.delete(key)

    writer = place.writer()
    writer.open()
    place.storage.hook = hook
    file = place.publish(writer)
    assert place.listed() == [file.id]


STEPS = ["upload", "put", "head", "delete"]


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", STEPS)
def test_after_a_fault_at_any_step_publishing_again_lists_the_file_once(
    place: Place, operation: str, done: bool
) -> None:
    writer = place.writer()
    writer.open()
    spool, file = place.file()
    faulted: list[Step] = []

    def hook(step: Step) -> None:
        if step.operation == operation and step.done is done and not faulted:
            faulted.append(step)
            raise StorageUnavailableError("no answer", key=step.key)

    place.storage.hook = hook
    failed = False
    for _ in range(2):
        try:
            writer.publish(spool, file, StreamSchema(schema=SCHEMA))
            break
        except SingerlakeError:
            failed = True
            place.clock.seconds += LOCK.stale_after
    assert faulted
    assert failed or operation == "delete"
    assert place.listed() == [file.id]


def test_a_writer_that_died_after_its_commit_is_followed_by_one_that_finds_the_file_listed(place: Place) -> None:
    spool, file = place.file()
    place.writer("dead").publish(spool, file, StreamSchema(schema=SCHEMA))
    place.writer("next").publish(spool, file, StreamSchema(schema=SCHEMA))
    assert place.listed() == [file.id]


def test_a_file_that_vanished_between_commit_and_state_is_an_error(place: Place) -> None:
    def hook(step: Step) -> None:
        if step.operation == "head":
            place.storage.hook = lambda _: None
            place.storage.delete(step.key)

    writer = place.writer()
    writer.open()
    place.storage.hook = hook
    with pytest.raises(MissingFileError, match="not on storage"):
        place.publish(writer)


def test_a_closed_stream_stops_its_writers_with_a_word_on_where_it_went(place: Place) -> None:
    writer = place.writer()
    writer.open()
    store = LockfileStore(place.storage, "t", "s")
    base = store.load()
    assert base is not None
    store.commit(base, Transaction(id="x", at="2026", change=Close(successor="log")))
    with pytest.raises(StreamClosedError, match="'log'"):
        place.publish(writer)
    with pytest.raises(StreamClosedError, match="'log'"):
        place.writer().open()


def test_a_file_retired_as_an_orphan_meanwhile_is_refused(place: Place) -> None:
    writer = place.writer()
    writer.open()
    spool, file = place.file()
    store = LockfileStore(place.storage, "t", "s")
    base = store.load()
    assert base is not None
    store.commit(base, Transaction(id="x", at="2026", change=RetireFiles(files=((file.id, file.path),))))
    with pytest.raises(CommitRefusedError, match="orphan"):
        writer.publish(spool, file, StreamSchema(schema=SCHEMA))


def test_without_conditions_what_another_writer_overwrote_is_added_again(tmp_path: Path) -> None:
    place = Place(tmp_path, ignore_conditions=True)
    writer = place.writer()
    before = writer.open()
    first = place.publish(writer)
    place.storage.put("raw/t/s/manifest.json", to_json(before))
    second = place.publish(writer)
    assert sorted(place.listed()) == sorted([first.id, second.id])


def test_without_conditions_every_writer_says_at_its_start_that_it_is_best_effort(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path, ignore_conditions=True)
    for _ in range(2):
        caplog.clear()
        writer = place.writer()
        writer.open()
        assert caplog.text.count("best effort, run only one writer for each stream") == 1
        place.publish(writer)
        assert caplog.text.count("best effort") == 1


def test_without_conditions_the_stream_s_own_lock_is_taken_as_well(tmp_path: Path) -> None:
    place = Place(tmp_path, ignore_conditions=True)
    held: list[str] = []

    def hook(step: Step) -> None:
        if step.operation == "upload" and not step.done:
            place.storage.hook = lambda _: None
            held.extend(entry.key for entry in place.storage.list("raw/") if entry.key.endswith(".lock"))

    place.storage.hook = hook
    place.publish(place.writer())
    assert set(held) == {layout.version_lock_key("t", "s", VERSION), layout.stream_lock_key("t", "s")}


def test_a_run_is_counted_with_the_files_it_added(place: Place) -> None:
    writer = place.writer()
    run = Run(id="r", writer="ada", started="2026")
    for _ in range(2):
        spool, file = place.file(4)
        writer.publish(spool, file, StreamSchema(schema=SCHEMA), run)
    (kept,) = place.state().runs
    assert (kept.files, kept.records) == (2, 8)


def test_a_schema_gets_the_hash_that_is_free_for_it(place: Place) -> None:
    writer = place.writer()
    place.publish(writer)
    assert writer.version_of(SCHEMA) == VERSION
    assert writer.version_of({"other": 1}) == schema_hash({"other": 1})


def test_how_a_run_ended_is_committed_without_a_file(place: Place) -> None:
    writer = place.writer()
    run = Run(id="r", writer="ada", started="2026")
    spool, file = place.file(4)
    writer.publish(spool, file, StreamSchema(schema=SCHEMA), run)
    writer.record(msgspec.structs.replace(run, status="finished", updated="2027"))
    (kept,) = place.state().runs
    assert (kept.status, kept.updated, kept.files, kept.records) == ("finished", "2027", 1, 4)
    assert place.listed() == [file.id]


def test_without_a_pool_files_follow_each_other() -> None:
    seen: list[str] = []

    def items() -> Iterator[int | None]:
        for number in range(3):
            seen.append(f"asked for {number}")
            yield number
        yield None
        raise AssertionError("nothing is under way, so nothing is asked for again")

    assert for_each(items(), lambda number: seen.append(f"did {number}"), None) == [0, 1, 2]
    assert seen == ["asked for 0", "did 0", "asked for 1", "did 1", "asked for 2", "did 2"]


def test_a_file_that_comes_while_another_is_under_way_is_begun_beside_it() -> None:
    together, asked = threading.Barrier(2, timeout=60), 0

    def items() -> Iterator[int | None]:
        nonlocal asked
        yield 0
        while asked < 3:
            asked += 1
            yield None
        yield 1
        while True:
            yield None

    with ThreadPoolExecutor(8) as pool:
        assert for_each(items(), lambda _: together.wait(), pool) == [0, 1]


def test_no_more_files_than_that_are_under_way_at_once() -> None:
    guard, now, most = threading.Lock(), 0, 0
    all_there = threading.Barrier(AT_ONCE, timeout=60)

    def work(_: int) -> None:
        nonlocal now, most
        with guard:
            now += 1
            most = max(most, now)
        all_there.wait()
        with guard:
            now -= 1

    with ThreadPoolExecutor(3 * AT_ONCE) as pool:
        assert for_each(range(3 * AT_ONCE), work, pool) == list(range(3 * AT_ONCE))
    assert most == AT_ONCE


def test_the_first_file_that_fails_is_told_when_all_that_were_begun_have_ended() -> None:
    failed, ended = threading.Event(), []

    def items() -> Iterator[int]:
        yield 0
        yield 1
        assert failed.wait(60)
        yield 2

    def work(number: int) -> None:
        if number == 1:
            failed.set()
            raise StorageUnavailableError("gone")
        assert failed.wait(60)
        ended.append(number)

    with ThreadPoolExecutor(8) as pool, pytest.raises(StorageUnavailableError):
        for_each(items(), work, pool)
    assert 0 in ended


def test_where_the_next_file_cannot_be_given_those_under_way_are_waited_for() -> None:
    refused, ended = threading.Event(), []

    def items() -> Iterator[int]:
        yield 0
        refused.set()
        raise StorageUnavailableError("no more")

    def work(number: int) -> None:
        assert refused.wait(60)
        ended.append(number)

    with ThreadPoolExecutor(8) as pool, pytest.raises(StorageUnavailableError, match="no more"):
        for_each(items(), work, pool)
    assert ended == [0]
