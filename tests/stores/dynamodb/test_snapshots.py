"""Snapshots of the log in DynamoDB: the pointer, the floor, removal, and a crash at every step of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError
from singerlake.format.state.transactions import Transaction
from singerlake.storage.port import Stored
from singerlake.stores.dynamodb import log as dynamodb_log
from singerlake.stores.port import Loaded, Outdated
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.dynamodb.dynamo import FOLDER, PLACES, Stream, filled, numbers, open_place, state_at


@pytest.fixture(params=PLACES)
def stream(request: pytest.FixtureRequest) -> Stream:
    return open_place(request)


class TestSnapshots:
    def test_the_pointer_never_goes_back(self, stream: Stream) -> None:
        newer = state_at(5)
        stream.log().snapshot(newer)
        stream.log().snapshot(state_at(3))
        assert stream.log().base() == newer
        assert len(stream.objects()) == 1

    @pytest.mark.parametrize("number", [5, 7], ids=["the same number", "a newer one"])
    def test_of_two_snapshotters_the_newer_or_the_first_is_pointed_at(self, stream: Stream, number: int) -> None:
        other = state_at(number)

        def overtake(step: Step) -> None:
            if step.operation == "put" and step.done:
                stream.storage.hook = quiet
                stream.log().snapshot(other)

        stream.storage.hook = overtake
        log = stream.log()
        log.snapshot(state_at(5))
        assert stream.log().base() == other
        log.raise_floor(5)
        log.remove(5, dry_run=False)
        assert len(stream.objects()) == 1
        assert stream.log().base() == other

    @pytest.mark.parametrize("operation", ["put", "get"])
    def test_a_snapshot_that_is_not_pointed_at_yet_is_not_removed(self, stream: Stream, operation: str) -> None:
        log, newer = stream.log(), state_at(9)
        log.snapshot(state_at(5))
        log.raise_floor(5)

        def collect(step: Step) -> None:
            if (step.operation, step.done) == (operation, True) and step.key.startswith(FOLDER + f"{9:020d}"):
                stream.storage.hook = quiet
                stream.log().remove(5, dry_run=False)

        stream.storage.hook = collect
        log.snapshot(newer)
        assert stream.log().base() == newer

    @pytest.mark.parametrize("body", [None, b"{", b'{"format":1}'], ids=repr)
    def test_a_snapshot_that_is_missing_or_broken_is_an_error_that_names_it(
        self, stream: Stream, body: bytes | None
    ) -> None:
        stream.log().snapshot(state_at(5))
        (name,) = stream.objects()
        stream.storage.delete(FOLDER + name)
        if body is not None:
            stream.storage.put(FOLDER + name, body)
        with pytest.raises(CorruptObjectError, match=FOLDER + name):
            stream.log().base()

    def test_a_snapshot_of_another_number_is_an_error(self, stream: Stream) -> None:
        stream.log().snapshot(state_at(5))
        stream.log().snapshot(state_at(6))
        old, new = stream.objects()
        stored = stream.storage.get(FOLDER + old)
        assert stored is not None
        stream.storage.put(FOLDER + new, stored.body)
        with pytest.raises(CorruptObjectError, match=FOLDER + new):
            stream.log().base()

    def test_a_snapshot_that_does_not_read_back_is_not_pointed_at(
        self, stream: Stream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log, get = stream.log(), stream.storage.get

        def cut(key: str) -> Stored | None:
            stored = get(key)
            return stored and Stored(stored.body[:-1], stored.etag, stored.last_modified)

        monkeypatch.setattr(stream.storage, "get", cut)
        with pytest.raises(CorruptObjectError, match="read back"):
            log.snapshot(state_at(5))
        assert log.base() is None

    def test_a_reader_follows_the_pointer_when_its_snapshot_was_removed_meanwhile(self, stream: Stream) -> None:
        log, newer = stream.log(), state_at(7)
        log.snapshot(state_at(5))

        def overtake(step: Step) -> None:
            if step.operation == "get" and step.key.startswith(FOLDER + f"{5:020d}"):
                stream.storage.hook = quiet
                stream.log().snapshot(newer)
                stream.log().raise_floor(6)
                stream.log().remove(6, dry_run=False)

        stream.storage.hook = overtake
        assert log.base() == newer


class TestFloor:
    def test_the_floor_only_rises(self, stream: Stream) -> None:
        log = stream.log()
        log.snapshot(state_at(9))
        for number, expected in ((4, 4), (2, 4), (4, 4), (9, 9)):
            log.raise_floor(number)
            assert log.floor() == expected

    @pytest.mark.parametrize("snapshot", [None, 3])
    def test_no_floor_is_above_the_snapshot(self, stream: Stream, snapshot: int | None) -> None:
        log = filled(stream, 5)
        if snapshot is not None:
            log.snapshot(state_at(snapshot))
        with pytest.raises(CorruptObjectError, match="no snapshot covers"):
            log.raise_floor(4)
        assert log.floor() == -1

    def test_a_number_that_was_removed_is_never_used_again(self, stream: Stream) -> None:
        log = filled(stream, 5)
        log.snapshot(state_at(4))
        log.raise_floor(2)
        log.remove(2, dry_run=False)
        assert not any(stream.log().append(number, b"late") for number in (0, 1, 2))
        assert numbers(log) == [3, 4]

    @pytest.mark.parametrize(("up_to", "left"), [(-1, [0, 1, 2, 3, 4]), (0, [1, 2, 3, 4]), (2, [3, 4]), (4, [])])
    def test_none_some_or_all_are_removed(self, stream: Stream, up_to: int, left: list[int]) -> None:
        log = filled(stream, 5)
        log.snapshot(state_at(4))
        log.raise_floor(4)
        assert log.remove(up_to, dry_run=True) == 5 - len(left)
        assert numbers(log) == [0, 1, 2, 3, 4]
        assert log.remove(up_to, dry_run=False) == 5 - len(left)
        assert numbers(log) == left
        assert log.remove(up_to, dry_run=False) == 0
        assert stream.log().base() is not None

    def test_nothing_above_the_floor_is_removed(self, stream: Stream) -> None:
        log = filled(stream, 5)
        log.snapshot(state_at(4))
        log.raise_floor(1)
        assert log.remove(4, dry_run=False) == 2
        assert numbers(log) == [2, 3, 4]

    def test_more_are_removed_than_one_batch_holds(self, stream: Stream) -> None:
        log = filled(stream, 60)
        log.snapshot(state_at(59))
        log.raise_floor(55)
        assert log.remove(55, dry_run=False) == 56
        assert numbers(log) == [56, 57, 58, 59]

    def test_a_trim_counts_before_what_it_then_removes(self, stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dynamodb_log, "LARGEST_ITEM", 700)
        base = stream.born()
        for _ in range(3):
            base = stream.committed(base, *(add(new_file(random_id())) for _ in range(4)))
            planned = stream.store().trim(keep=2)
            assert stream.store().trim(keep=2, dry_run=False) == planned
            assert planned.transactions < planned.keys  # some bodies were objects
            assert stream.store().trim(keep=2).keys == 0

    def test_a_writer_that_slept_through_a_trim_is_refused_and_catches_up(self, stream: Stream) -> None:
        old = stream.born()
        stream.committed(old, *(add(new_file(f"f{number}")) for number in range(6)))
        stream.store().trim(keep=1, dry_run=False)
        late = Transaction(id=random_id(), at="2026-02", change=add(new_file("late")))
        assert isinstance(stream.store().commit(old, late), Outdated)
        stream.committed(old, late.change)
        assert stream.listed() == ["f0", "f1", "f2", "f3", "f4", "f5", "late"]


class Crash(BaseException):
    """The end of a process."""


def steps_of_a_trim(stream: Stream, act: Callable[[], None], step: int) -> None:
    """Trim, and ``act`` at one of its effects: an even ``step`` is before, an odd one after the effect ``step // 2``.
    Raises ``IndexError`` where the trim has no such step."""
    seen = 0

    def count(effect: bool) -> None:
        nonlocal seen
        if effect:
            seen += 1
            if seen == step + 1:
                act()

    table = stream.table()
    table.hook = lambda operation, done: count(operation in ("transact_write_items", "batch_write_item"))
    stream.storage.hook = lambda at: count(at.operation in ("put", "delete") and "/_log/" in at.key)
    try:
        stream.store(table).trim(keep=1, dry_run=False)
    finally:
        stream.storage.hook = quiet
    if seen <= step:
        raise IndexError(step)


def quiet(step: Step) -> None:
    del step


STEPS = 16
"""Before and after: the snapshot, its pointer, the floor, the items, and four objects (three bodies, a snapshot)."""


@pytest.fixture
def trimmed_before(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """A log with a snapshot, a floor, three records to remove, and all their bodies as objects."""
    monkeypatch.setattr(dynamodb_log, "LARGEST_ITEM", 0)
    base = stream.committed(stream.born(), add(new_file("a")), add(new_file("b")))
    stream.store().trim(keep=1, dry_run=False)
    return stream.committed(base, add(new_file("c")), add(new_file("d")), add(new_file("e")))


@pytest.mark.sampled(step=4)
@pytest.mark.parametrize("step", range(STEPS))
def test_a_crash_at_any_step_of_a_trim_leaves_a_log_that_can_be_read_and_trimmed(
    stream: Stream, trimmed_before: Loaded, step: int
) -> None:
    def crash() -> None:
        raise Crash

    reader = stream.store()
    with pytest.raises(Crash):
        steps_of_a_trim(stream, crash, step)
    assert stream.listed() == ["a", "b", "c", "d", "e"]
    assert reader.catch_up(trimmed_before) == trimmed_before
    stream.committed(trimmed_before, add(new_file("f")))
    stream.store().trim(keep=1, dry_run=False)
    assert sorted(stream.items()) == [6]
    assert stream.kinds() == [(6, "body"), (6, "snapshot")]
    assert stream.listed() == ["a", "b", "c", "d", "e", "f"]


def test_a_trim_has_no_more_steps_than_those(stream: Stream, trimmed_before: Loaded) -> None:
    del trimmed_before
    with pytest.raises(IndexError):
        steps_of_a_trim(stream, lambda: None, STEPS)


@pytest.mark.sampled(step=4)
@pytest.mark.parametrize("step", range(STEPS))
def test_another_trim_and_commit_at_any_step_of_a_trim_break_neither(
    stream: Stream, trimmed_before: Loaded, step: int
) -> None:
    def other() -> None:
        stream.storage.hook = quiet
        stream.committed(trimmed_before, add(new_file("f")))
        stream.store().trim(keep=0, dry_run=False)

    steps_of_a_trim(stream, other, step)
    assert stream.listed() == ["a", "b", "c", "d", "e", "f"]
    log = stream.log()
    assert log.floor() == 6
    base = log.base()
    assert base is not None
    assert base.transaction.number == 6
    log.remove(6, dry_run=False)
    assert len(stream.objects()) == 1
