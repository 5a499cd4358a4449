"""The lake as a whole: roots, names, caches, and what is refused before anything is written."""

from __future__ import annotations

import dataclasses
import doctest
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.adapters import open_storage
from singerlake.errors import (
    CorruptObjectError,
    NameTooLongError,
    NotALakeError,
    SettingError,
    UnknownNameError,
    UnsupportedFormatError,
)
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.metadata import catalogue, root
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.format.state.selection import select
from singerlake.lake import Lake
from singerlake.lock_file import LockBody
from singerlake.singer_file import Spool, compress_member
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Refused, Written
from singerlake.stream import LakeStream
from tests.fakes import START, FakeClock, counting_ids
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
SCHEMA_LINE = b'{"type":"SCHEMA","stream":"s","schema":{"type":"object","properties":{"n":{"type":"integer"}}}}'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"))


def publish(lake: Lake, tmp_path: Path, tap: str, stream: str, members: list[int] | None = None) -> NewFile:
    """One file of numbered records, ``members`` of them in each gzip member."""
    header = FileHeader(id=lake.ids(), created="2026", run="r", seq=0)
    spool = Spool(tmp_path / header.id, SCHEMA_LINE, header, level=1)
    number = 0
    for count in members or [2]:
        raw = b"".join(b'{"type":"RECORD","stream":"s","record":{"n":%d}}\n' % n for n in range(number, number + count))
        spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=count, records=count)
        number += count
    version = schema_hash(SCHEMA)
    path = layout.file_path(stream, version, START, START, header.id)
    file = spool.describe(path=path, version=version, first="2026", last="2026")
    manifest = lake.stream(tap, stream).writer(writer_id="w").publish(spool.path, file, StreamSchema(schema=SCHEMA))
    lake.announce(manifest)
    return file


def test_paths_and_file_urls_name_the_same_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "a lake"
    open_storage(str(folder)).put("raw/x", b"1")
    for spelling in (f"file://{folder}", f"file://{tmp_path}/a%20lake", "~/a lake", f"{folder}/"):
        stored = open_storage(spelling).get("raw/x")
        assert stored is not None, spelling


def test_nothing_is_a_lake_before_something_was_written(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotALakeError, match="nothing here is a lake"):
        lake.require()
    assert not (tmp_path / "lake").exists()
    publish(lake, tmp_path, "t", "s")
    assert lake.require() is lake


NAMES = ["plain", "../../etc", "a/b", "catalogue.json", "singerlake.json", "_hidden", ".dot", "日本 ü", "A=1", "%2e"]


def test_taps_and_streams_of_any_name_are_found_by_listing_alone(lake: Lake, tmp_path: Path) -> None:
    for name in NAMES:
        publish(lake, tmp_path, name, name)
    for key in (layout.root_metadata_key(), *(layout.catalogue_key(name) for name in NAMES)):
        lake.storage.delete(key)
    assert lake.taps() == sorted(NAMES)
    for name in NAMES:
        assert lake.streams(name) == [name]
        assert [entry["stream"] for entry in lake.catalogue(name)["streams"]] == [name]
    assert {path.name for path in tmp_path.iterdir()} == {"lake"}


def test_unknown_names_are_errors_that_list_the_known_ones(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path, "tap-a", "flights")
    with pytest.raises(UnknownNameError, match=r"no tap 'tap-b'.*tap-a"):
        lake.existing_stream("tap-b", "flights")
    with pytest.raises(UnknownNameError, match=r"no stream 'planes'.*flights"):
        lake.existing_stream("tap-a", "planes")
    assert lake.existing_stream("tap-a", "flights").snapshot().next_offset == 2


def test_names_that_cannot_be_folders_are_refused_before_anything_is_written(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NameTooLongError):
        lake.stream("t", "s" * 300)
    with pytest.raises(SettingError, match="must not be empty"):
        lake.stream("t", "")
    assert not (tmp_path / "lake").exists()


def test_the_caches_say_what_was_published_and_keep_what_people_wrote(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path, "a", "s")
    metadata = lake.root_metadata()
    assert metadata is not None
    notes = root.TapNotes(owner="Ada", description="d")
    noted = msgspec.structs.replace(metadata, taps={"a": notes})
    lake.storage.put(layout.root_metadata_key(), root.to_json(noted))
    publish(lake, tmp_path, "b", "s")
    publish(lake, tmp_path, "b", "u")
    after = lake.root_metadata()
    assert after is not None
    assert after.taps == {"a": notes, "b": root.TapNotes()}
    assert after.lake_id == metadata.lake_id
    stored = lake.storage.get(layout.catalogue_key("b"))
    assert stored is not None
    assert [entry["stream"] for entry in catalogue.from_json(stored.body, key="k")["streams"]] == ["s", "u"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"streams": [1]}'])
def test_a_catalogue_that_cannot_be_read_is_passed_over_and_replaced_by_the_next_run(
    lake: Lake, tmp_path: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    publish(lake, tmp_path, "t", "s")
    key = layout.catalogue_key("t")
    lake.storage.put(key, body)
    assert [entry["stream"] for entry in lake.catalogue("t")["streams"]] == ["s"]
    assert f"key='{key}'" in caplog.text
    publish(lake, tmp_path, "t", "u")
    assert [entry["stream"] for entry in catalogue.from_json(stored_body(lake, key), key=key)["streams"]] == ["u"]
    assert [entry["stream"] for entry in lake.catalogue("t")["streams"]] == ["s", "u"]


def test_a_run_that_adds_its_tap_keeps_the_fields_that_it_does_not_know(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path, "a", "s")
    key = layout.root_metadata_key()
    before = json.loads(stored_body(lake, key))
    before["taps"]["a"]["contact"] = before["note"] = "ada@example.org"
    lake.storage.put(key, json.dumps(before).encode())
    publish(lake, tmp_path, "b", "s")
    after = json.loads(stored_body(lake, key))
    assert list(after["taps"]) == ["a", "b"]
    del after["taps"]["b"]
    assert after == before


def stored_body(lake: Lake, key: str) -> bytes:
    stored = lake.storage.get(key)
    assert stored is not None
    return stored.body


def test_announcing_what_is_known_writes_nothing(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path, "a", "s")
    keys = (layout.root_metadata_key(), layout.catalogue_key("a"))
    before = [lake.storage.get(key) for key in keys]
    lake.announce(lake.stream("a", "s").snapshot())
    assert [lake.storage.get(key) for key in keys] == before


def announced(lake: Lake, tmp_path: Path, tap: str, stream: str) -> list[str]:
    """What is asked of storage for the lake's own files, for a stream that is new in the manifest of another lake."""
    elsewhere = Lake.open(str(tmp_path / "elsewhere"))
    publish(elsewhere, tmp_path, tap, stream)
    asked: list[str] = []
    assert isinstance(lake.storage, MemoryStorage)
    lake.storage.hook = lambda step: None if step.done else asked.append(f"{step.operation} {step.key}")
    lake.announce(elsewhere.stream(tap, stream).snapshot())
    lake.storage.hook = lambda step: None
    return sorted(asked)


def in_memory() -> Lake:
    return Lake(MemoryStorage(clock=FakeClock(), ids=counting_ids()), ids=counting_ids())


def test_the_first_files_of_a_new_tap_are_announced_in_two_requests(tmp_path: Path) -> None:
    lake = in_memory()
    lake.lake_id()
    assert announced(lake, tmp_path, "a", "s") == ["put raw/a/catalogue.json", "put raw/singerlake.json"]
    # Without conditions, another's root metadata may have come on top of what named the tap.
    assert announced(lake, tmp_path, "a", "t") == [
        "get raw/a/catalogue.json",
        "get raw/singerlake.json",
        "put raw/a/catalogue.json",
    ]
    assert announced(lake, tmp_path, "b", "s") == ["put raw/b/catalogue.json", "put raw/singerlake.json"]
    assert [*root_of(lake).taps] == ["a", "b"]
    assert catalogued(lake, "a") == {"s", "t"}


def test_what_others_announced_meanwhile_stays(tmp_path: Path) -> None:
    lake = in_memory()
    lake.lake_id()
    rival = Lake(lake.storage, ids=lake.ids)
    rival.lake_id()
    announced(rival, tmp_path, "a", "s")
    announced(rival, tmp_path, "b", "s")
    announced(lake, tmp_path, "a", "t")
    announced(rival, tmp_path, "c", "s")
    announced(lake, tmp_path, "d", "s")
    assert [*root_of(lake).taps] == ["a", "b", "c", "d"]
    assert catalogued(lake, "a") == {"s", "t"}


def test_a_tap_that_was_overwritten_is_named_again(tmp_path: Path) -> None:
    lake = in_memory()
    lake.lake_id()
    before = stored_body(lake, layout.root_metadata_key())
    announced(lake, tmp_path, "a", "s")
    lake.storage.put(layout.root_metadata_key(), before)
    announced(lake, tmp_path, "a", "t")
    assert [*root_of(lake).taps] == ["a"]


def test_root_metadata_that_is_gone_takes_no_requests_more(tmp_path: Path) -> None:
    lake = in_memory()
    lake.lake_id()
    lake.storage.delete(layout.root_metadata_key())
    announced(lake, tmp_path, "a", "s")
    assert announced(lake, tmp_path, "a", "t") == [
        "get raw/a/catalogue.json",
        "get raw/singerlake.json",
        "put raw/a/catalogue.json",
    ]


def test_threads_that_announce_new_taps_all_name_theirs(tmp_path: Path) -> None:
    lake = in_memory()
    lake.lake_id()
    publish(elsewhere := Lake.open(str(tmp_path / "elsewhere")), tmp_path, "a", "s")
    manifest = elsewhere.stream("a", "s").snapshot()
    begin = threading.Barrier(4)

    def announce(tap: str) -> None:
        begin.wait()
        lake.announce(msgspec.structs.replace(manifest, tap=tap))

    threads = [threading.Thread(target=announce, args=(tap,)) for tap in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(root_of(lake).taps) == ["a", "b", "c", "d"]
    assert all(catalogued(lake, tap) == {"s"} for tap in "abcd")


def root_of(lake: Lake) -> root.RootMetadata:
    key = layout.root_metadata_key()
    return root.from_json(stored_body(lake, key), key=key)


def catalogued(lake: Lake, tap: str) -> set[str]:
    return {entry["stream"] for entry in json.loads(stored_body(lake, layout.catalogue_key(tap)))["streams"]}


def test_a_lost_catalogue_entry_never_hides_a_stream(lake: Lake, tmp_path: Path) -> None:
    publish(lake, tmp_path, "a", "s")
    stored = lake.storage.get(layout.catalogue_key("a"))
    publish(lake, tmp_path, "a", "hidden")
    assert stored is not None
    lake.storage.put(layout.catalogue_key("a"), stored.body)
    assert [entry["stream"] for entry in lake.catalogue("a")["streams"]] == ["hidden", "s"]


@pytest.mark.parametrize(
    ("body", "error"),
    [(b"<xml/>", CorruptObjectError), (b'{"format":9}', UnsupportedFormatError)],
    ids=["corrupt", "newer"],
)
def test_root_metadata_that_cannot_be_believed_stops_writers_and_stays(
    lake: Lake, tmp_path: Path, body: bytes, error: type[Exception]
) -> None:
    lake.storage.put(layout.root_metadata_key(), body)
    with pytest.raises(error, match=r"raw/singerlake\.json"):
        lake.stream("t", "s").writer(writer_id="w")
    stored = lake.storage.get(layout.root_metadata_key())
    assert stored is not None
    assert stored.body == body
    assert lake.storage.get(layout.manifest_key("t", "s")) is None


def test_a_manifest_store_that_is_not_the_lake_s_is_a_setting_error(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"manifest_store 'nosuch' is not known.*lockfile"):
        lake.stream("t", "s").writer(writer_id="w", store="nosuch")
    publish(lake, tmp_path, "t", "s")
    with pytest.raises(SettingError, match=r"manifest_store is 'nosuch', this lake's is 'lockfile'"):
        lake.stream("t", "s").writer(writer_id="w", store="nosuch")


@pytest.mark.parametrize("offset", range(12))
def test_reading_begins_exactly_at_an_offset_inside_any_member(lake: Lake, tmp_path: Path, offset: int) -> None:
    publish(lake, tmp_path, "t", "s", [1, 3, 2])
    publish(lake, tmp_path, "t", "s", [4, 1])
    stream = lake.stream("t", "s")
    blocks = [block for part in select(stream.snapshot(), offset=offset) for block in stream.read(part)]
    numbers = [msgspec.json.decode(line)["record"]["n"] for block in blocks for line in block.data.split(b"\n") if line]
    assert numbers == [*range(6), *range(5)][offset:]
    if blocks:
        assert blocks[0].offset == offset


READS: dict[str, Callable[[LakeStream], Any]] = {
    "snapshot": lambda stream: stream.snapshot(),
    "to_arrow": lambda stream: stream.to_arrow(),
    "to_arrow, version": lambda stream: stream.to_arrow(from_version="v1"),
    "to_arrow, offset": lambda stream: stream.to_arrow(from_offset=7),
    "to_arrow, lineage": lambda stream: stream.to_arrow(lineage="x"),
    "to_arrow, as_of": lambda stream: stream.to_arrow(as_of="x"),
    "to_arrow, from_commit": lambda stream: stream.to_arrow(from_commit="x"),
    "attached": lambda stream: list(stream.attached()),
    "open_file": lambda stream: stream.open_file("a" * 64),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_stream_that_is_not_there_is_an_error_that_lists_those_that_are(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture, read: Callable[[LakeStream], Any]
) -> None:
    publish(lake, tmp_path, "tap-a", "flights")
    with pytest.raises(UnknownNameError, match="tap 'tap-a' has no stream 'fligths'; it has: flights"):
        read(lake.stream("tap-a", "fligths"))
    with pytest.raises(UnknownNameError, match="no tap 'tap-b' in this lake; it has: tap-a"):
        read(lake.stream("tap-b", "flights"))
    publish(lake, tmp_path, "tap-a", "planes")
    with pytest.raises(UnknownNameError, match=r"did you mean 'planes'\? it has: flights, planes"):
        read(lake.stream("tap-a", "Planes"))
    with pytest.raises(UnknownNameError, match="no tap 'planes' in this lake; it is a stream of tap-a"):
        read(lake.stream("planes", "flights"))
    assert caplog.text == ""


def test_a_stream_that_was_born_without_data_says_how_to_go_on(lake: Lake) -> None:
    stream = lake.stream("t", "born")
    stream.writer(writer_id="w").open()
    assert (stream.snapshot().files, stream.snapshot().next_offset) == ((), 0)
    with pytest.raises(UnknownNameError, match="no data to take a schema from; capture it first, or select other"):
        stream.to_arrow()


def test_a_lake_is_frozen(lake: Lake) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        lake.storage = lake.storage  # type: ignore[misc]


def test_far_caches_are_brought_up_to_date_side_by_side(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, put = threading.Barrier(2, timeout=60), LocalStorage.put

    def meet(self: LocalStorage, key: str, body: bytes, **conditions: Any) -> Written | Refused:
        if key in (layout.catalogue_key("t"), layout.root_metadata_key()):
            together.wait()
        return put(self, key, body, **conditions)

    publish(lake, tmp_path, "other", "s")
    monkeypatch.setattr(LocalStorage, "near", property(lambda _: False))
    monkeypatch.setattr(LocalStorage, "put", meet)
    publish(lake, tmp_path, "t", "s")
    metadata = lake.root_metadata()
    assert metadata is not None
    assert set(metadata.taps) == {"other", "t"}
    assert [entry["tap_stream_id"] for entry in lake.catalogue("t")["streams"]] == ["s"]


@pytest.fixture
def people() -> Lake:
    """Three people in three files: two of the first version, and one of the second, which has another property."""
    clock = FakeClock()
    lake = Lake(MemoryStorage(clock=clock, ids=counting_ids()), clock=clock, ids=counting_ids())
    properties: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": "string"}}
    first = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]
    build_stream(lake, "my-tap", "users", {"properties": properties}, first, file_size=1)
    second = {"properties": {**properties, "email": {"type": "string"}}}
    build_stream(lake, "my-tap", "users", second, [{"id": 3, "name": "Linus", "email": "l@example.com"}])
    return lake


TABLES = {
    *("Lake.project", "Lake.table", "Lake.diff_table", "Lake.diff_planned"),
    *("Lake.list_tables", "Lake.verify_tables", "Lake.gc_tables", "Lake.drop_tables"),
}
WITH_OTHER_LAKES = {*TABLES, "Lake.snapshot", "LakeStream.attached", "LakeStream.follow"}
"""Their examples are tested where their lakes are made."""
EXAMPLES = {
    found.name: found
    for kind in (Lake, LakeStream)
    for found in doctest.DocTestFinder(exclude_empty=True).find(kind, kind.__name__)
    if found.examples and found.name not in WITH_OTHER_LAKES
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_docstrings_print_what_they_show(
    people: Lake, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for photo in ("a.jpg", "b.jpg"):
        Path(photo).write_text(photo)
    example = EXAMPLES[name]
    example.globs = {"lake": people}
    assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0


def test_a_lock_that_changed_since_it_was_listed_is_left_alone(people: Lake) -> None:
    key = f"raw/my-tap/users/{layout.LOCK}"
    body = LockBody(writer_id="w", acquired="2026-01-01T00:00:00Z", refreshed="2026-01-01T00:00:00Z")
    people.storage.put(key, msgspec.json.encode(body))
    (seen,) = people.locks("my-tap").locks
    assert people.locks(key=key).locks == (seen,)
    people.storage.put(key, msgspec.json.encode(msgspec.structs.replace(body, refreshed="2026-01-02T00:00:00Z")))
    assert not people.break_lock(seen)
    (seen,) = people.locks().locks
    assert people.break_lock(seen)
    assert people.locks().locks == people.locks(key=key).locks == ()
    with pytest.raises(SettingError, match="key is given with a tap"):
        people.locks("my-tap", key=key)


DAY, NAN = timedelta(days=1), float("nan")
TOO_LITTLE: dict[str, tuple[Callable[[Lake], Any], str]] = {
    "gc": (lambda lake: lake.gc(grace=-DAY), "grace time must not be negative: -86400 s"),
    "gc keep": (lambda lake: lake.gc(keep=-1), "keep must not be negative: -1"),
    "gc threads": (lambda lake: lake.gc(threads=0), "threads must be 1 or more: 0"),
    "gc_batches": (lambda lake: lake.gc_batches("/", grace=-DAY), "grace time must not be negative: -86400 s"),
    "gc_tables": (lambda lake: lake.gc_tables(grace=-DAY), "grace time must not be negative: -86400 s"),
    "vacuum": (lambda lake: lake.vacuum(target_bytes=0), "target_bytes must be 1 or more: 0"),
    "vacuum waiting": (lambda lake: lake.vacuum(most_waiting=-1), "most_waiting must not be negative: -1"),
    "vacuum threads": (lambda lake: lake.vacuum(threads=-2), "threads must be 1 or more: -2"),
    "trim": (lambda lake: lake.trim(keep=-1), "keep must not be negative: -1"),
    "trim by what is not a number": (lambda lake: lake.trim(keep=NAN), "keep must be a number: nan"),  # type: ignore[arg-type]
    "status": (lambda lake: lake.status(runs=-1), "runs must not be negative: -1"),
    "export": (lambda lake: lake.export(runs=-1), "runs must not be negative: -1"),
    "set_policy": (lambda lake: lake.set_policy("my-tap", keep_versions=0), "keep_versions must be 1 or more: 0"),
    "expire": (lambda lake: lake.stream("my-tap", "users").expire(keep_versions=0), "keep_versions must be 1 or more"),
    "expire before": (
        lambda lake: lake.stream("my-tap", "users").expire(before_offset=-1),
        "before_offset must not be negative: -1",
    ),
    "put": (lambda lake: lake.stream("my-tap", "x").put(["a"], threads=0), "threads must be 1 or more: 0"),
}


@pytest.mark.parametrize("name", TOO_LITTLE)
def test_times_and_counts_that_are_too_little_are_refused(people: Lake, name: str) -> None:
    asked, said = TOO_LITTLE[name]
    before = [entry.key for entry in people.storage.list("")]
    with pytest.raises(SettingError, match=said):
        asked(people)
    assert [entry.key for entry in people.storage.list("")] == before


def test_files_are_named_in_a_list(people: Lake) -> None:
    with pytest.raises(SettingError, match="files is one name"):
        people.stream("my-tap", "photos").put("a.jpg")


CHANGES: dict[str, Callable[..., Any]] = {
    "gc": lambda lake, **more: lake.gc(orphans=True, **more),
    "vacuum": lambda lake, **more: lake.vacuum("my-tap", **more),
    "rebuild": lambda lake, **more: lake.rebuild(discard_manifest=True, **more),
    "trim": lambda lake, **more: lake.trim(keep=0, **more),
    "migrate": lambda lake, **more: lake.migrate("lockfile", **more),
    "drop": lambda lake, **more: lake.drop("my-tap", **more),
    "drop_run": lambda lake, **more: lake.drop_run("my-tap", "a-test-run", **more),
    "erase": lambda lake, **more: lake.stream("my-tap", "users").erase("id = 2", **more),
    "expire": lambda lake, **more: lake.stream("my-tap", "users").expire(keep_versions=1, **more),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_dry_run_changes_nothing_and_a_run_does(people: Lake, change: Callable[..., Any]) -> None:
    def objects() -> dict[str, bytes]:
        return {entry.key: stored_body(people, entry.key) for entry in people.storage.list("")}

    people.vacuum("my-tap")
    people.migrate("log")
    build_stream(people, "my-tap", "more", SCHEMA, [{"n": 1}, {"n": 2}], file_size=1)
    before = objects()
    planned = change(people, dry_run=True)
    assert (objects() == before, planned.dry_run) == (True, True)
    done = change(people)
    assert (objects() == before, done.dry_run) == (False, False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        done.dry_run = True


@pytest.mark.parametrize("change", ["drop", "drop_run", "erase", "expire"])
def test_what_goes_at_once_cannot_be_tried_out(people: Lake, change: str) -> None:
    with pytest.raises(SettingError, match="now is given with dry_run"):
        CHANGES[change](people, dry_run=True, now=True)
    CHANGES[change](people, now=True)
    assert people.gc(dry_run=True).streams[0].waiting.files == 0


PROGRESSING: dict[str, Callable[..., Any]] = {
    "verify": lambda lake, progress: lake.verify(progress=progress),
    "rebuild": lambda lake, progress: lake.rebuild(progress=progress),
    "vacuum": lambda lake, progress: lake.vacuum(progress=progress),
    "erase": lambda lake, progress: lake.stream("my-tap", "users").erase("id = 2", progress=progress),
}


@pytest.mark.parametrize("work", PROGRESSING.values(), ids=PROGRESSING)
def test_progress_goes_from_nothing_to_all_that_there_is(people: Lake, work: Callable[..., Any]) -> None:
    told: list[tuple[str, int, int | None]] = []
    work(people, lambda *each: told.append(each))
    assert told[0] == ("my-tap/users", 0, None)
    _, done, total = told[-1]
    assert 0 < done == total
    counts = [done for _, done, _ in told]
    assert counts == sorted(counts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lake: lake.verify(seed="x"), "seed is given without sample"),
        (lambda lake: lake.verify(undeclared=True), "undeclared is given without erased"),
        (lambda lake: lake.rebuild(adopt=True, discard_manifest=True), "exclude each other"),
        (lambda lake: lake.stream("my-tap", "users").expire(), "what expires is not clear"),
        (lambda lake: lake.stream("my-tap", "users").expire(keep_versions=1, before_offset=1), "is not clear"),
        (lambda lake: lake.stream("my-tap", "users").erase("id in @no-such-file"), "where: cannot read"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(people: Lake, call: Callable[[Lake], Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        call(people)


def test_a_stream_that_cannot_be_worked_on_stops_no_other(people: Lake) -> None:
    people.storage.put(layout.manifest_key("my-tap", "broken"), b"{")
    for result in (people.gc(), people.vacuum(), people.rebuild(), people.verify()):
        assert [finding.key.split("/")[2] for finding in result.findings] == ["broken"]
    assert [each.stream for each in people.gc().streams] == ["users"]
    dropped = people.drop("my-tap")
    assert [(each.stream, each.dropped, each.error.kind) for each in dropped.failed] == [
        ("broken", False, "corrupt_object")
    ]
    assert [each.stream for each in dropped.streams] == ["users"]
