"""One file becomes one object, or an error that says what to do; nothing stays in the spool."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from singerlake.attached.put import keep as module
from singerlake.attached.put.find import find_files
from singerlake.attached.put.keep import IN_MEMORY, Keeper, Kept
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
from singerlake.storage.local.storage import LocalStorage
from tests.attached.lakes import sha256
from tests.fakes import START, FakeClock

SMALL, LARGE = b"small", b"0123456789abcdef" * (IN_MEMORY // 16) + b"!"
BODIES = pytest.mark.parametrize("body", [SMALL, LARGE, b"", LARGE[:-1]], ids=["small", "large", "empty", "limit"])


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=FakeClock(), ids=random_id)


@pytest.fixture
def keeper(storage: LocalStorage, tmp_path: Path) -> Keeper:
    (tmp_path / "spool").mkdir()
    return Keeper(storage, "p/", tmp_path / "spool", FakeClock(), random_id)


def keep(keeper: Keeper, path: Path, *, copy: int = 1) -> Kept:
    [found] = find_files([str(path)], recursive=False, lake=None)
    try:
        return keeper.keep(found, lambda _: copy)
    finally:
        assert os.listdir(keeper.folder) == []


@BODIES
def test_the_bytes_are_kept_once_under_their_checksum(keeper: Keeper, tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(body)
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    kept = keep(keeper, path)
    modified = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert kept == Kept("a.jpg", len(body), sha256(body), "image/jpeg", 1, modified, START, True)
    stored = keeper.storage.get("p/" + layout.attached_path(sha256(body), 1))
    assert stored is not None
    assert stored.body == body
    assert path.read_bytes() == body
    assert not keep(keeper, path).new


@BODIES
def test_another_copy_is_another_object(keeper: Keeper, tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(body)
    keep(keeper, path)
    kept = keep(keeper, path, copy=3)
    assert (kept.copy, kept.new) == (3, True)
    assert keeper.storage.head("p/" + layout.attached_path(sha256(body), 3)) is not None


def test_an_object_of_another_size_under_that_name_is_refused(keeper: Keeper, tmp_path: Path) -> None:
    path = tmp_path / "a"
    for body in (SMALL, LARGE):
        path.write_bytes(body)
        keeper.storage.put("p/" + layout.attached_path(sha256(body), 1), b"another")
        with pytest.raises(CorruptObjectError, match="has 7 bytes"):
            keep(keeper, path)


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
    read, waiting = module._piece, [act]

    def acting(*arguments: object) -> bytes:
        while waiting:
            waiting.pop()()
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_piece", acting)


@BODIES
@pytest.mark.parametrize("change", [append, shorten, rewrite])
def test_a_file_that_changes_while_it_is_read_is_refused(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], body: bytes
) -> None:
    path = tmp_path / "a"
    path.write_bytes(body)
    meanwhile(monkeypatch, lambda: change(path))
    with pytest.raises(ChangedFileError, match=r"changed while it was read; put it again when nothing writes to it"):
        keep(keeper, path)
    assert list(keeper.storage.list("")) == []


@BODIES
def test_a_file_that_another_takes_the_place_of_is_kept_as_it_was(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(body)
    other.write_bytes(b"another")
    meanwhile(monkeypatch, lambda: os.replace(other, path))
    assert keep(keeper, path).sha256 == sha256(body)


def test_a_file_that_is_gone_since_it_was_found_is_refused(keeper: Keeper, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(SMALL)
    [found] = find_files([str(path)], recursive=False, lake=None)
    path.unlink()
    with pytest.raises(ChangedFileError):
        keeper.keep(found, lambda _: 1)
    os.mkfifo(path)
    with pytest.raises(SettingError, match="this is a FIFO"):
        keeper.keep(found, lambda _: 1)
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingError, match="not a regular file"):
        keeper.keep(found, lambda _: 1)


@pytest.mark.parametrize(
    ("number", "expected", "message"),
    [
        (errno.EACCES, AccessDeniedError, "this file cannot be read; check its permissions"),
        (errno.EIO, StorageUnavailableError, "this file cannot be read: input/output error; check its disk"),
    ],
)
@pytest.mark.parametrize("opening", [True, False])
def test_a_file_that_cannot_be_read_says_why(
    keeper: Keeper,
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
        meanwhile(monkeypatch, lambda: monkeypatch.setattr(module, "_piece", lambda s, f, n: raising(f)))

    def raising(file: object) -> bytes:
        raise module._unreadable(file, OSError(number, os.strerror(number)))  # type: ignore[arg-type]

    with pytest.raises(expected, match=message):
        keep(keeper, path)


def test_a_full_spool_says_so(keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(LARGE)
    opened = Path.open

    def full(self: Path, mode: str = "r", **more: object) -> object:
        return opened(Path("/dev/full"), "wb") if mode == "xb" else opened(self, mode, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StorageFullError, match=r"no space is left for the spool.*set spool_dir"):
        keep(keeper, path)


@pytest.mark.parametrize(("seconds", "year"), [(1 << 40, 9999), (-(1 << 40), 1), (-1, 1969)])
def test_a_time_that_no_year_holds_is_the_nearest_one(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, year: int
) -> None:
    assert module._moment(seconds * 10**9).year == year


def test_a_large_file_takes_little_memory(keeper: Keeper, tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(16 * IN_MEMORY)
    tracemalloc.start()
    try:
        keep(keeper, path)
        assert tracemalloc.get_traced_memory()[1] < 2 * IN_MEMORY
    finally:
        tracemalloc.stop()
