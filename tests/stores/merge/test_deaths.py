"""Processes that die or stop at any request, and what they put where nobody looks any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.errors import RetryableError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format.exact_json import decode, encode
from singerlake.format.merge.patch import MergeEntry, to_transaction
from singerlake.storage.port import Written
from singerlake.stores.merge.entries import StoredEntry
from singerlake.stores.merge.log import SettleRecord
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.port import Pending
from tests.storage.memory import Step
from tests.stores.merge.merging import LOG, Crew, consistent, old_log


@pytest.mark.parametrize("done", [False, True])
def test_a_settler_that_dies_at_any_request_leaves_a_log_that_goes_on(done: bool) -> None:
    class Died(BaseException):
        pass

    deaths = 0
    for at in range(100):
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        pending, other = ada.commit("a"), bob.commit("b")
        crew.wait()
        count = iter(range(1000))

        def hook(step: Step, count: Iterator[int] = count, at: int = at) -> None:
            if step.done is done and next(count) == at:
                raise Died

        crew.storage.hook = hook
        try:
            ada.settle(pending)
        except Died:
            deaths += 1
        else:
            break
        crew.storage.hook = lambda step: None
        bob.settled(other)
        consistent(crew, {"a", "b"})
    assert deaths > 5


@pytest.mark.parametrize("done", [False, True])
def test_a_trim_that_dies_at_any_request_leaves_a_log_that_goes_on(done: bool) -> None:
    class Died(BaseException):
        pass

    deaths = 0
    for at in range(200):
        crew = Crew()
        crew.born()
        files = old_log(crew, 3)
        straggler = crew.member().commit("late")
        crew.wait(60)
        count = iter(range(1000))

        def hook(step: Step, count: Iterator[int] = count, at: int = at) -> None:
            if step.done is done and next(count) == at:
                raise Died

        crew.storage.hook = hook
        try:
            crew.member().store.trim(keep=1, dry_run=False)
        except Died:
            deaths += 1
        else:
            break
        crew.storage.hook = lambda step: None
        writer = crew.member()
        writer.settled(writer.commit("next"))
        crew.member().store.trim(keep=1, dry_run=False)
        assert sorted(crew.listed()) == sorted(files | {"late", "next"}), straggler
        assert crew.listed()[-1] == "next"
    assert deaths > 15


def test_an_append_that_wakes_up_below_the_floor_fools_nobody() -> None:
    """A settler stops before its record is sent; the others settle, and trim that number away. What it then puts there
    is a second log that leads nowhere."""
    crew = Crew()
    crew.born()
    ada, bob, behind = crew.member(), crew.member(), crew.member()
    behind.known()
    pending = ada.commit("a")
    crew.wait()
    stopped: list[bool] = []

    def hook(step: Step) -> None:
        if step.operation == "put" and not step.done and "/0000" in step.key and not stopped:
            stopped.append(True)
            crew.storage.hook = lambda step: None
            for number in range(4):
                bob.settled(bob.commit(f"b{number}"))
                crew.wait(100)
            crew.member().store.trim(keep=1, dry_run=False)
            assert crew.storage.head(step.key) is None

    crew.storage.hook = hook
    for _ in range(5):
        if ada.settle(pending) is not None:
            break
    assert stopped
    assert crew.storage.head(f"{LOG}00000000000000000001.json") is not None
    expected = ["a", "b0", "b1", "b2", "b3"]
    assert [file.id for file in ada.settled(pending).files] == expected
    assert crew.listed() == expected
    caught = behind.store.catch_up(behind.known())
    assert caught is not None
    assert caught.manifest == crew.state()
    bob.settled(bob.commit("b4"))
    crew.wait(100)
    crew.member().store.trim(keep=1, dry_run=False)
    assert crew.listed() == [*expected, "b4"]


def haunt(crew: Crew, number: int, after: str, pending: Pending) -> str:
    """Put a record under a number that was trimmed, as a settler that was away for long may do; gives its key."""
    stored = crew.storage.get(pending.key)
    assert stored is not None
    held = StoredEntry(key=pending.key[len(LOG) :], transaction=to_transaction(decode(stored.body, MergeEntry)))
    record = SettleRecord(number=number, after=after, id="ghost", at="2026", since=0, until=1, entries=(held,))
    key = f"{LOG}{number:020d}.json"
    assert isinstance(crew.storage.put(key, encode(record), if_absent=True), Written)
    return key


@pytest.mark.parametrize("seen_first", [False, True])
def test_what_a_record_below_the_floor_says_of_a_transaction_is_not_believed(seen_first: bool) -> None:
    crew = Crew()
    birth = crew.born().manifest.transaction.id
    ada, bob = crew.member(), crew.member()
    ada.known()
    for number in range(4):
        bob.settled(bob.commit(f"b{number}"))
        crew.wait(60)
    crew.member().store.trim(keep=1, dry_run=False)
    pending = ada.commit("a")
    ghost = haunt(crew, 1, birth, pending)

    def hook(step: Step) -> None:
        if step.key.endswith("floor.json"):
            raise StorageUnavailableError("no answer", key=step.key)

    if seen_first:
        # Reading breaks off between the record and the floor that it is below.
        crew.storage.hook = hook
        with pytest.raises(StorageUnavailableError):
            ada.store.catch_up(ada.known())
        crew.storage.hook = lambda step: None
        crew.storage.delete(ghost)
        ada.base = bob.store.load()
    assert ada.store.catch_up(ada.known()) is not None
    assert ada.settle(pending) is None
    assert [file.id for file in ada.settled(pending).files] == ["b0", "b1", "b2", "b3", "a"]


def test_what_a_record_below_the_floor_holds_is_still_waiting_and_not_removed_with_it() -> None:
    crew = Crew()
    crew.born()
    ada, bob = crew.member(), crew.member()
    ada.known()
    bob.settled(bob.commit("b"))
    for number in range(3):
        crew.wait(100)
        bob.settled(bob.commit(f"b{number}"))
    crew.member().store.trim(keep=1, dry_run=False)
    crew.wait(100)
    pending = ada.commit("a")
    first = next(iter(crew.records()))
    ghost = haunt(crew, first.number - 1, "nothing", pending)
    crew.member().store.trim(keep=1, dry_run=False)
    assert crew.storage.head(ghost) is None
    assert crew.storage.head(pending.key) is not None
    ada.settled(pending)
    assert crew.listed()[-1] == "a"


def test_what_a_record_below_the_floor_holds_is_still_settled_though_its_writer_is_dead() -> None:
    crew = Crew()
    crew.born()
    bob = crew.member()
    pending = crew.member().commit("a")
    entry = crew.storage._objects.pop(pending.key)
    for number in range(4):
        bob.settled(bob.commit(f"b{number}"))
        crew.wait(60)
    crew.member().store.trim(keep=1, dry_run=False)
    crew.storage._objects[pending.key] = entry
    first = next(iter(crew.records()))
    haunt(crew, first.number - 1, "nothing", pending)
    crew.member().store.trim(keep=1, dry_run=False)
    assert crew.listed() == ["b0", "b1", "b2", "b3", "a"]


def test_a_writer_that_is_told_nothing_by_storage_for_a_while_loses_nothing() -> None:
    """Every request may fail once, before its effect or after it."""
    for at in range(40):
        for done in (False, True):
            for error in (UnknownOutcomeError, RetryableError):
                if error is RetryableError and done:
                    continue
                crew = Crew(settings=MergeSettings(touch=0))
                crew.born()
                writer = crew.member()
                writer.known()
                count = iter(range(10_000))

                def hook(
                    step: Step,
                    count: Iterator[int] = count,
                    at: int = at,
                    done: bool = done,
                    error: type[Exception] = error,
                ) -> None:
                    writes = step.operation == "put"
                    if step.done is done and (writes or error is RetryableError) and next(count) == at:
                        raise error("no answer")

                crew.storage.hook = hook
                for name in ("a", "b"):
                    pending = None
                    while pending is None:
                        try:
                            pending = writer.commit(name)
                        except (UnknownOutcomeError, RetryableError):
                            crew.wait(0.1)
                    crew.wait()
                    for _ in range(20):
                        try:
                            if writer.settle(pending) is not None:
                                break
                        except RetryableError:
                            pass
                        crew.wait(1)
                crew.storage.hook = lambda step: None
                consistent(crew, {"a", "b"})
                assert crew.listed() == ["a", "b"]
