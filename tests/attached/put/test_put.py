"""One file becomes one object, or an error that says what to do; nothing stays in the spool."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from singerlake.attached import put as module
from singerlake.attached.keep import Keeper
from singerlake.attached.put import IN_MEMORY, PutFile, Putter, find_files
from singerlake.attached.sources import local
from singerlake.clock import random_id
from singerlake.errors import (
    AccessDeniedError,
    ChangedFileError,
    CorruptObjectError,
    SettingError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
)
from singerlake.format import layout
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.model import Retired
from singerlake.storage.local.storage import LocalStorage
from tests.attached.lakes import sha256
from tests.fakes import START, FakeClock
from tests.format.state.test_fold import born

SMALL, LARGE = b"small", b"0123456789abcdef" * (IN_MEMORY // 16) + b"!"
BODIES = pytest.mark.parametrize("body", [SMALL, LARGE, b"", LARGE[:-1]], ids=["small", "large", "empty", "limit"])


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=FakeClock(), ids=random_id)


@pytest.fixture
def putter(storage: LocalStorage, tmp_path: Path) -> Putter:
    (tmp_path / "spool").mkdir()
    return Putter(Keeper(storage, FakeClock()), "t", "s", tmp_path / "spool", random_id)


def keep(putter: Putter, path: Path, *gone: Retired) -> PutFile:
    [found] = find_files([str(path)], recursive=False, lake=None)
    try:
        return putter.put(found, lambda: msgspec.structs.replace(born(), retired=AppendOnlyList(gone)))
    finally:
        assert os.listdir(putter.folder) == []


def key(body: bytes, copy: int = 1) -> str:
    return layout.stream_prefix("t", "s") + layout.attached_path(sha256(body), copy)


def retired(body: bytes, copy: int) -> Retired:
    path = layout.attached_path(sha256(body), copy)
    return Retired(id=layout.attached_name(sha256(body), copy), path=path, by=None, since="2026-01-01T00:00:00Z")


@BODIES
def test_the_bytes_are_kept_once_under_their_checksum(putter: Putter, tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(body)
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    kept = keep(putter, path)
    modified = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert kept == PutFile("a.jpg", len(body), sha256(body), "image/jpeg", 1, modified, START, True)
    stored = putter.keeper.storage.get(key(body))
    assert stored is not None
    assert stored.body == body
    assert path.read_bytes() == body
    assert not keep(putter, path).new


@BODIES
def test_another_copy_is_another_object(putter: Putter, tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(body)
    keep(putter, path)
    kept = keep(putter, path, retired(body, 1), retired(body, 2))
    assert (kept.copy, kept.new) == (3, True)
    assert putter.keeper.storage.head(key(body, 3)) is not None


def test_an_object_of_another_size_under_that_name_is_refused(putter: Putter, tmp_path: Path) -> None:
    path = tmp_path / "a"
    for body in (SMALL, LARGE):
        path.write_bytes(body)
        putter.keeper.storage.put(key(body), b"another")
        with pytest.raises(CorruptObjectError, match="has 7 bytes"):
            keep(putter, path)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shorten(path: Path) -> None:
    os.truncate(path, 1)


def rewrite(path: Path) -> None:
    size = path.stat().st_size
    path.write_bytes(b"x" * size)
    os.utime(path, ns=(0, 1))


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have something happen once, before the first bytes of a file are read."""
    read, waiting = local.FileStream.read, [act]

    def acting(self: local.FileStream, size: int) -> bytes:
        while waiting:
            waiting.pop()()
        return read(self, size)

    monkeypatch.setattr(local.FileStream, "read", acting)


@BODIES
@pytest.mark.parametrize("change", [append, shorten, rewrite])
def test_a_file_that_changes_while_it_is_read_is_refused(
    putter: Putter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], body: bytes
) -> None:
    path = tmp_path / "a"
    path.write_bytes(body)
    meanwhile(monkeypatch, lambda: change(path))
    with pytest.raises(ChangedFileError, match=r"changed while it was read; put it again when nothing writes to it"):
        keep(putter, path)
    assert list(putter.keeper.storage.list("")) == []


@BODIES
def test_a_file_that_another_takes_the_place_of_is_kept_as_it_was(
    putter: Putter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(body)
    other.write_bytes(b"another")
    meanwhile(monkeypatch, lambda: os.replace(other, path))
    assert keep(putter, path).sha256 == sha256(body)


def test_a_file_that_is_gone_since_it_was_found_is_refused(putter: Putter, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(SMALL)
    [found] = find_files([str(path)], recursive=False, lake=None)
    path.unlink()
    with pytest.raises(ChangedFileError):
        putter.put(found, born)
    os.mkfifo(path)
    with pytest.raises(SettingError, match="this is a FIFO"):
        putter.put(found, born)
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingError, match="not a regular file"):
        putter.put(found, born)


@pytest.mark.parametrize(
    ("number", "expected", "message"),
    [
        (errno.EACCES, AccessDeniedError, "this file cannot be read; check its permissions"),
        (errno.EIO, StorageUnavailableError, "this file cannot be read: input/output error; check its disk"),
    ],
)
@pytest.mark.parametrize("opening", [True, False])
def test_a_file_that_cannot_be_read_says_why(
    putter: Putter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    expected: type[SingerlakeError],
    message: str,
    opening: bool,
) -> None:
    path = tmp_path / "a"
    path.write_bytes(LARGE)

    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    if opening:
        monkeypatch.setattr(os, "open", failing)
    else:

        def raising(self: local.FileStream, size: int) -> bytes:
            error = OSError(number, os.strerror(number))
            raise local._unreadable(error) from error

        monkeypatch.setattr(local.FileStream, "read", raising)

    with pytest.raises(expected, match=message):
        keep(putter, path)


def test_a_full_spool_says_so(putter: Putter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(LARGE)
    opened = Path.open

    def full(self: Path, mode: str = "r", **more: object) -> object:
        return opened(Path("/dev/full"), "wb") if mode == "xb" else opened(self, mode, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StorageFullError, match=r"no space is left for the spool.*set spool_dir"):
        keep(putter, path)


@pytest.mark.parametrize(("seconds", "year"), [(1 << 40, 9999), (-(1 << 40), 1), (-1, 1969)])
def test_a_time_that_no_year_holds_is_the_nearest_one(
    putter: Putter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, year: int
) -> None:
    assert module._moment(seconds * 10**9).year == year


def test_a_large_file_takes_little_memory(putter: Putter, tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(16 * IN_MEMORY)
    tracemalloc.start()
    try:
        keep(putter, path)
        assert tracemalloc.get_traced_memory()[1] < 2 * IN_MEMORY
    finally:
        tracemalloc.stop()
