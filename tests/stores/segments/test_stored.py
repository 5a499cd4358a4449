"""A long state is stored as a head that names segments, and read as the state that it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.state import manifest as manifests
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    CollectFiles,
    EraseFiles,
    ExpireFiles,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.publish import publish_manifest
from singerlake.stores.segments import stored
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import named_in, read_manifest, to_stored
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, born, new_file, with_holes
from tests.storage.memory import MemoryStorage, Step
from tests.stores.segments.sizes import TINY, few_files_make_segments  # noqa: F401

KEY = layout.manifest_key("t", "s")


def empty() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


def after(state: Manifest, *changes: Change) -> Manifest:
    for change in changes:
        outcome = apply(state, Transaction(id=f"t{state.transaction.number}", at="2026-02-01", change=change))
        assert isinstance(outcome, Manifest), outcome
        state = outcome
    return state


def state_of(count: int) -> Manifest:
    return after(born(), add(*(new_file(f"f{place}") for place in range(count))))


def body_at(storage: MemoryStorage, key: str = KEY) -> bytes:
    found = storage.get(key)
    assert found is not None
    return found.body


def segments_in(storage: MemoryStorage) -> list[str]:
    return [entry.key for entry in storage.list(layout.segments_prefix("t", "s"))]


def test_a_short_state_is_what_every_version_reads() -> None:
    storage = empty()
    state = state_of(TINY.whole)
    kept, body = to_stored(SegmentObjects(storage, "t", "s"), state, ())
    assert body == manifests.to_json(state)
    assert kept is state
    assert segments_in(storage) == []


def test_a_long_state_is_a_head_with_segments_and_the_same_state_when_it_is_read() -> None:
    storage = empty()
    state = state_of(7)
    kept, body = to_stored(SegmentObjects(storage, "t", "s"), state, ())
    head = json.loads(body)
    assert (head["format"], head["features"]) == (1, ["segments"])
    assert [segment["offset"] for segment in head["segments"]] == [0, 9, 18]
    assert head["files"] == []
    read = read_manifest(body, key=KEY, storage=storage)
    assert read == state == kept
    assert len(segments_in(storage)) == 3


def test_a_head_names_what_is_left_in_the_segments_that_were_there() -> None:
    storage = empty()
    kept, body = to_stored(SegmentObjects(storage, "t", "s"), state_of(9), ())
    grown = after(kept, add(new_file("new")))
    again, second = to_stored(SegmentObjects(storage, "t", "s"), grown, kept.files.segments)
    assert named_in(second)[:3] == named_in(body)
    assert json.loads(second)["files"][0]["id"] == "new"
    assert again == grown


def test_a_stream_that_shrank_is_whole_again() -> None:
    storage = empty()
    kept, _ = to_stored(SegmentObjects(storage, "t", "s"), state_of(7), ())
    join = ReplaceFiles(old=tuple(f"f{place}" for place in range(7)), new=(new_file("all", 21),))
    whole, body = to_stored(SegmentObjects(storage, "t", "s"), after(kept, join), kept.files.segments)
    assert body == manifests.to_json(after(state_of(7), join))
    assert not json.loads(body).keys() & {"features", "segments"}
    assert whole.files.segments == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head["segments"][0].pop("name"),
        lambda head: head["segments"][0].update(offset="0"),
        lambda head: head["segments"][0].update(versions=[]),
        lambda head: head.update(segments={}),
        lambda head: head["segments"][0].update(ids=["a"]),
    ],
)
def test_a_head_that_is_none_is_refused(change: Callable[[dict[str, object]], object]) -> None:
    storage = empty()
    head = json.loads(to_stored(SegmentObjects(storage, "t", "s"), state_of(7), ())[1])
    change(head)
    with pytest.raises(CorruptObjectError, match="not a manifest"):
        read_manifest(json.dumps(head).encode(), key=KEY, storage=storage)


def test_what_publishes_takes_over_what_others_published(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = empty()
    theirs = state_of(10)
    publish_manifest(SegmentObjects(storage, "t", "s"), theirs)
    before = named_in(body_at(storage))
    own = after(state_of(10), add(new_file("one"), new_file("two")))
    publish_manifest(SegmentObjects(storage, "t", "s"), own)
    assert named_in(body_at(storage))[:3] == before[:3]
    assert read_manifest(body_at(storage), key=KEY, storage=storage) == own
    assert len(segments_in(storage)) == 5


def test_segments_of_an_older_state_are_not_named_again() -> None:
    storage = empty()
    publish_manifest(SegmentObjects(storage, "t", "s"), state_of(7))
    older = read_manifest(body_at(storage), key=KEY, storage=storage)
    # Somebody else published meanwhile, and let go of what the older state names.
    storage.delete(KEY)
    publish_manifest(SegmentObjects(storage, "t", "s"), state_of(8))
    now = {segment.name for segment in named_in(body_at(storage))}
    assert not now & {segment.name for segment in older.files.segments}
    publish_manifest(SegmentObjects(storage, "t", "s"), after(older, add(new_file("f7")), add(new_file("own"))))
    named = {segment.name for segment in named_in(body_at(storage))}
    assert not named & {segment.name for segment in older.files.segments}


def test_no_head_is_stored_where_a_segment_could_not_be() -> None:
    storage = empty()
    publish_manifest(SegmentObjects(storage, "t", "s"), state_of(2))
    before = body_at(storage)

    def fail(step: Step) -> None:
        if layout.SEGMENTS in step.key:
            raise ConnectionError("down")

    storage.hook = fail
    with pytest.raises(ConnectionError):
        publish_manifest(
            SegmentObjects(storage, "t", "s"), after(state_of(2), add(*(new_file(f"g{place}") for place in range(5))))
        )
    storage.hook = lambda step: None
    assert body_at(storage) == before


FILES = st.integers(0, 12)


@given(st.data())
def test_a_fold_over_segments_is_the_fold_over_the_whole(data: st.DataObject) -> None:
    """Whatever happens to a stream, and wherever its state is stored and read again on the way."""
    storage = empty()
    whole = partial = born()
    made = 0
    for _ in range(data.draw(st.integers(1, 14))):
        change, made = _change(data, whole, made)
        transaction = Transaction(id=f"t{whole.transaction.number}", at="2026-02-01T00:00:00Z", change=change)
        one, other = apply(whole, transaction), apply(partial, transaction)
        if isinstance(one, Conflict) or isinstance(other, Conflict):
            assert one == other
            continue
        whole, partial = one, other
        if data.draw(st.booleans()):
            partial, body = to_stored(SegmentObjects(storage, "t", "s"), partial, partial.files.segments)
            if data.draw(st.booleans()):
                partial = read_manifest(body, key=KEY, storage=storage)
        assert partial == whole
        assert (partial.floor, partial.next_offset) == (whole.floor, whole.next_offset)
        offset = data.draw(st.integers(0, whole.next_offset))
        assert partial.files_from(offset) == whole.files_from(offset)


def _change(data: st.DataObject, state: Manifest, made: int) -> tuple[Change, int]:
    kind = data.draw(st.sampled_from(("add", "add", "again", "join", "erase", "expire", "retire", "collect")))
    listed = list(state.files)
    if kind == "again" and listed:
        some = data.draw(st.lists(st.sampled_from(listed), min_size=1, max_size=2, unique_by=lambda file: file.id))
        old = tuple(new_file(file.id, file.messages) for file in some)
        return AddFiles(files=(*old, new_file(f"f{made}")), schemas=add(new_file("x")).schemas), made + 1
    if kind in ("join", "erase") and listed:
        start = data.draw(st.integers(0, len(listed) - 1))
        some = listed[start : start + (data.draw(st.integers(1, 3)) if kind == "join" else 1)]
        file = new_file(f"f{made}", sum(each.messages for each in some))
        holes = sum(each.erased for each in some)
        if kind == "erase":
            return EraseFiles(old=(some[0].id,), new=(with_holes(file, file.messages),)), made + 1
        return ReplaceFiles(old=tuple(each.id for each in some), new=(with_holes(file, holes),)), made + 1
    if kind == "expire":
        return ExpireFiles(before=data.draw(st.integers(0, state.next_offset)), lineage=state.lineage), made
    if kind == "retire":
        id = data.draw(st.sampled_from([f"f{number}" for number in range(made + 2)]))
        return RetireFiles(files=((id, f"x/{id}"),)), made
    if kind == "collect" and state.retired:
        ids = tuple(data.draw(st.lists(st.sampled_from([each.id for each in state.retired]), unique=True, max_size=3)))
        step = data.draw(st.sampled_from(("shown", "deleted", "forgotten")))
        return CollectFiles(**{"shown": (), "deleted": (), "forgotten": (), step: ids}), made
    count = data.draw(st.integers(1, 4))
    files = [new_file(f"f{made + number}", schema=data.draw(st.sampled_from((0, 1)))) for number in range(count)]
    return add(*files), made + count


def test_sizes_are_the_ones_the_page_says() -> None:
    assert asdict(stored.Sizes()) == {"whole": 20_000, "segment": 5_000, "tail": 500}
