"""What a local disk adds to the storage contract: durability, errors of the operating system, links, strangers."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.clock import SystemClock, random_id
from singerlake.storage.keys import FLOCK_NAME
from singerlake.storage.local import files
from singerlake.storage.local import storage as local
from singerlake.storage.local.storage import ABANDONED_AFTER, LocalStorage
from singerlake.storage.port import Refused, Written
from tests.processes.forked import FORKED


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)


def keys(storage: LocalStorage, prefix: str = "") -> list[str]:
    return [entry.key for entry in storage.list(prefix)]


def written(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


def test_a_root_that_does_not_exist_reads_as_empty_and_is_not_made_by_reading(storage: LocalStorage) -> None:
    assert storage.get("a") is None
    assert storage.head("a/b") is None
    assert keys(storage) == []
    assert storage.list_folder("").folders == ()
    assert storage.delete("a") is True
    assert not Path(storage.url).exists()


def test_the_first_write_makes_the_root_and_its_parents(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "not" / "yet" / "there", clock=SystemClock(), ids=random_id)
    storage.put("raw/tap/x", b"1")
    assert (tmp_path / "not/yet/there/raw/tap/x").read_bytes() == b"1"


def test_nothing_but_objects_is_listed_after_writes(storage: LocalStorage) -> None:
    storage.put("raw/x", b"1", if_absent=True)
    assert keys(storage) == ["raw/x"]
    folder = storage.list_folder("")
    assert (folder.entries, folder.folders) == ((), ("raw/",))
    assert sorted(os.listdir(Path(storage.url) / "raw")) == ["x"]


def test_an_emptied_folder_is_no_longer_listed(storage: LocalStorage) -> None:
    storage.put("raw/tap/x", b"1")
    storage.delete("raw/tap/x")
    assert storage.list_folder("").folders == ()


def test_a_folder_that_somebody_removed_is_made_again(storage: LocalStorage) -> None:
    storage.put("raw/tap/x", b"1")
    storage.delete("raw/tap/x")
    (Path(storage.url) / "raw/tap").rmdir()
    storage.put("raw/tap/x", b"2")
    assert keys(storage) == ["raw/tap/x"]


def test_the_etag_changes_although_inode_time_resolution_and_size_stay_the_same(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.utime

    def coarse(path: Path, ns: tuple[int, int]) -> None:
        real(path, ns=(ns[0], ns[1] // 2_000_000_000 * 2_000_000_000))

    monkeypatch.setattr(os, "utime", coarse)
    etags = [written(storage.put("x", b"same")) for _ in range(5)]
    times = [int(etag.split("-")[1], 16) for etag in etags]
    assert times == sorted(set(times))


def test_the_etag_changes_when_an_object_is_deleted_and_made_again(storage: LocalStorage) -> None:
    etags = set()
    for _ in range(50):
        etags.add(written(storage.put("x", b"same", if_absent=True)))
        storage.delete("x")
    assert len(etags) == 50


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, errors.StorageFullError),
        (errno.EDQUOT, errors.StorageFullError),
        (errno.EACCES, errors.AccessDeniedError),
        (errno.EPERM, errors.AccessDeniedError),
        (errno.EROFS, errors.AccessDeniedError),
        (errno.ENAMETOOLONG, errors.NameTooLongError),
        (errno.EIO, errors.StorageUnavailableError),
    ],
)
def test_an_error_before_the_rename_is_translated_and_leaves_the_old_object(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[errors.SingerlakeError]
) -> None:
    storage.put("raw/x", b"old")

    def fails(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(expected) as caught:
        storage.put("raw/x", b"new")
    monkeypatch.undo()
    assert "key='raw/x'" in str(caught.value)
    stored = storage.get("raw/x")
    assert stored is not None
    assert stored.body == b"old"
    assert os.listdir(Path(storage.url) / "raw") == ["x"]


def test_a_folder_that_cannot_be_flushed_after_the_rename_is_an_unknown_outcome(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.put("x", b"old")
    real = os.fsync

    def fails_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fails_for_folders)
    with pytest.raises(errors.UnknownOutcomeError):
        storage.put("x", b"new")
    with pytest.raises(errors.UnknownOutcomeError):
        storage.delete("x")


def test_a_name_the_file_system_cannot_hold_is_a_clear_error(storage: LocalStorage) -> None:
    with pytest.raises(errors.NameTooLongError, match="shorten"):
        storage.put("raw/" + "n" * 300, b"1")


def test_a_lake_root_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "lake").write_bytes(b"")
    storage = LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)
    assert storage.get("x") is None
    with pytest.raises(errors.CorruptObjectError):
        storage.put("x", b"1")


def test_a_folder_where_an_object_belongs_is_a_clear_error_and_no_object(storage: LocalStorage) -> None:
    storage.put("a/b", b"1")
    assert storage.get("a") is None
    assert storage.head("a") is None
    with pytest.raises(errors.CorruptObjectError):
        storage.put("a", b"2")
    with pytest.raises(errors.CorruptObjectError):
        storage.put("a/b/c", b"2")
    assert keys(storage) == ["a/b"]


@pytest.mark.parametrize("operation", ["get", "put", "delete", "list"])
def test_a_link_that_leads_out_of_the_lake_is_refused(storage: LocalStorage, tmp_path: Path, operation: str) -> None:
    storage.put("raw/x", b"1")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"s")
    (Path(storage.url) / "raw" / "link").symlink_to(tmp_path / "outside")
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: storage.get("raw/link/secret"),
        "put": lambda: storage.put("raw/link/new", b"1"),
        "delete": lambda: storage.delete("raw/link/secret"),
        "list": lambda: keys(storage),
    }
    with pytest.raises(errors.AccessDeniedError, match="link"):
        calls[operation]()
    assert os.listdir(tmp_path / "outside") == ["secret"]


@pytest.mark.parametrize("name", ["raw", "raw/tap", "raw/tap/v", "raw/tap/v/x"])
def test_a_place_that_becomes_a_link_is_refused_from_then_on(storage: LocalStorage, tmp_path: Path, name: str) -> None:
    storage.put("raw/tap/v/x", b"1")
    assert storage.open("raw/tap/v/x").read() == b"1"
    place = Path(storage.url) / name
    place.rename(tmp_path / "was")
    shutil.copytree(tmp_path / "was", tmp_path / "other") if name != "raw/tap/v/x" else (tmp_path / "other").touch()
    place.symlink_to(tmp_path / "other")
    for _ in range(2):
        with pytest.raises(errors.AccessDeniedError, match="link"):
            storage.open("raw/tap/v/x")
    place.unlink()
    (tmp_path / "was").rename(place)
    assert storage.open("raw/tap/v/x").read() == b"1"


@pytest.mark.parametrize("operation", ["put", "delete", "delete_all", "compose"])
def test_nothing_is_written_through_a_link_to_the_folder_that_was_there(
    storage: LocalStorage, tmp_path: Path, operation: str
) -> None:
    storage.put("raw/tap/x", b"1")
    assert storage.open("raw/tap/x").read() == b"1"
    (Path(storage.url) / "raw").rename(tmp_path / "outside")
    (Path(storage.url) / "raw").symlink_to(tmp_path / "outside")
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: storage.put("raw/tap/new", b"1"),
        "delete": lambda: storage.delete("raw/tap/x"),
        "delete_all": lambda: storage.delete_all(["raw/tap/x"]),
        "compose": lambda: storage.compose("raw/tap/new", [b"1"]),
    }
    with pytest.raises(errors.AccessDeniedError, match="link"):
        calls[operation]()
    assert os.listdir(tmp_path / "outside" / "tap") == ["x"]


def test_a_folder_that_is_made_again_is_read(storage: LocalStorage) -> None:
    storage.put("raw/tap/x", b"1")
    assert storage.open("raw/tap/x").read() == b"1"
    shutil.rmtree(Path(storage.url) / "raw")
    with pytest.raises(errors.MissingFileError):
        storage.open("raw/tap/x")
    storage.put("raw/tap/x", b"2")
    assert storage.open("raw/tap/x").read() == b"2"


def test_a_dangling_link_is_no_object(storage: LocalStorage) -> None:
    storage.put("raw/x", b"1")
    (Path(storage.url) / "raw" / ".#x").symlink_to("user@host.1234")
    assert keys(storage) == ["raw/x"]


def test_a_lock_file_that_is_a_link_is_not_followed(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("raw/x", b"1")
    place = Path(storage.url) / FLOCK_NAME
    place.unlink()
    place.symlink_to(tmp_path / "outside")
    with pytest.raises(errors.AccessDeniedError, match="link"):
        storage.put("raw/x", b"2")
    assert not (tmp_path / "outside").exists()


def test_a_root_behind_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    storage = LocalStorage(tmp_path / "lake", clock=SystemClock(), ids=random_id)
    storage.put("raw/x", b"1")
    assert keys(storage) == ["raw/x"]


def test_an_upload_on_the_same_file_system_moves_the_spool_with_the_mode_of_a_new_file(
    storage: LocalStorage, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(b"data")
    spool.chmod(0o600)
    inode = spool.stat().st_ino
    storage.upload("raw/data", spool)
    storage.put("raw/other", b"1")
    target = Path(storage.url) / "raw/data"
    assert target.stat().st_ino == inode
    assert target.stat().st_mode == (Path(storage.url) / "raw/other").stat().st_mode
    assert not spool.exists()


def test_an_upload_from_another_file_system_copies(
    storage: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(b"data")
    real = os.replace

    def crosses(source: Path, target: Path) -> None:
        if Path(source) == spool:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, target)

    monkeypatch.setattr(files.os, "replace", crosses)
    size = storage.upload("raw/data", spool)
    stored = storage.get("raw/data")
    assert stored is not None
    assert (size, stored.body) == (4, b"data")
    assert os.listdir(Path(storage.url) / "raw") == ["data"]


def test_an_upload_into_a_folder_that_somebody_removed_makes_it_again(storage: LocalStorage, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / "spool").write_bytes(b"data")
        storage.upload(f"raw/tap/{number}", tmp_path / "spool")
        storage.put("raw/tap/x", b"1")
        assert keys(storage, "raw/tap/") == [f"raw/tap/{number}", "raw/tap/x"]
        shutil.rmtree(Path(storage.url) / "raw/tap")


def test_a_second_upload_into_a_folder_has_the_mode_of_a_new_file(storage: LocalStorage, tmp_path: Path) -> None:
    storage.put("raw/x", b"1")
    spool = tmp_path / "spool"
    spool.write_bytes(b"data")
    spool.chmod(0o600)
    storage.upload("raw/data", spool)
    assert (Path(storage.url) / "raw/data").stat().st_mode == (Path(storage.url) / "raw/x").stat().st_mode
    assert sorted(os.listdir(Path(storage.url) / "raw")) == ["data", "x"]


def test_what_a_killed_writer_left_is_removed_after_a_day_and_not_before(tmp_path: Path) -> None:
    class Later(SystemClock):
        ahead = timedelta(0)

        def now(self) -> datetime:
            return super().now() + self.ahead

    left = tmp_path / "lake/raw/.tmp-0123456789abcdef"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    clock = Later()
    LocalStorage(tmp_path / "lake", clock=clock, ids=random_id).put("raw/x", b"1")
    assert left.exists()
    clock.ahead = ABANDONED_AFTER + timedelta(minutes=1)
    LocalStorage(tmp_path / "lake", clock=clock, ids=random_id).put("raw/x", b"1")
    assert not left.exists()
    assert (tmp_path / "lake/raw/x").read_bytes() == b"1"


def _hold_and_put(root: str, inside: multiprocessing.synchronize.Event) -> None:
    storage = LocalStorage(root, clock=SystemClock(), ids=random_id)
    real = os.replace

    def stops(source: Path, target: Path) -> None:
        inside.set()
        os.kill(os.getpid(), 9)
        real(source, target)

    os.replace = stops
    storage.put("x", b"new")


def test_a_writer_killed_before_the_rename_leaves_the_old_object_and_no_lock(storage: LocalStorage) -> None:
    storage.put("x", b"old")
    inside = FORKED.Event()
    process = FORKED.Process(target=_hold_and_put, args=(storage.url, inside))
    process.start()
    process.join(60)
    assert process.exitcode == -9
    assert inside.is_set()
    stored = storage.get("x")
    assert stored is not None
    assert stored.body == b"old"
    assert keys(storage) == ["x"]
    assert isinstance(storage.put("x", b"next", if_match=stored.etag), Written)


def test_the_flock_file_is_never_removed(storage: LocalStorage) -> None:
    storage.put("x", b"1")
    inode = (Path(storage.url) / ".singerlake.flock").stat().st_ino
    storage.delete("x")
    storage.put("x", b"2", if_absent=True)
    assert (Path(storage.url) / ".singerlake.flock").stat().st_ino == inode


def test_what_is_not_whole_is_given_beside_the_listing(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, clock=SystemClock(), ids=random_id)
    storage.put("a/b/whole", b"1")
    for place, body in {"a/.tmp-1": b"22", "a/b/.tmp-2": b"333", "ab/.tmp-3": b"4"}.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(body)
    (tmp_path / "a/.tmp-link").symlink_to(tmp_path / "ab/.tmp-3")

    def given(prefix: str) -> dict[str, bytes]:
        found = {}
        for name, stream in storage.unfinished(prefix):
            with stream:
                found[name] = stream.read()
        return found

    assert given("a/") == {"a/.tmp-1": b"22", "a/b/.tmp-2": b"333"}
    assert given("a/b/") == {"a/b/.tmp-2": b"333"}
    assert given("") == {"a/.tmp-1": b"22", "a/b/.tmp-2": b"333", "ab/.tmp-3": b"4"}
    assert given("c/") == {}
    assert [entry.key for entry in storage.list("a/")] == ["a/b/whole"]


def test_what_becomes_whole_while_it_is_looked_for_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path, clock=SystemClock(), ids=random_id)
    for name in (".tmp-1", ".tmp-2"):
        (tmp_path / name).write_bytes(name.encode())
    found = list(local.files_not_whole(tmp_path, ""))
    monkeypatch.setattr(local, "files_not_whole", lambda top, prefix: iter(found))
    (tmp_path / ".tmp-1").rename(tmp_path / "whole")
    ((name, stream),) = storage.unfinished("")
    with stream:
        assert (name, stream.read()) == (".tmp-2", b".tmp-2")
