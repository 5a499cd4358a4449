"""The state that a process keeps between two plans: never an old one, and not read again for nothing."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.cloudpickle import dumps

from singerlake.arrow.plan.splits import splits
from singerlake.clock import SystemClock, random_id, timestamp
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.newest import StateReader
from singerlake.settings import StoreSettings
from singerlake.spark import lake as planned
from singerlake.spark.batch.reader import SplitsPartition
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Stored
from singerlake.stream import LakeStream
from tests.lakes import build_stream

SCHEMA = {"properties": {"n": {"type": "integer"}}}
KEY = layout.manifest_key("t", "s")


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    planned._kept.clear()
    yield
    planned._kept.clear()


class Counted(LocalStorage):
    """A storage that counts how often a manifest is read whole."""

    whole = 0

    def get(self, key: str) -> Stored | None:
        self.whole += key.endswith("manifest.json")
        return super().get(key)


def born(lake: Lake, kind: str) -> LakeStream:
    """A new stream of a manifest store, with two files of ten records."""
    # The lake has its id before it has a stream, as where a run begins one.
    lake.lake_id(kind)
    stream = lake.stream("t", "s")
    stream.store(kind).create(empty(kind))
    build_stream(lake, "t", "s", SCHEMA, [{"n": n} for n in range(20)], file_size=10)
    return stream


def empty(kind: str) -> Manifest:
    created = timestamp(SystemClock().now())
    return fold.empty(tap="t", stream="s", store=kind, lineage=random_id(), created=created, transaction_id=random_id())


@pytest.fixture(params=["lockfile", "log"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> LakeStream:
    return born(Lake(Counted(tmp_path / "lake", clock=SystemClock(), ids=random_id)), request.param)


def again(stream: LakeStream) -> LakeStream:
    """The stream as another plan opens it."""
    return Lake(stream.lake.storage, stores=stream.lake.stores).stream(stream.tap, stream.name)


def test_a_manifest_that_stayed_is_read_once(stream: LakeStream) -> None:
    first = planned.snapshot(stream)
    storage = stream.lake.storage
    assert isinstance(storage, Counted)
    before = storage.whole
    assert planned.snapshot(again(stream)) == first
    assert storage.whole == before


def test_every_commit_is_seen(stream: LakeStream) -> None:
    for number in range(1, 4):
        manifest = build_stream(stream.lake, "t", "s", SCHEMA, [{"n": number}])
        assert planned.snapshot(again(stream)) == stream.snapshot() == manifest
        assert planned.snapshot(again(stream)).next_offset == 20 + number


@pytest.mark.thorough
def test_every_commit_is_seen_where_writers_do_not_wait_for_each_other(tmp_path: Path) -> None:
    # The shortest wait for stragglers there is: commits are answered after it.
    stream = born(Lake.open(str(tmp_path), stores=StoreSettings(merge_stale_seconds=1.1)), "merge")
    assert planned.snapshot(stream).next_offset == 20
    manifest = build_stream(stream.lake, "t", "s", SCHEMA, [{"n": 20}])
    assert planned.snapshot(again(stream)) == manifest


def test_a_commit_while_it_is_read_is_seen_the_next_time(stream: LakeStream, monkeypatch: pytest.MonkeyPatch) -> None:
    planned.snapshot(stream)
    build_stream(stream.lake, "t", "s", SCHEMA, [{"n": 1}])
    read = StateReader.read

    def slow(newest: StateReader) -> Manifest | None:
        found = read(newest)
        build_stream(stream.lake, "t", "s", SCHEMA, [{"n": 2}])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(StateReader, "read", slow)
        planned.snapshot(again(stream))
    assert planned.snapshot(again(stream)) == stream.snapshot()


def test_a_stream_that_was_made_anew_is_not_taken_for_the_old_one(stream: LakeStream) -> None:
    before = planned.snapshot(stream)
    storage = stream.lake.storage
    for entry in list(storage.list("raw/")):
        storage.delete(entry.key)
    stream.lake.stream("t", "s").store(before.store).create(empty(before.store))
    build_stream(stream.lake, "t", "s", SCHEMA, [{"n": 7}])
    after = planned.snapshot(again(stream))
    assert after == stream.snapshot()
    assert (after.next_offset, after.lineage == before.lineage) == (1, False)


def test_a_state_rebuilt_in_memory_is_not_kept(stream: LakeStream) -> None:
    planned.snapshot(stream)
    storage = stream.lake.storage
    for entry in list(storage.list("raw/")):
        if not entry.key.endswith(".gz"):
            storage.delete(entry.key)
    assert planned.snapshot(again(stream)).lineage is None
    build_stream(stream.lake, "t", "s", SCHEMA, [{"n": 7}])
    assert planned.snapshot(again(stream)) == stream.snapshot()


def test_few_streams_are_kept_and_each_is_its_own(tmp_path: Path) -> None:
    lakes = [Lake.open(str(tmp_path / str(number))) for number in range(3)]
    for number, lake in enumerate(lakes):
        for name in ("s", "S2"):
            build_stream(lake, "t", name, SCHEMA, [{"n": n} for n in range(1 + number)])
    for _ in range(2):
        for number, lake in enumerate(lakes):
            for name in ("s", "S2"):
                found = planned.snapshot(lake.stream("t", name))
                assert (found.stream, found.next_offset) == (name, 1 + number)
    assert len(planned._kept) <= planned.KEPT


def test_threads_do_not_disturb_each_other(stream: LakeStream) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: planned.snapshot(again(stream)), range(40)))
    assert all(each == found[0] for each in found)


def test_partitions_arrive_as_they_were_sent_and_small(tmp_path: Path) -> None:
    manifest = build_stream(
        Lake.open(str(tmp_path)), "t", "ü/s", SCHEMA, [{"n": n} for n in range(200)], file_size=2, member_size=1
    )
    partition = SplitsPartition(tuple(splits(manifest.files, 3, 190, 1 << 20)))
    sent = dumps(partition)
    assert pickle.loads(sent) == partition
    assert len(sent) < 200 * len(partition.runs)
    assert pickle.loads(dumps(SplitsPartition(()))) == SplitsPartition(())
