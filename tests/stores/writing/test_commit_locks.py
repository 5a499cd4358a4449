"""The locks of a commit and its first upload: what waits for what, and what an upload does if no lock comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import LockTimeoutError
from singerlake.format import layout
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import StreamSchema
from singerlake.lock_file import Lock, LockSettings
from singerlake.stores.writer import CommitLocks, Upload
from singerlake.work.bounded_map import BoundedMap
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage, Step
from tests.stores.writing import test_writer

VERSION_LOCK, STREAM_LOCK = "raw/t/s/v/singerlake.lock", "raw/t/s/singerlake.lock"


class Place:
    """A storage with a file that waits for it; ``steps`` are what was done to them, in their order."""

    def __init__(self, folder: Path, *, ignore_conditions: bool = False) -> None:
        self.clock = FakeClock()
        self.ids = counting_ids()
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids, ignore_conditions=ignore_conditions)
        self.storage.hook = self.note
        self.steps: list[str] = []
        self.first = Upload(
            folder / "spool",
            NewFile(
                id="i", path="v/file", version="v", first="2026", last="2026", messages=1, records=1, raw_bytes=1,
                bytes=4, sha256="", members=((0, 0, 0),)
            ),
            StreamSchema(schema={}),
        )  # fmt: skip
        self.first.spool.write_bytes(b"1234")
        self.prepared = threading.Event()
        self.sent = threading.Event()

    def note(self, step: Step) -> None:
        if step.key in (VERSION_LOCK, STREAM_LOCK, "file"):
            self.steps.append(f"{step.operation} {step.key.rpartition('/')[2]}{' done' if step.done else ''}")

    def lock(self, key: str = VERSION_LOCK, writer: str = "ada", max_wait: float = 5) -> Lock:
        settings = LockSettings(max_wait=max_wait, stale_after=1000, refresh=100)
        return Lock(self.storage, key, writer, settings, self.clock, self.ids)

    def upload(self, *locks: Lock, beside: bool) -> None:
        """As a writer does it, under ``locks``."""
        taking = CommitLocks(locks)
        with ThreadPoolExecutor(2) as pool:

            def send(upload: Upload) -> None:
                self.prepared.set()
                self.storage.upload("file", upload.spool, taking.wait)
                self.sent.set()

            uploading = BoundedMap(send, pool)
            begin = partial(uploading.begin, self.first)
            with uploading, taking.held(beside=begin if beside else None):
                uploading.all(() if beside else (self.first,))
                assert all(lock.is_held for lock in locks)
                self.storage.hook = lambda _: None


def test_a_file_is_prepared_while_its_lock_is_taken_and_sent_while_that_is_read_back(tmp_path: Path) -> None:
    place = Place(tmp_path)

    def hook(step: Step) -> None:
        place.note(step)
        if step == Step("put", VERSION_LOCK, False):
            assert place.prepared.wait(60)
        if step == Step("get", VERSION_LOCK, False):
            assert place.sent.wait(60)

    place.storage.hook = hook
    place.upload(place.lock(), beside=True)
    written = ["put singerlake.lock", "put singerlake.lock done", "get singerlake.lock"]
    assert place.steps == [*written, "upload file", "upload file done", "get singerlake.lock done"]


def test_where_the_lock_comes_first_nothing_is_prepared_before(tmp_path: Path) -> None:
    place = Place(tmp_path)

    def hook(step: Step) -> None:
        place.note(step)
        assert place.prepared.is_set() == (step.operation == "upload")

    place.storage.hook = hook
    place.upload(place.lock(), beside=False)
    assert place.steps[-3:] == ["get singerlake.lock done", "upload file", "upload file done"]


def test_where_conditions_mean_nothing_a_file_waits_until_its_lock_is_read_back(tmp_path: Path) -> None:
    place = Place(tmp_path, ignore_conditions=True)
    place.upload(place.lock(), beside=True)
    assert place.steps[-3:] == ["get singerlake.lock done", "upload file", "upload file done"]


def test_of_several_locks_a_file_waits_for_the_last(tmp_path: Path) -> None:
    place = Place(tmp_path)

    def hook(step: Step) -> None:
        place.note(step)
        assert step != Step("put", STREAM_LOCK, False) or not place.sent.wait(0.05)

    place.storage.hook = hook
    place.upload(place.lock(), place.lock(STREAM_LOCK), beside=True)
    assert place.sent.is_set()


@pytest.mark.parametrize("beside", [False, True])
def test_without_a_lock_a_file_is_sent_at_once(tmp_path: Path, beside: bool) -> None:
    place = Place(tmp_path)
    place.upload(beside=beside)
    assert place.steps == ["upload file", "upload file done"]


@pytest.mark.parametrize("beside", [False, True])
def test_a_file_whose_lock_another_writer_keeps_is_not_sent(tmp_path: Path, beside: bool) -> None:
    place = Place(tmp_path)
    slow = place.lock(writer="slow")
    slow.acquire()
    place.clock.on_sleep = lambda _: slow.refresh()
    with pytest.raises(LockTimeoutError, match="writer slow"):
        place.upload(place.lock(), beside=beside)
    assert place.prepared.is_set() == beside
    assert not place.sent.is_set()
    assert place.storage.head("file") is None
    assert slow.is_held


def test_where_no_thread_can_be_started_the_upload_does_not_wait_for_ever(tmp_path: Path) -> None:
    """An executor queues the work first, so that a thread that it has already does it all the same."""

    class Full(ThreadPoolExecutor):
        def submit(self, *work: Any, **arguments: Any) -> Any:
            queued.append(super().submit(*work, **arguments))
            raise RuntimeError("can't start new thread")

    place = Place(tmp_path)
    queued: list[Future[object]] = []
    with Full(1) as pool:
        taking = CommitLocks([place.lock()])
        uploading = BoundedMap[Upload](lambda _: taking.wait(), pool)
        try:
            beside = partial(uploading.begin, place.first)
            with pytest.raises(RuntimeError, match="new thread"), uploading, taking.held(beside=beside):
                pass
            assert "new thread" in str(queued[0].exception(10))
        finally:
            taking._note_taken()
    assert place.storage.head(VERSION_LOCK) is None


def test_a_lock_of_a_writer_that_died_is_taken_over_before_the_file_is_sent(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.lock(writer="dead").acquire()
    place.steps.clear()
    place.upload(place.lock(max_wait=5000), beside=True)
    assert place.steps.index("upload file") > len(place.steps) - 1 - place.steps[::-1].index("put singerlake.lock")


@pytest.mark.parametrize("near", [False, True])
def test_a_writer_sends_a_far_file_while_its_lock_is_read_back_and_commits_it_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    place = test_writer.Place(tmp_path)
    key = layout.version_lock_key("t", "s", test_writer.VERSION)
    called, sent, steps = threading.Event(), threading.Event(), list[str]()
    upload = MemoryStorage.upload

    def note(storage: MemoryStorage, key: str, path: Path, ready: Callable[[], object]) -> int:
        called.set()
        size = upload(storage, key, path, ready)
        steps.append("sent")
        sent.set()
        return size

    def hook(step: Step) -> None:
        if step == Step("put", key, False):
            assert called.wait(0.05 if near else 60) != near
            assert not sent.wait(0.05)
        if step == Step("get", key, False) and not near:
            assert sent.wait(60)
        if step == Step("get", key, True):
            assert sent.is_set() != near
            steps.append("read back")
        if step.operation == "put" and step.key.endswith("manifest.json") and not step.done:
            steps.append("committed")

    monkeypatch.setattr(MemoryStorage, "near", property(lambda _: near))
    monkeypatch.setattr(MemoryStorage, "upload", note)
    with ThreadPoolExecutor(2) as pool:
        writer = place.writer()
        writer.sending = pool
        writer.open()
        place.storage.hook = hook
        file = place.publish(writer)
    assert steps == (["read back", "sent", "committed"] if near else ["sent", "read back", "committed"])
    assert place.listed() == [file.id]
