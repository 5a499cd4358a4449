"""The parts that a run is put together from, where a whole run cannot show their rules one by one."""

from __future__ import annotations

import errno
import gzip
import logging
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.errors import MissingFileError, StorageFullError
from singerlake.format.extra_fields import FileHeader
from singerlake.format.state.files.data_file import NewFile
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member
from singerlake.storage.local.storage import LocalStorage
from target_singerlake.files.growing import Compressor, GrowingFile, LakeId
from target_singerlake.files.open_files import OpenFiles
from target_singerlake.files.publishing import Publisher
from target_singerlake.input.schema import schema_of
from target_singerlake.progress import EVERY_SECONDS, Progress
from target_singerlake.settings import PROPERTIES, settings_of
from target_singerlake.state import HeldStates
from target_singerlake.target import keep_freed_memory
from tests.fakes import START
from tests.stores.writing.confirming import on_confirm
from tests.target.support import environment, ingest, kept_ids, records, schema


def test_after_an_error_nothing_passes_for_compressed() -> None:
    compressor = Compressor(1, 64 << 20)
    done: list[str] = []

    def fail() -> None:
        raise OSError("no more")

    first = compressor.submit(1, lambda: done.append("first"))
    bad = compressor.submit(1, fail)
    with pytest.raises(OSError, match="no more"):
        bad.result()
    assert first.exception() is None
    with pytest.raises(OSError, match="no more"):
        compressor.submit(1, lambda: done.append("later"))
    with pytest.raises(OSError, match="no more"):
        compressor.check()
    compressor.close()
    assert done == ["first"]


def test_files_that_are_whole_while_one_is_uploaded_are_committed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload, publish = LocalStorage.upload, Publisher.publish
    begun, all_whole, whole, committed = threading.Event(), threading.Event(), [], []

    def wait_for_all(self: LocalStorage, key: str, path: Path, ready: Callable[[], object]) -> int:
        begun.set()
        assert all_whole.wait(60)
        return upload(self, key, path, ready)

    def count(self: Publisher, growing: GrowingFile) -> None:
        assert not whole or begun.wait(60)
        publish(self, growing)
        growing.ready.result()
        whole.append(growing)
        if len(whole) == 3:
            all_whole.set()

    monkeypatch.setattr(LocalStorage, "upload", wait_for_all)
    monkeypatch.setattr(Publisher, "publish", count)
    on_confirm(monkeypatch, behind=lambda files: committed.append([file.messages for file in files]))
    ingest(tmp_path, [schema(), *records(1, 2, 3, 4, 5)], max_file_records=2)
    assert committed == [[2, 2, 1]]
    assert kept_ids(tmp_path) == [1, 2, 3, 4, 5]


def test_far_files_that_are_whole_while_one_is_uploaded_are_uploaded_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = LocalStorage.upload
    together, committed = threading.Barrier(3, timeout=60), []

    def meet(self: LocalStorage, key: str, path: Path, ready: Callable[[], object]) -> int:
        together.wait()
        return upload(self, key, path, ready)

    monkeypatch.setattr(LocalStorage, "near", property(lambda _: False))
    monkeypatch.setattr(LocalStorage, "upload", meet)
    on_confirm(monkeypatch, behind=lambda files: committed.append([file.messages for file in files]))
    ingest(tmp_path, [schema(), *records(1, 2, 3, 4, 5)], max_file_records=2)
    assert committed == [[2, 2, 1]]
    assert kept_ids(tmp_path) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_found", [True, False])
def test_the_spools_of_far_files_go_beside_the_look_for_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_found: bool
) -> None:
    (spool_dir := tmp_path / "spools").mkdir()
    remove, left = Path.unlink, []
    gone = threading.Event()

    def send(self: LocalStorage, key: str, path: Path, ready: Callable[[], object]) -> int:
        ready()
        body = path.read_bytes()
        self.put(key, body)
        left.append(path)
        return len(body)

    def note(path: Path, missing_ok: bool = False) -> None:
        remove(path, missing_ok=missing_ok)
        if path in left:
            gone.set()

    def look(files: Sequence[NewFile]) -> None:
        assert gone.wait(60)
        if not is_found:
            raise MissingFileError("a file is gone")

    monkeypatch.setattr(LocalStorage, "near", property(lambda _: False))
    monkeypatch.setattr(LocalStorage, "upload", send)
    monkeypatch.setattr(Path, "unlink", note)
    on_confirm(monkeypatch, before=look)
    with nullcontext() if is_found else pytest.raises(MissingFileError):
        ingest(tmp_path / "lake", [schema(), *records(1, 2, 3)], spool_dir=str(spool_dir))
    assert len(left) == 1
    assert os.listdir(spool_dir) == []


@pytest.mark.parametrize("seconds", [-60, 0, 60])
def test_a_clock_that_is_set_back_gives_no_file_that_ends_before_it_begins(seconds: int) -> None:
    received = START, START + timedelta(seconds=seconds)
    file = GrowingFile(
        schema=None,  # type: ignore[arg-type]
        header=FileHeader(id="f", created="", run="r", seq=0),
        path=Path("f"),
        epochs=[0],
        opened=0.0,
        first_received=received[0],
        last_received=received[1],
        level=1,
        lake_id=known_id(),
    )
    assert [file.first, file.last] == sorted(received)


def test_work_that_was_queued_behind_an_error_fails_too() -> None:
    compressor = Compressor(1, 64 << 20)
    read, write = os.pipe()

    def fail() -> None:
        os.read(read, 1)
        raise OSError("no more")

    compressor.submit(1, fail)
    queued = compressor.submit(1, lambda: None)
    os.write(write, b"x")
    assert isinstance(queued.exception(), OSError)
    compressor.close()
    os.close(read)
    os.close(write)


def test_where_one_thread_fails_another_ends_its_work_and_nothing_later_passes() -> None:
    compressor = Compressor(2, 64 << 20)
    fails, ends = threading.Event(), threading.Event()

    def fail() -> None:
        fails.wait()
        raise OSError("no more")

    other = compressor.submit(1, lambda: require(ends.wait()))
    bad = compressor.submit(1, fail)
    queued = compressor.submit(1, lambda: None)
    fails.set()
    assert isinstance(bad.exception(), OSError)
    assert isinstance(queued.exception(), OSError)
    assert not other.done()
    ends.set()
    assert other.exception() is None
    with pytest.raises(OSError, match="no more"):
        compressor.submit(1, lambda: None)
    compressor.close()


def known_id() -> LakeId:
    """That of a lake that tells it at once."""
    lake_id = LakeId(lambda: None, pytest.fail, 64 << 20)
    lake_id.wait()
    return lake_id


def require(held: bool) -> None:
    assert held


def growing(folder: Path, name: str) -> GrowingFile:
    return GrowingFile(
        schema=schema_of(b'{"type":"SCHEMA","stream":"s","schema":{"properties":{}}}\n', 1),
        header=FileHeader(id=name, created="", run="r", seq=0),
        path=folder / name,
        epochs=[0],
        opened=0.0,
        first_received=START,
        last_received=START,
        level=1,
        lake_id=known_id(),
    )


def hand_over(compressor: Compressor, file: GrowingFile, *lines: bytes) -> None:
    """Each line as a member."""
    for line in lines:
        before = file.ready
        file.messages += 1
        file.ready = compressor.submit(
            len(line), partial(file.compressed, [line], 1, 1), partial(file.add_member, before=before)
        )


def add_member(file: GrowingFile, line: bytes, before: Future[None]) -> None:
    file.add_member(file.compressed([line], 1, 1), before)


def test_members_compressed_at_once_are_in_the_file_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compressor, file = Compressor(2, 64 << 20), growing(tmp_path, "f")
    second = threading.Event()

    def compress(raw: bytes, level: int, **more: Any) -> bytes:
        if raw == b"1\n":
            second.wait()
        member = compress_member(raw, level, **more)
        if raw == b"2\n":
            second.set()
        return member

    monkeypatch.setattr("target_singerlake.files.growing.compress_member", compress)
    hand_over(compressor, file, *(b"%d\n" % number for number in range(1, 9)))
    file.ready.result()
    compressor.close()
    assert gzip.decompress(file.path.read_bytes()).split(b"\n")[1:-1] == [b"%d" % number for number in range(1, 9)]
    assert file.spool is not None
    assert file.spool.messages == 8


def test_a_file_whose_disk_is_full_gets_no_later_member_and_others_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compressor, full, other = Compressor(3, 64 << 20), growing(tmp_path, "full"), growing(tmp_path, "other")
    go_on = threading.Event()
    append = Spool.append

    def disk(self: Spool, member: bytes, **more: int) -> None:
        if self.path == other.path:
            go_on.wait()
        if self.path == full.path:
            raise OSError(errno.ENOSPC, "full")
        append(self, member, **more)

    monkeypatch.setattr(Spool, "append", disk)
    hand_over(compressor, other, b"1\n")
    hand_over(compressor, full, b"1\n")
    before = full.ready
    with pytest.raises(StorageFullError):
        before.result()
    go_on.set()
    other.ready.result()
    assert other.spool is not None
    assert other.spool.messages == other.messages
    with pytest.raises(StorageFullError):
        add_member(full, b"2\n", before)
    with pytest.raises(StorageFullError):
        hand_over(compressor, other, b"2\n")
    assert full.spool is not None
    assert full.spool.messages == 0
    compressor.close()


@pytest.mark.parametrize(("threads", "memory"), [(1, 1 << 20), (4, 1 << 20), (2, 64 << 20), (4, 10 << 20)])
def test_what_waits_and_what_is_compressed_keep_within_the_memory_together(
    tmp_path: Path, threads: int, memory: int
) -> None:
    compressor, block_bytes = Compressor(threads, memory), memory // 8
    files = OpenFiles(
        settings_of({"lake_root": "x", "tap_id": "t", "max_memory_bytes": memory}, {}),
        run_id="r",
        folder=tmp_path,
        ids=random_id,
        lake_id=known_id(),
        compressor=compressor,
        states=HeldStates(),
        opened=lambda stream: None,
        closed=lambda file: None,
    )
    files.now, files.monotonic = START, 0.0
    names = [f"s{number}" for number in range(5)]
    for name in names:
        files.use_schema(schema_of(b'{"type":"SCHEMA","stream":"%s","schema":{"properties":{}}}' % name.encode(), 1))
    data = b"x" * (memory // 100) + b"\n"
    for number in range(400):
        files.add(names[number % 5 and number % 3], data, 1, [])
        files.keep_within_memory(block_bytes)
        assert files.buffered + compressor.in_flight + 2 * block_bytes <= memory
    files.close_all()
    compressor.wait(0)
    assert compressor.limit >= min(MEMBER_BYTES, memory // 2)
    compressor.close()


def test_progress_is_told_at_least_every_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    progress = Progress(logging.getLogger("target-singerlake"), 0.0)
    progress.seen("users")
    for second in range(300):
        progress.records("users", 10)
        progress.read(1000)
        progress.tick(float(second))
    said = [entry.getMessage() for entry in caplog.records if "records read" in entry.getMessage()]
    assert len(said) == 299 // int(EVERY_SECONDS)
    assert EVERY_SECONDS <= 30
    assert said[0] == "260 records read (26.0 kB, 25 s), 0 files committed"


FREED = """
import resource
from target_singerlake.target import keep_freed_memory
from target_singerlake.settings import MEMORY_BYTES

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        waiting = [bytes(5000) for _ in range(4000)]
        del waiting
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
keep_freed_memory(MEMORY_BYTES)
print(given_back, faults())
"""


def test_what_waited_and_was_freed_is_not_paged_in_again() -> None:
    ran = subprocess.run([sys.executable, "-c", FREED], env=environment(), capture_output=True, text=True, check=True)
    given_back, kept = map(int, ran.stdout.split())
    if platform.libc_ver()[0] == "glibc":
        assert kept < given_back / 4


def test_another_c_library_keeps_its_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    keep_freed_memory(1)


def test_null_and_missing_settings_mean_the_default() -> None:
    wanted = {"lake_root": "x", "tap_id": "t"}
    nulls = {name: None for name in PROPERTIES if name not in wanted}
    assert settings_of({**nulls, **wanted}, {}) == settings_of(wanted, {})
    zero = settings_of({**wanted, "max_file_bytes": 0, "max_file_age_seconds": 0}, {})
    assert (zero.max_file_bytes, zero.max_file_age_seconds) == (0, 0)
