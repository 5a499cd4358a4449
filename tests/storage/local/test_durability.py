"""What a write to a local disk flushes, and that others wait for the disk beside it, not after it."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.adapters import open_storage
from singerlake.clock import SystemClock, random_id
from singerlake.format import layout
from singerlake.storage.keys import FLOCK_NAME
from singerlake.storage.local import storage as storage_module
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Refused, Written


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)


def test_every_folder_on_the_way_is_flushed_before_a_write_returns(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[str] = set()
    real = os.fsync

    def recording(descriptor: int) -> None:
        flushed.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    storage.put("raw/tap/x", b"1")
    root = os.path.realpath(storage.url)
    assert {os.path.dirname(root), root, f"{root}/raw", f"{root}/raw/tap"} <= flushed


def test_a_second_folder_is_flushed_with_what_holds_it_alone(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("raw/tap/one/x", b"1")
    flushed: list[str] = []
    monkeypatch.setattr(storage_module, "sync_folder", lambda folder: flushed.append(str(folder)))
    storage.put("raw/tap/two/v/x", b"1")
    assert sorted(flushed) == [f"{storage.url}/raw/tap", f"{storage.url}/raw/tap/two"]


def test_a_folder_that_another_process_made_is_flushed_too(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(storage.url, "raw/tap").mkdir(parents=True)
    flushed: list[str] = []
    monkeypatch.setattr(storage_module, "sync_folder", lambda folder: flushed.append(str(folder)))
    storage.put("raw/tap/x", b"1")
    assert sorted(flushed) == [storage.url, f"{storage.url}/raw"]


@pytest.mark.parametrize("operation", ["put", "refused", "upload", "compose", "delete"])
def test_others_may_write_while_a_folder_is_flushed_and_no_outcome_is_told_before(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    storage.put("raw/x", b"1")
    (tmp_path / "spooled").write_bytes(b"2")
    flushed: list[str] = []

    def flush(path: str) -> None:
        with open(Path(storage.url, FLOCK_NAME)) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        flushed.append(path)

    monkeypatch.setattr(storage_module, "settle", flush)
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: storage.put("raw/x", b"2"),
        "refused": lambda: storage.put("raw/x", b"2", if_absent=True),
        "upload": lambda: storage.upload("raw/x", tmp_path / "spooled"),
        "compose": lambda: storage.compose("raw/x", [b"2"]),
        "delete": lambda: storage.delete("raw/x"),
    }
    calls[operation]()
    assert flushed == [f"{storage.url}/raw/x"]


def test_the_folder_of_what_no_crash_has_to_leave_is_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path, clock=SystemClock(), ids=random_id, fleeting=lambda key: key.endswith("/lock"))
    storage.put("raw/x", b"1")
    flushed: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(stat.S_ISREG(os.fstat(descriptor).st_mode)))
    written = storage.put("raw/lock", b"1", if_absent=True)
    assert isinstance(written, Written)
    assert isinstance(storage.put("raw/lock", b"2", if_absent=True), Refused)
    assert storage.delete("raw/lock", if_match=written.etag)
    assert flushed == [True, True]
    storage.put("raw/y", b"1")
    assert flushed == [True, True, True, False]


def test_a_lock_is_such_an_object_and_a_manifest_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(str(tmp_path))
    manifest = layout.manifest_key("tap", "stream")
    for key in (manifest, layout.version_lock_key("tap", "stream", "v"), layout.stream_lock_key("tap", "stream")):
        storage.put(key, b"1")
        flushed: list[int] = []
        monkeypatch.setattr(os, "fsync", flushed.append)
        storage.put(key, b"2")
        assert len(flushed) == (2 if key == manifest else 1)
        monkeypatch.undo()
