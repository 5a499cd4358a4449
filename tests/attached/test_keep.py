"""Files that were read on their way into the lake: the same bytes once, and none that a collector takes away."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import msgspec
import pytest

from singerlake.adapters import s3_storage
from singerlake.attached.keep import Fetched, Keeper, Kept
from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.model import Manifest, Retired
from tests.fakes import FakeClock, counting_ids
from tests.servers.s3 import S3Server
from tests.storage.memory import MemoryStorage, Step

BODY = b"a photo"
SHA256 = hashlib.sha256(BODY).hexdigest()
EMPTY = fold.empty(
    tap="t", stream="s", store="lockfile", lineage="l", created="2026-01-01T00:00:00Z", transaction_id="t0"
)


def fetched(body: bytes | Path = BODY) -> Fetched:
    content = body if isinstance(body, bytes) else body.read_bytes()
    return Fetched(hashlib.sha256(content).hexdigest(), len(content), "image/jpeg", body)


def state() -> Manifest:
    return EMPTY


def key(copy: int = 1, sha256: str = SHA256) -> str:
    return layout.stream_prefix("t", "s") + layout.attached_path(sha256, copy)


def memory(**faults: bool) -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids(), **faults)


def body(storage: MemoryStorage, name: str) -> bytes:
    stored = storage.get(name)
    assert stored is not None
    return stored.body


@pytest.mark.parametrize("faults", [{}, {"ignore_conditions": True}, {"refuse_conditions": True}], ids=str)
def test_a_file_is_written_once_whatever_conditions_the_storage_honours(faults: dict[str, bool]) -> None:
    storage, clock = memory(**faults), FakeClock()
    keeper = Keeper(storage, clock)
    assert keeper.keep("t", "s", fetched(), state) == Kept(1, new=True)
    assert body(storage, key()) == BODY
    steps: list[Step] = []
    storage.hook = steps.append
    assert keeper.keep("t", "s", fetched(), state) == Kept(1, new=False)
    assert steps == []
    assert Keeper(storage, clock).keep("t", "s", fetched(), state).copy == 1
    assert [entry.key for entry in storage.list("")] == [key()]


def test_so_is_one_of_the_spool(tmp_path: Path) -> None:
    storage = memory()
    for new in (True, False):
        path = tmp_path / random_id()
        path.write_bytes(BODY)
        assert Keeper(storage, FakeClock()).keep("t", "s", fetched(path), state) == Kept(1, new=new)
    assert body(storage, key()) == BODY


def test_streams_do_not_share_objects() -> None:
    storage = memory()
    keeper = Keeper(storage, FakeClock())
    assert keeper.keep("t", "s", fetched(), state).new
    assert keeper.keep("t", "other", fetched(), state).new
    assert len(list(storage.list(""))) == 2


def test_what_was_written_long_ago_is_looked_for_again() -> None:
    storage, clock = memory(), FakeClock()
    keeper = Keeper(storage, clock)
    keeper.keep("t", "s", fetched(), state)
    storage.delete(key())
    clock.seconds = 899
    assert not keeper.keep("t", "s", fetched(), state).new
    clock.seconds = 901
    assert keeper.keep("t", "s", fetched(), state).new
    assert body(storage, key()) == BODY


def test_only_so_many_are_remembered() -> None:
    storage = memory()
    keeper = Keeper(storage, FakeClock(), remembered=2)
    for name in (b"a", b"b", b"c"):
        keeper.keep("t", "s", fetched(name), state)
    steps: list[Step] = []
    storage.hook = steps.append
    keeper.keep("t", "s", fetched(b"c"), state)
    assert steps == []
    keeper.keep("t", "s", fetched(b"a"), state)
    assert steps


def test_an_object_that_is_being_collected_is_not_used_again() -> None:
    storage = memory()
    keeper = Keeper(storage, FakeClock())
    keeper.keep("t", "s", fetched(), state)

    def retired(copy: int) -> Retired:
        name = layout.attached_name(SHA256, copy)
        return Retired(id=name, path=layout.attached_path(SHA256, copy), by=None, since="2026-01-01T00:00:00Z")

    going = msgspec.structs.replace(EMPTY, retired=AppendOnlyList([retired(1), retired(2)]))
    assert keeper.keep("t", "s", fetched(), lambda: going) == Kept(3, new=True)
    assert body(storage, key(3)) == BODY


def test_an_object_of_another_size_under_its_name_is_an_error(tmp_path: Path) -> None:
    storage = memory()
    storage.put(key(), b"short")
    (tmp_path / "a").write_bytes(BODY)
    for each in (fetched(), fetched(tmp_path / "a")):
        with pytest.raises(CorruptObjectError, match="has 5 bytes, the file with this name has 7"):
            Keeper(storage, FakeClock()).keep("t", "s", each, state)


def test_threads_that_come_together_write_the_same_object(tmp_path: Path) -> None:
    storage = memory()
    keeper = Keeper(storage, FakeClock())
    meet = threading.Barrier(8)
    kept: list[Kept] = []

    def work(number: int) -> None:
        (tmp_path / str(number)).write_bytes(BODY)
        meet.wait()
        kept.append(keeper.keep("t", "s", fetched(tmp_path / str(number) if number % 2 else BODY), state))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.copy for each in kept] == [1] * 8
    assert body(storage, key()) == BODY


@pytest.mark.parametrize("size", [100, 2 << 20])
def test_a_reply_that_is_lost_is_no_failure(s3: S3Server, tmp_path: Path, size: int) -> None:
    bucket = s3.create_bucket(f"lake-{random_id()}")
    storage = s3_storage(bucket, "lake", s3.settings(), clock=FakeClock(), ids=random_id)
    storage.capabilities()
    path = tmp_path / "a"
    path.write_bytes(b"x" * size)
    each = fetched(path.read_bytes() if size <= 100 else path)
    s3.drop_reply("PUT", times=1, key_contains="_files")
    Keeper(storage, FakeClock()).keep("t", "s", each, state)
    entry = storage.head(key(sha256=each.sha256))
    assert entry is not None
    assert entry.size == size
