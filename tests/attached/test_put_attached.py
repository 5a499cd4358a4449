"""Objects of attached files: stored once, however many writers store them and whoever deletes them meanwhile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from singerlake.attached.keep import free_copy, put_attached
from singerlake.errors import CorruptObjectError, StorageUnavailableError
from singerlake.format.state.model import Retired
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import born
from tests.storage.memory import MemoryStorage, Step

BODY = b"a photo"
SHA256 = hashlib.sha256(BODY).hexdigest()
KEY = f"raw/t/s/_files/{SHA256[:2]}/{SHA256}"

Put = Callable[[MemoryStorage], bool]


@pytest.fixture(params=["bytes", "a file"])
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Put:
    def as_bytes(storage: MemoryStorage) -> bool:
        return put_attached(storage, KEY, BODY, len(BODY))

    def as_file(storage: MemoryStorage) -> bool:
        spool = tmp_path / "spool"
        spool.write_bytes(BODY)
        return put_attached(storage, KEY, spool, len(BODY))

    return as_bytes if request.param == "bytes" else as_file


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


def body_of(storage: MemoryStorage) -> bytes | None:
    stored = storage.get(KEY)
    return None if stored is None else stored.body


def test_it_is_written_once(storage: MemoryStorage, put: Put) -> None:
    assert put(storage)
    before = storage.head(KEY)
    assert not put(storage)
    assert (storage.head(KEY), body_of(storage)) == (before, BODY)


@pytest.mark.parametrize("other", [b"", b"a photo, cut", b"a phot"])
def test_an_object_of_another_size_is_refused_and_stays(storage: MemoryStorage, put: Put, other: bytes) -> None:
    storage.put(KEY, other)
    with pytest.raises(CorruptObjectError, match=f"has {len(other)} bytes, the file with this name has 7"):
        put(storage)
    assert body_of(storage) == other


def test_one_that_is_deleted_between_the_refusal_and_the_look_is_written_again(
    storage: MemoryStorage, put: Put
) -> None:
    storage.put(KEY, BODY)
    looks = 0

    def hook(step: Step) -> None:
        nonlocal looks
        if step.operation in ("put", "head") and step.done is (step.operation == "put"):
            looks += 1
            if looks == 2:
                storage.hook = lambda _: None
                storage.delete(KEY)

    storage.hook = hook
    assert put(storage)
    assert body_of(storage) == BODY


def test_one_that_is_deleted_each_time_is_given_up(storage: MemoryStorage) -> None:
    storage.put(KEY, BODY)

    def hook(step: Step) -> None:
        storage.hook = lambda _: None
        if step.operation == "put" and not step.done:
            storage.put(KEY, BODY)
        if step.operation == "head" and not step.done:
            storage.delete(KEY)
        storage.hook = hook

    storage.hook = hook
    with pytest.raises(StorageUnavailableError, match="deleted each time that it is stored"):
        put_attached(storage, KEY, BODY, len(BODY))


def test_the_copy_is_the_least_that_is_not_being_collected() -> None:
    state = born()
    assert free_copy(state, SHA256) == 1

    def retired(*names: str) -> int:
        gone = [Retired(id=name, path=f"_files/{name[:2]}/{name}", by=None, since="2026") for name in names]
        return free_copy(msgspec.structs.replace(state, retired=gone), SHA256)

    assert retired(SHA256) == 2
    assert retired(f"{SHA256}.2") == 1
    assert retired(SHA256, f"{SHA256}.2", f"{SHA256}.4") == 3
    assert retired("0" * 64) == 1
