"""Every write of a stream's state carries its condition, whatever the probe found out about the storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.errors import ConditionNotSupportedError
from singerlake.format import layout
from singerlake.lock_file import Lock, LockSettings
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Capabilities, Refused, Written
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.port import Loaded
from singerlake.stores.publish import publish_manifest
from singerlake.stores.segments.objects import SegmentObjects
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import MemoryStorage, Step
from tests.stores.stores import ON_THE_LAKE, Place

KEY = layout.manifest_key("t", "s")
IGNORES = Capabilities(conditional_put=False, conditional_delete=False)


class Slandered(MemoryStorage):
    """Honours all conditions, and is believed to honour none."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock(), ids=counting_ids())
        self.unconditional: list[str] = []

    def capabilities(self) -> Capabilities:
        return IGNORES

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        if not if_absent and if_match is None:
            self.unconditional.append(key)
        return super().put(key, body, if_absent=if_absent, if_match=if_match)


class SlanderedPlace(Place):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.storage = Slandered()
        object.__setattr__(self.lake, "storage", self.storage)


def interrupt(storage: MemoryStorage, other: Iterator[object], *, done: bool = False) -> None:
    """Let ``other`` happen between the look and the write of the next put to the manifest."""

    def hook(step: Step) -> None:
        if (step.operation, step.key, step.done) == ("put", KEY, done):
            storage.hook = lambda _: None
            next(other)

    storage.hook = hook


@pytest.mark.parametrize("kind", [kind for kind in ON_THE_LAKE if kind != "log"])
def test_nothing_of_the_state_is_written_without_a_condition(kind: str) -> None:
    place = SlanderedPlace(kind)
    place.committed(place.born(), add(new_file("a")), add(new_file("b")))
    place.store().publish(Loaded(place.state(), ""), run_ended=True)
    place.store().trim(keep=0, dry_run=False)
    assert isinstance(place.storage, Slandered)
    written = {key.rpartition("/")[2] for key in place.storage.unconditional}
    assert written <= {"last_change"}
    assert place.listed() == ["a", "b"]


def test_the_log_is_not_kept_on_such_a_storage() -> None:
    with pytest.raises(ConditionNotSupportedError, match="ignores conditional writes"):
        SlanderedPlace("log").born()


def test_two_writers_of_one_manifest_lose_nothing_to_a_probe_that_was_wrong() -> None:
    place = SlanderedPlace("lockfile")
    base = place.born()

    def other() -> Iterator[object]:
        yield place.commit(base, add(new_file("b")))

    interrupt(place.storage, other())
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Loaded)
    assert place.listed() == ["b", "a"]


def test_a_publication_does_not_overwrite_a_newer_one_for_a_probe_that_was_wrong() -> None:
    place = SlanderedPlace("merge")
    old = place.born().manifest
    new = place.committed(Loaded(old, "0"), add(new_file("a"))).manifest
    assert new.transaction.number > old.transaction.number
    place.storage.delete(KEY)

    def other() -> Iterator[object]:
        yield publish_manifest(SegmentObjects(place.storage, "t", "s"), new)

    interrupt(place.storage, other())
    publish_manifest(SegmentObjects(place.storage, "t", "s"), old)
    stored = place.storage.get(KEY)
    assert stored is not None
    assert b'"number":%d' % new.transaction.number in stored.body


def test_of_two_locks_written_at_once_one_is_taken_for_a_probe_that_was_wrong() -> None:
    storage, clock, ids = Slandered(), FakeClock(), counting_ids()
    key = layout.stream_lock_key("t", "s")
    settings = LockSettings(max_wait=1, stale_after=30, refresh=10)
    other = Lock(storage, key, "bob", settings, clock, ids)

    def hook(step: Step) -> None:
        if (step.operation, step.done) == ("put", False):
            storage.hook = lambda _: None
            other.acquire()

    storage.hook = hook
    mine = Lock(storage, key, "ada", settings, clock, ids)
    with pytest.raises(Exception, match="writer bob has held the lock"):
        mine.acquire()
    assert other.refresh()


@pytest.mark.parametrize("kind", ["lockfile", "merge"])
def test_a_storage_that_answers_501_to_conditions_is_written_without(kind: str) -> None:
    place = Place(kind)
    place.storage = MemoryStorage(clock=place.clock, ids=place.ids, refuse_conditions=True)
    object.__setattr__(place.lake, "storage", place.storage)
    place.committed(place.born(), add(new_file("a")), add(new_file("b")))
    place.store().trim(keep=0, dry_run=False)
    place.lake.announce(place.state())
    assert place.listed() == ["a", "b"]
    assert place.lake.root_metadata() is not None


def test_without_conditions_what_came_on_top_is_seen_and_the_commit_tried_again() -> None:
    place = Place("lockfile", ignore_conditions=True)
    base = place.born()
    theirs = LockfileStore(place.storage, "t", "s")

    def other() -> Iterator[object]:
        yield theirs.commit(base, place.transaction(add(new_file("b"))))

    interrupt(place.storage, other(), done=True)
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Loaded)
    assert "a" in place.listed()


@pytest.mark.parametrize("options", [{}, {"ignore_conditions": True}, {"refuse_conditions": True}])
def test_put_on_condition_refuses_what_is_not_as_it_was(options: dict[str, bool]) -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids(), **options)
    first = put_on_condition(storage, "a", b"1", etag=None)
    assert isinstance(first, Written)
    assert isinstance(put_on_condition(storage, "a", b"2", etag=None), Refused)
    second = put_on_condition(storage, "a", b"2", etag=first.etag)
    assert isinstance(second, Written)
    assert isinstance(put_on_condition(storage, "a", b"3", etag=first.etag), Refused)
    storage.delete("a")
    assert isinstance(put_on_condition(storage, "a", b"3", etag=second.etag), Refused)
    assert storage.get("a") is None
