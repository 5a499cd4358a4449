"""What a trim takes over: a snapshot has the segments that ``manifest.json`` named when it was made, and what is
published then has none that ``manifest.json`` has lost meanwhile."""

from __future__ import annotations

import pytest

from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.stores.log import ObjectLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from singerlake.stores.segments import stored
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import names_of, to_stored
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage, Step


def test_what_a_trim_publishes_names_no_segment_that_manifest_json_lost_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored, "SIZES", Sizes(whole=0, segment=100, tail=2))
    clock, ids = FakeClock(), counting_ids()
    storage = MemoryStorage(clock=clock, ids=ids)
    place = StreamPlace(storage, "t", "s", clock, ids)
    store = NumberedStore("log", ObjectLog(place), place)
    key = layout.manifest_key("t", "s")
    loaded = store.create(
        fold.empty(tap="t", stream="s", store="log", lineage="l", created="2026", transaction_id=ids())
    )

    def grown(base: Loaded) -> Loaded:
        after = store.commit(base, Transaction(id=ids(), at="2026", change=add(new_file(ids()))))
        assert isinstance(after, Loaded)
        return after

    def publish(manifest: Manifest) -> set[str]:
        storage.put(key, to_stored(SegmentObjects(storage, "t", "s"), manifest, ())[1])
        return names()

    def names() -> set[str]:
        return {segment.name for segment in names_of(storage, key)}

    loaded = grown(grown(grown(loaded)))
    before = publish(loaded.manifest)
    other = grown(loaded)
    grown(other)
    between: list[set[str]] = []

    def meanwhile(step: Step) -> None:
        if step.done and step.operation == "put" and step.key.endswith("snapshot.json"):
            storage.hook = lambda _: None
            between.append(publish(other.manifest))

    storage.hook = meanwhile
    store.trim(keep=0, dry_run=False)
    snapshot = layout.log_prefix("t", "s") + layout.log_snapshot_name(5)
    assert {segment.name for segment in names_of(storage, snapshot)} == before
    assert between == [names()]
    assert not names() & before
