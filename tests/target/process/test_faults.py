"""Faults around the target: killed at the worst moments, storage that refuses, a lake that is not as it should be."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.errors import (
    AccessDeniedError,
    BrokenFileError,
    CorruptObjectError,
    ForeignManifestError,
    InvalidMessageError,
    LockTimeoutError,
    MissingFileError,
    NotALakeError,
    SettingError,
    StorageFullError,
    UnsupportedFormatError,
)
from singerlake.format import layout
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.files.data_file import NewFile
from singerlake.lake import Lake
from singerlake.lock_file import Lock, LockSettings
from singerlake.storage.local.storage import LocalStorage
from singerlake.upkeep.verify import verify_stream
from target_singerlake.files import growing as files
from tests.faults.support.haste import hasten
from tests.processes.killed import Killed
from tests.processes.privileges import bound_by_modes
from tests.servers.s3 import S3Server
from tests.stores.writing.confirming import on_confirm
from tests.target.support import (
    TAP,
    USERS,
    command,
    config,
    environment,
    ingest,
    kept_ids,
    manifest,
    record,
    records,
    run,
    schema,
    state,
    text,
)
from tests.test_spools import dead

LINES = [schema(), *records(*range(6)), state({"at": 6})]
KILL = {
    "before the upload": ("singerlake.storage.local.storage:LocalStorage.upload", "before"),
    "after the upload": ("singerlake.storage.local.storage:LocalStorage.upload", "after"),
    "before the commit": ("singerlake.stores.lockfile:LockfileStore.commit", "before"),
    "after the commit": ("singerlake.stores.lockfile:LockfileStore.commit", "after"),
    "before the STATE": ("target_singerlake.state:StateOutput.write", "before"),
}
"""Which call, and on which side of it, a target is killed at; it commits each file by itself, so that every call comes
twice."""


@pytest.mark.sampled(moment=2, calls=1)
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("moment", KILL)
def test_a_target_that_was_killed_is_run_again_and_nothing_is_lost(
    tmp_path: Path, moment: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, side = KILL[moment]
    settings = {"max_file_records": 3, "lock_stale_after_seconds": 2, "lock_refresh_seconds": 1}
    asked = Killed(place=place, side=side, calls=calls, config=config(tmp_path, **settings), files_at_once=1)
    killed = asked.run(text(LINES), env=environment())
    if calls == 1 or moment != "before the STATE":
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        assert killed.stdout == b""
    before = kept_ids(tmp_path) if (tmp_path / "raw" / TAP / "users" / "manifest.json").exists() else []
    assert before == list(range(6))[: len(before)]
    # The lock that the killed run left is waited for.
    hasten(monkeypatch)
    assert ingest(tmp_path, LINES, **settings) == ['{"at": 6}']
    assert kept_ids(tmp_path) == before + list(range(6))
    assert problems(tmp_path) == ({"unlisted"} if moment in ("after the upload", "before the commit") else set())


def problems(root: Path) -> set[str]:
    """What a verification of ``users`` finds, by kind."""
    return {
        finding.kind
        for finding in verify_stream(
            Lake.open(str(root)).storage, TAP, "users", Lake.open(str(root)).stream(TAP, "users").state
        ).findings
    }


def test_an_error_in_the_middle_of_a_file_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def failing(raw: bytes, level: int, *, extra: bytes | None = None) -> bytes:
        calls.append(len(raw))
        if len(calls) == 3:
            raise MemoryError
        return original(raw, level, extra=extra)

    original = files.compress_member
    monkeypatch.setattr(files, "compress_member", failing)
    lines = [schema(), *records(*range(40_000)), state({"at": 1})]
    out: list[str] = []
    with pytest.raises(MemoryError):
        out += ingest(tmp_path / "lake", lines, max_memory_bytes=1 << 20, spool_dir=str(tmp_path))
    assert calls[2:]
    assert out == []
    assert not list(tmp_path.rglob("*.singer.gz"))
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_a_spool_that_may_not_grow_is_one_line(tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -f 8 && exec "$@"', "sh", *command(tmp_path / "lake", tmp_path)]
    noise = [record(id, noise=os.urandom(1000).hex()) for id in range(50)]
    data = text([schema(), state({"at": 0}), *noise, state({"at": 50})])
    done = subprocess.run(limited, input=data, capture_output=True, env=environment(), timeout=120)
    log = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b'{"at": 0}\n')
    assert "Traceback" not in log
    assert "the spool cannot be written: file too large; check its disk, or set spool_dir" in log


@pytest.mark.parametrize("where", ["spool", "lake"])
def test_a_full_disk_is_named_and_nothing_half_written_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    ingest(tmp_path / "lake", [schema(), *records(1)])

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "spool":
        monkeypatch.setattr(files.Spool, "append", full)
    else:
        monkeypatch.setattr(shutil, "copyfileobj", full)
        monkeypatch.setattr(os, "rename", full)
        monkeypatch.setattr(os, "replace", full)
        monkeypatch.setattr(os, "link", full)
    with pytest.raises(StorageFullError):
        ingest(tmp_path / "lake", LINES)
    monkeypatch.undo()
    assert kept_ids(tmp_path / "lake") == [1]
    assert problems(tmp_path / "lake") == set()


@pytest.mark.parametrize("mode", [0o000, 0o555], ids=["unreadable", "read-only"])
def test_a_lake_root_without_permission_is_named(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    root.chmod(mode)
    with bound_by_modes(), pytest.raises(AccessDeniedError) as raised:
        ingest(root, LINES)
    assert str(root) in str(raised.value)
    root.chmod(0o755)
    assert list(root.iterdir()) == []


def test_a_lake_root_that_is_a_file_is_named(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.write_text("not a folder")
    done = run(root, tmp_path, LINES)
    assert (done.code, done.states, len(done.errors)) == (1, [], 1)
    assert str(root) in done.errors[0]
    assert root.read_text() == "not a folder"


def test_what_a_run_that_was_killed_left_in_the_spool_is_removed_by_the_next(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    left = dead(spool)
    assert left.exists()
    ingest(tmp_path / "lake", LINES, spool_dir=str(spool))
    assert list(spool.iterdir()) == []


def test_a_spool_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessDeniedError, match="spool_dir"):
        ingest(tmp_path / "lake", LINES, spool_dir=str(tmp_path / "missing"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", CorruptObjectError),
        (b'{"format": 1}', CorruptObjectError),
        (b'{"format": 99}', UnsupportedFormatError),
        (b"", CorruptObjectError),
    ],
)
def test_a_manifest_that_cannot_be_read_is_named_and_left_alone(tmp_path: Path, body: bytes, kind: type) -> None:
    ingest(tmp_path, LINES)
    key = layout.manifest_key(TAP, "users")
    (tmp_path / key).write_bytes(body)
    before = sorted(path for path in tmp_path.rglob("*.singer.gz"))
    with pytest.raises(kind) as raised:
        ingest(tmp_path, LINES)
    assert key in str(raised.value)
    assert (tmp_path / key).read_bytes() == body
    assert sorted(path for path in tmp_path.rglob("*.singer.gz")) == before


@pytest.mark.parametrize("known", [True, False])
def test_a_stream_of_which_a_failed_run_committed_nothing_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    if known:
        ingest(tmp_path, LINES)

    def broken(*_: object, **__: object) -> None:
        raise BrokenFileError("the disk lies")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "upload", broken)
        with pytest.raises(BrokenFileError):
            ingest(tmp_path, LINES)
    runs = [(each.status, each.files, each.records) for each in manifest(tmp_path).runs]
    assert runs == [("finished", 1, 6)] * known + [("failed", 0, 0)]


def test_a_run_that_fails_before_a_record_is_failed_in_the_streams_of_its_input(tmp_path: Path) -> None:
    ingest(tmp_path, LINES)
    with pytest.raises(InvalidMessageError):
        ingest(tmp_path, [schema(), schema("new"), b"nonsense"])
    for stream, runs in (("users", ["finished", "failed"]), ("new", ["failed"])):
        assert [each.status for each in manifest(tmp_path, stream).runs] == runs


def test_a_broken_stream_does_not_keep_the_failure_out_of_others(tmp_path: Path) -> None:
    for stream in ("a", "b", "c"):
        ingest(tmp_path, [schema(stream), *records(1, stream=stream)])
    (tmp_path / layout.manifest_key(TAP, "a")).write_bytes(b"{")
    with pytest.raises((CorruptObjectError, InvalidMessageError)):
        ingest(tmp_path, [schema("a"), schema("b"), schema("c"), b"nonsense"])
    assert [[each.status for each in manifest(tmp_path, stream).runs] for stream in ("b", "c")] == 2 * [
        ["finished", "failed"]
    ]


def test_a_lake_is_not_made_among_the_streams_of_another(tmp_path: Path) -> None:
    ingest(tmp_path, LINES)
    (tmp_path / "link").symlink_to(tmp_path / "raw" / TAP)
    ingest(tmp_path / "other" / "raw", LINES)
    with pytest.raises(SettingError, match="within another lake"):
        ingest(tmp_path / "other" / "raw" / "raw" / "t", LINES)
    for within in ("raw", f"raw/{TAP}", "link"):
        with pytest.raises(SettingError, match=f"within another lake.*set lake_root to {tmp_path}, or"):
            ingest(tmp_path / within, LINES)
    with pytest.raises(NotALakeError, match=f"the lake is {tmp_path}"):
        Lake.open(str(tmp_path / "raw")).require()
    assert not list(tmp_path.glob("raw/**/raw"))
    assert ingest(tmp_path / "raw/elsewhere/../../third/raw", LINES)


def test_a_manifest_of_another_stream_is_refused(tmp_path: Path) -> None:
    ingest(tmp_path, LINES)
    key, other = layout.manifest_key(TAP, "users"), layout.manifest_key(TAP, "Users")
    (tmp_path / other).parent.mkdir()
    shutil.copy(tmp_path / key, tmp_path / other)
    body = (tmp_path / other).read_bytes()
    with pytest.raises(ForeignManifestError):
        ingest(tmp_path, [schema("Users"), *records(1, stream="Users")])
    assert (tmp_path / other).read_bytes() == body


def test_a_manifest_that_was_deleted_is_rebuilt_before_anything_is_added(tmp_path: Path) -> None:
    ingest(tmp_path, LINES, max_file_records=2)
    (tmp_path / layout.manifest_key(TAP, "users")).unlink()
    ingest(tmp_path, [schema(), *records(6, 7)])
    assert kept_ids(tmp_path) == list(range(8))
    assert len(manifest(tmp_path).files) == 4


def lock_on(root: Path, **settings: float) -> Lock:
    """The lock a writer of ``users`` needs."""
    key = layout.version_lock_key(TAP, "users", schema_hash(USERS))
    storage = LocalStorage(root, clock=SystemClock(), ids=random_id)
    return Lock(storage, key, "the-other-writer", LockSettings(**settings), SystemClock(), random_id)


def test_the_lock_of_a_dead_writer_is_taken_over(tmp_path: Path) -> None:
    lock_on(tmp_path).acquire()
    ingest(tmp_path, LINES, lock_stale_after_seconds=2, lock_refresh_seconds=1)
    assert kept_ids(tmp_path) == list(range(6))


def test_the_lock_of_a_slow_live_writer_is_respected_and_its_holder_named(tmp_path: Path) -> None:
    with lock_on(tmp_path, refresh=0.5, stale_after=30).held():
        with pytest.raises(LockTimeoutError, match="the-other-writer"):
            ingest(tmp_path, LINES, lock_stale_after_seconds=2, lock_refresh_seconds=1, lock_max_wait_seconds=5)
        assert kept_ids(tmp_path) == []


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket on a real S3 server, which the environment's credentials reach."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return s3.create_bucket(f"lake-{random_id()}")


def test_a_lake_on_s3_is_written_by_the_settings(s3: S3Server, bucket: str) -> None:
    root = f"s3://{bucket}/some/where"
    assert ingest(root, LINES, max_file_records=2, **s3.config()) == ['{"at": 6}']
    assert kept_ids(root) == list(range(6))


def test_no_such_bucket_is_named(tmp_path: Path, s3: S3Server) -> None:
    done = run("s3://no-such-bucket-here/lake", tmp_path, LINES, **s3.config())
    assert (done.code, done.states, len(done.errors)) == (1, [], 1)
    assert "no-such-bucket-here" in done.errors[0]


def test_wrong_credentials_are_an_error_that_does_not_show_them(tmp_path: Path, s3: S3Server, bucket: str) -> None:
    wrong = {"aws_access_key_id": "AKIAWRONG", "aws_secret_access_key": "hunter2hunter2"}
    done = run(f"s3://{bucket}/lake", tmp_path, LINES, **s3.config(**wrong))
    assert (done.code, done.states, len(done.errors)) == (1, [], 1)
    assert "aws_access_key_id" in done.errors[0]
    assert "hunter2" not in done.log


def test_an_upload_that_storage_refuses_leaves_nothing_listed_and_no_state(s3: S3Server, bucket: str) -> None:
    root = f"s3://{bucket}/lake"
    ingest(root, [schema(), *records(100)])
    s3.fail("PUT", status=403, code="AccessDenied", times=-1, key_contains=".singer.gz")
    out: list[str] = []
    with pytest.raises(AccessDeniedError):
        out += ingest(root, LINES)
    s3.calm()
    assert out == []
    assert kept_ids(root) == [100]
    assert ingest(root, LINES) == ['{"at": 6}']
    assert kept_ids(root) == [100, *range(6)]


def test_replies_that_get_lost_cost_nothing_and_double_nothing(s3: S3Server, bucket: str) -> None:
    root = f"s3://{bucket}/lake"
    ingest(root, [schema(), *records(100)])
    s3.drop_reply("PUT", times=1, key_contains=".singer.gz")
    s3.drop_reply("PUT", times=1, key_contains="manifest.json")
    assert ingest(root, LINES) == ['{"at": 6}']
    assert kept_ids(root) == [100, *range(6)]


@pytest.mark.sampled(settings=3)
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lake_root": ""}, "lake_root"),
        ({"lake_root": "r2://bucket"}, "lake_root"),
        ({"compression_level": 10}, "compression_level"),
        ({"manifest_store": "paper"}, "manifest_store"),
        ({"lock_stale_after_seconds": 10, "lock_refresh_seconds": 9}, "lock_refresh_seconds"),
        ({"aws_access_key_id": "a"}, "aws_secret_access_key"),
        ({"max_memory_bytes": "much"}, "max_memory_bytes"),
        ({"aws_secret_access_key": 12345678}, "aws_secret_access_key"),
    ],
)
def test_a_wrong_setting_is_named_and_no_secret_shown(tmp_path: Path, settings: dict[str, Any], says: str) -> None:
    done = run(tmp_path / "lake", tmp_path, LINES, **settings)
    assert (done.code, done.states) == (1, [])
    assert any(says in error for error in done.errors)
    assert "12345678" not in done.log
    assert "Traceback" not in done.log


def test_another_manifest_store_than_the_lakes_is_refused(tmp_path: Path) -> None:
    ingest(tmp_path, LINES, manifest_store="lockfile")
    root = tmp_path / "raw" / "singerlake.json"
    root.write_bytes(root.read_bytes().replace(b"lockfile", b"log"))
    with pytest.raises(SettingError, match="manifest_store"):
        ingest(tmp_path, [schema("new"), *records(1, stream="new")], manifest_store="lockfile")


@pytest.mark.parametrize("missing", [1, 2])
def test_a_run_that_fails_is_recorded_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int) -> None:
    calls = []

    def one_is_missing(files: Sequence[NewFile]) -> None:
        calls.append(files)
        if len(calls) == missing:
            raise MissingFileError("gone")

    on_confirm(monkeypatch, before=one_is_missing)
    monkeypatch.setattr("target_singerlake.files.publishing.FILES_AT_ONCE", 1)
    with pytest.raises(MissingFileError):
        ingest(tmp_path, LINES, max_file_records=3)
    assert [run.status for run in manifest(tmp_path).runs] == ["failed"]
