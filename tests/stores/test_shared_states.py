"""A state that is read while another of its stream is held shares with that one, and keeps nothing alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.state import manifest as manifests
from singerlake.format.state.fold import apply
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.port import Loaded
from singerlake.stores.segments import stored
from singerlake.stores.segments.stored import read_manifest
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.format.state.test_large_manifest import listed, state
from tests.storage.memory import MemoryStorage

KEY = layout.manifest_key("t", "s")
STORAGE = MemoryStorage(clock=FakeClock(), ids=counting_ids())


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "LARGE", 1 << 16)
    monkeypatch.setattr(stored, "_MANY", 512)


@pytest.fixture
def large() -> Manifest:
    return msgspec.structs.replace(state(*map(listed, range(2000))), next_offset=2_000_000)


def shared(one: Manifest, two: Manifest) -> int:
    return len({id(file) for file in one.files} & {id(file) for file in two.files})


def test_two_readings_that_are_held_share_their_files(large: Manifest) -> None:
    one = read_manifest(to_json(large), key=KEY, storage=STORAGE)
    two = read_manifest(to_json(large), key=KEY, storage=STORAGE)
    assert one == two == large
    assert shared(one, two) == 2000


def test_the_log_s_snapshots_are_of_the_same_stream(large: Manifest) -> None:
    held = Loaded(large, "mark")
    key = layout.log_prefix("t", "s") + layout.log_snapshot_name(7)
    assert shared(read_manifest(to_json(large), key=key, storage=STORAGE), held.manifest) == 2000


@pytest.mark.parametrize("change", [{"tap": "other"}, {"stream": "s2"}])
def test_another_stream_s_are_its_own(large: Manifest, change: dict[str, str]) -> None:
    one = read_manifest(to_json(large), key=KEY, storage=STORAGE)
    other = msgspec.structs.replace(large, **change)
    two = read_manifest(to_json(other), key=layout.manifest_key(other.tap, other.stream), storage=STORAGE)
    assert shared(one, two) == 0


def test_a_state_is_let_go_of_by_who_held_it(large: Manifest) -> None:
    one = read_manifest(to_json(large), key=KEY, storage=STORAGE)
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def let_pass(store: LockfileStore, base: Loaded) -> Loaded | None:
    return store.catch_up(base)


def load_again(store: LockfileStore, base: Loaded) -> Loaded | None:
    del base
    return store.load()


@pytest.mark.parametrize("read", [let_pass, load_again])
def test_who_lost_a_race_reads_only_what_the_winner_added(
    large: Manifest, read: Callable[[LockfileStore, Loaded], Loaded | None]
) -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    storage.put(KEY, to_json(large))
    store = LockfileStore(storage, "t", "s")
    base = store.load()
    assert base is not None
    newer = apply(base.manifest, Transaction(id="w", at="2026-02", change=add(new_file("theirs"))))
    assert isinstance(newer, Manifest)
    storage.put(KEY, to_json(newer))
    fresh = read(store, base)
    assert fresh is not None
    assert fresh.manifest == newer
    assert shared(fresh.manifest, base.manifest) == 2000
