"""Members that are compressed before the lake has told its id."""

from __future__ import annotations

import errno
import gzip
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import AccessDeniedError, StorageFullError
from singerlake.lake import Lake
from singerlake.singer_file import Spool
from target_singerlake.files.growing import Compressor, GrowingFile, LakeId
from tests.target.support import TAP, ingest, manifest, records, schema
from tests.target.test_parts import add_member, growing, hand_over

LINES = [b"%d" % number * 500_000 + b"\n" for number in range(10)]


class Asked:
    """The id of a lake that tells it after ``tell``."""

    def __init__(
        self,
        answer: Callable[[], str | None] = lambda: "a lake",
        failed: Callable[[BaseException], None] = pytest.fail,
        memory: int = 64 << 20,
    ) -> None:
        self._told = threading.Event()
        self.lake_id = LakeId(partial(self._ask, answer), failed, memory)

    def _ask(self, answer: Callable[[], str | None]) -> str | None:
        self._told.wait()
        return answer()

    def tell(self) -> None:
        self._told.set()


def refuse() -> str | None:
    raise AccessDeniedError("not yours", hint="ask")


def file_of(folder: Path, name: str, asked: Asked) -> GrowingFile:
    file = growing(folder, name)
    file.lake_id = asked.lake_id
    return file


def test_members_wait_compressed_and_are_in_the_file_in_order(tmp_path: Path) -> None:
    compressor, asked = Compressor(2, 64 << 20), Asked()
    files = [file_of(tmp_path, name, asked) for name in ("f", "g")]
    for file in files:
        hand_over(compressor, file, *LINES)
    compressor.wait(0)
    assert not any(file.is_whole or file.spool for file in files)
    assert 0 < asked.lake_id.waiting < sum(map(len, LINES))
    asked.tell()
    hand_over(compressor, files[0], b"last\n")
    for file, more in zip(files, (b"last\n", b""), strict=True):
        file.finish()
        assert gzip.decompress(file.path.read_bytes()).split(b"\n", 1)[1] == b"".join(LINES) + more
        assert file.spool is not None
        assert file.spool.header.lake_id == "a lake"
        assert file.spool.messages == file.messages
    assert asked.lake_id.waiting == 0
    compressor.close()


def test_a_member_without_room_waits_with_its_thread(tmp_path: Path) -> None:
    asked = Asked(memory=1 << 20)
    file, lines = file_of(tmp_path, "f", asked), [random.Random(number).randbytes(30_000) for number in range(3)]
    for line in lines[:2]:
        add_member(file, line, file.ready)
    with ThreadPoolExecutor(1) as thread:
        third = thread.submit(add_member, file, lines[2], file.ready)
        assert wait([third], timeout=0.2).not_done
        assert 60_000 < asked.lake_id.waiting <= 1 << 16
        asked.tell()
        third.result()
    assert asked.lake_id.waiting == 0
    assert gzip.decompress(file.path.read_bytes()).split(b"\n", 1)[1] == b"".join(lines)


def test_a_lake_that_tells_none_ends_the_run_at_once_and_leaves_no_file(tmp_path: Path) -> None:
    """Without another member that would ask for it: a tap may be silent for hours."""
    compressor, failed = Compressor(2, 64 << 20), threading.Event()

    def fail(error: BaseException) -> None:
        compressor.fail(error)
        failed.set()

    asked = Asked(answer=refuse, failed=fail)
    file = file_of(tmp_path, "f", asked)
    hand_over(compressor, file, b"1\n", b"2\n")
    compressor.wait(0)
    asked.tell()
    failed.wait()
    with pytest.raises(AccessDeniedError):
        compressor.check()
    with pytest.raises(AccessDeniedError):
        file.finish()
    assert file.spool is None
    assert list(tmp_path.iterdir()) == []
    compressor.close()


def test_a_disk_that_is_full_behind_the_wait_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "full")

    compressor, asked = Compressor(1, 64 << 20), Asked()
    file = file_of(tmp_path, "f", asked)
    hand_over(compressor, file, b"1\n")
    compressor.wait(0)
    monkeypatch.setattr(Spool, "append", full)
    asked.tell()
    with pytest.raises(StorageFullError):
        file.finish()
    compressor.close()


@pytest.mark.parametrize("limit", [1, 300, 2_000, 20_000])
def test_files_end_where_they_would_had_the_id_been_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    told = Lake.lake_id

    def late(self: Lake, store: str | None = None) -> str:
        time.sleep(0.1)
        return told(self, store)

    files = []
    for name, lake_id in (("soon", told), ("late", late)):
        monkeypatch.setattr(Lake, "lake_id", lake_id)
        lines = [line for number in range(20) for line in records(*range(number * 50, number * 50 + 50))]
        ingest(tmp_path / name, [schema(), *lines], max_file_bytes=limit)
        paths = [tmp_path / name / f"raw/{TAP}/users/{file.path}" for file in manifest(tmp_path / name).files]
        files.append([gzip.decompress(path.read_bytes()) for path in paths])
    assert files[0] == files[1]
    assert len(files[0]) > 1 or limit == 20_000
