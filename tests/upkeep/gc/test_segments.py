"""Collecting the segments of a stream: each step waits for a grace time, and for what may still happen by then."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.state import fold
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Transaction
from singerlake.stores.segments import stored
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import named_in, to_stored
from singerlake.upkeep.gc.segments import CollectedSegments, Unnamed, collect_segments
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage

GRACE = timedelta(hours=1)


class Stream:
    """A stream whose last state has other segments than the one before it, on a storage with a clock."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.storage = MemoryStorage(clock=self.clock, ids=counting_ids())
        self.key = layout.manifest_key("t", "s")
        self.state = fold.empty(tap="t", stream="s", store="log", lineage="l", created="2026", transaction_id="0")

    def grow(self) -> tuple[Manifest, bytes]:
        """A state with one file more, whose segment is stored, and the state is not."""
        change = add(new_file(f"{len(self.state.files):016d}"))
        after = fold.apply(self.state, Transaction(id=f"{len(self.state.files) + 1}", at="2026", change=change))
        assert isinstance(after, Manifest)
        self.state, body = to_stored(SegmentObjects(self.storage, "t", "s"), after, ())
        return self.state, body

    def publish(self, body: bytes) -> tuple[str, ...]:
        """Store a state; gives the names of its segments."""
        self.storage.put(self.key, body)
        return tuple(segment.name for segment in named_in(body))

    def later(self, share: float) -> None:
        """Let so many grace times pass."""
        self.clock.sleep(share * GRACE.total_seconds())

    def collect(self, *, delete: bool = True) -> CollectedSegments:
        return collect_segments(SegmentObjects(self.storage, "t", "s"), time=self.clock.now, grace=GRACE, delete=delete)

    def has(self, name: str) -> bool:
        return self.storage.get(layout.segment_key("t", "s", name)) is not None

    def noted(self) -> Unnamed:
        found = self.storage.get(layout.segments_prefix("t", "s") + layout.UNNAMED_SEGMENTS)
        return decode(found.body, Unnamed) if found else Unnamed()


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.setattr(stored, "SIZES", Sizes(whole=0, segment=100, tail=0))
    return Stream()


def test_what_no_state_names_is_deleted_by_the_third_look_a_grace_time_apart(stream: Stream) -> None:
    (old,) = stream.publish(stream.grow()[1])
    (new,) = stream.publish(stream.grow()[1])
    stream.later(1.5)
    for _ in range(2):
        assert stream.collect().keys == ()
        assert list(stream.noted().unnamed) == [old]
        stream.later(0.6)
    assert stream.collect().waiting.files == 1
    assert (stream.noted().unnamed, list(stream.noted().abandoned)) == ({}, [old])
    stream.later(1.1)
    assert stream.collect(delete=False).keys == stream.collect().keys == (layout.segment_key("t", "s", old),)
    assert (stream.has(old), stream.has(new)) == (False, True)
    assert stream.noted() == Unnamed()


def test_what_was_just_written_is_not_noted_before_a_state_names_it(stream: Stream) -> None:
    stream.publish(stream.grow()[1])
    _, body = stream.grow()
    stream.later(0.9)
    assert stream.collect().waiting.files == 1
    assert stream.noted() == Unnamed()
    stream.publish(body)
    stream.later(0.5)
    stream.collect()
    assert len(stream.noted().unnamed) == 1


def test_what_comes_into_a_snapshot_again_begins_anew(stream: Stream) -> None:
    _, old = stream.grow()
    (name,) = stream.publish(old)
    stream.publish(stream.grow()[1])
    stream.later(1.1)
    stream.collect()
    assert name in stream.noted().unnamed
    snapshot = layout.log_prefix("t", "s") + layout.log_snapshot_name(1)
    stream.storage.put(snapshot, old)
    stream.later(1.1)
    stream.collect()
    assert stream.noted() == Unnamed()
    stream.storage.delete(snapshot)
    for left in (True, True, False):
        stream.later(1.1)
        stream.collect()
        assert stream.has(name) is left


def test_times_are_noted_as_late_as_the_states_were_read(stream: Stream) -> None:
    stream.publish(stream.grow()[1])
    stream.publish(stream.grow()[1])
    stream.later(1.1)
    times = iter((stream.clock.now(), stream.clock.now() + GRACE))

    def time() -> datetime:
        return next(times)

    collect_segments(SegmentObjects(stream.storage, "t", "s"), time=time, grace=GRACE, delete=True)
    stream.later(1.5)
    stream.collect()
    assert len(stream.noted().unnamed) == 1


def test_without_manifest_json_nothing_is_done(stream: Stream) -> None:
    stream.grow()
    stream.later(2)
    assert stream.collect().waiting.files == 1
    assert stream.noted() == Unnamed()


def test_a_state_that_cannot_be_read_stops_it(stream: Stream) -> None:
    stream.publish(stream.grow()[1])
    stream.storage.put(layout.log_prefix("t", "s") + layout.log_snapshot_name(1), b"[]")
    with pytest.raises(CorruptObjectError):
        stream.collect()


@pytest.mark.parametrize("format", ["0", "2"])
def test_what_another_format_notes_is_left_alone(stream: Stream, format: str) -> None:
    stream.publish(stream.grow()[1])
    body = f'{{"format":{format},"unnamed":{{}},"abandoned":{{}}}}'.encode()
    key = layout.segments_prefix("t", "s") + layout.UNNAMED_SEGMENTS
    stream.storage.put(key, body)
    with pytest.raises(UnsupportedFormatError, match=f"format {format}"):
        stream.collect()
    found = stream.storage.get(key)
    assert found is not None
    assert found.body == body
