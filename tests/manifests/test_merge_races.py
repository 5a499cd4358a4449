"""Every way in which two or three of a stream's writers, readers and trimmers can come between each other's requests,
as far as a few changes from one to another go (most races need no more than two)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from singerlake.errors import StorageUnavailable, TryAgainLater, UnknownOutcome
from singerlake.format import fold
from singerlake.format.exact_json import decode, encode
from singerlake.format.fold import Conflict
from singerlake.format.merge_patch import Entry, to_transaction
from singerlake.format.transactions import ReplaceFiles
from singerlake.manifests.merge_entries import Held
from singerlake.manifests.merge_log import SettleRecord
from singerlake.manifests.merge_settings import MergeSettings
from singerlake.manifests.port import Loaded, Pending
from singerlake.storage.memory import Step
from singerlake.storage.port import Written
from tests.format.test_fold import new_file
from tests.manifests.merging import LOG, Crew, Member

Act = Callable[[], object]


class _Turns:
    """Threads that run one at a time, each up to its next request to storage, in an order that is given."""

    def __init__(self, acts: list[Act]) -> None:
        self._acts = acts
        self._mine = [threading.Semaphore(0) for _ in acts]
        self._back = threading.Semaphore(0)
        self._who = threading.local()
        self._done = [False for _ in acts]
        self.errors: list[BaseException] = []

    def hook(self, step: Step) -> None:
        place = getattr(self._who, "place", None)
        if place is not None and not step.done:
            self._back.release()
            self._mine[place].acquire()

    def run(self, switches: tuple[tuple[int, int], ...]) -> list[tuple[int, list[int]]]:
        """``switches``: before which step to go over to whom. Gives, for each step, who might have run instead."""
        threads = [threading.Thread(target=self._act, args=(place,), daemon=True) for place in range(len(self._acts))]
        for thread in threads:
            thread.start()
        planned, now, others = dict(switches), 0, []
        step = 0
        while not all(self._done):
            if self._done[now]:
                now = self._done.index(False)
            if step in planned and not self._done[planned[step]]:
                now = planned[step]
            others.append((now, [place for place, done in enumerate(self._done) if not done and place != now]))
            self._mine[now].release()
            self._back.acquire()
            step += 1
        for thread in threads:
            thread.join()
        return others

    def _act(self, place: int) -> None:
        self._who.place = place
        self._mine[place].acquire()
        try:
            self._acts[place]()
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._done[place] = True
            self._back.release()


@dataclass
class Race:
    """One stream and what happens to it at once. ``after`` looks at what came of it."""

    crew: Crew
    acts: list[Act]
    after: Callable[[], None]


def every_order(make: Callable[[], Race], *, switches: int) -> int:
    """Run a race in all orders with at most so many changes at a time of nobody's choosing; how many there were."""
    waiting: list[tuple[tuple[int, int], ...]] = [()]
    count = 0
    while waiting:
        plan = waiting.pop()
        race = make()
        turns = _Turns(race.acts)
        race.crew.storage.hook = turns.hook
        others = turns.run(plan)
        race.crew.storage.hook = lambda step: None
        for error in turns.errors:
            raise AssertionError(f"in the order {plan}") from error
        try:
            race.after()
        except AssertionError as error:
            raise AssertionError(f"in the order {plan}") from error
        count += 1
        if len(plan) < switches:
            begin = plan[-1][0] + 1 if plan else 0
            waiting += [
                (*plan, (step, other)) for step, (_, able) in enumerate(others) if step >= begin for other in able
            ]
    return count


def settle(member: Member, pending: Pending) -> Act:
    """Ask until it is known; others go on meanwhile."""

    def act() -> None:
        for _ in range(20):
            if member.settle(pending) is not None:
                return
        raise AssertionError("never settled")

    return act


def consistent(crew: Crew, expected: set[str]) -> None:
    """Everybody's files are there once, and every record continues the one before."""
    assert sorted(crew.listed()) == sorted(expected)
    records = list(crew.records())
    names = [held.key for record in records for held in record.entries]
    assert len(set(names)) == len(names)
    for one, other in pairwise(records):
        assert (other.number, other.after) == (one.number + 1, one.id)


def test_two_settlers_agree_on_one_order() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        pendings = [(writer, writer.commit(name)) for writer, name in ((ada, "a"), (bob, "b"), (ada, "a2"))]
        crew.wait()

        def after() -> None:
            consistent(crew, {"a", "b", "a2"})
            assert crew.listed().index("a") < crew.listed().index("a2")
            for writer, pending in pendings:
                outcome = writer.settle(pending)
                assert isinstance(outcome, Loaded)
                assert outcome.manifest == crew.state()

        return Race(crew, [settle(*pendings[0]), settle(*pendings[1])], after)

    assert every_order(make, switches=3) > 500


def test_three_settlers_agree_too() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        writers = [crew.member() for _ in range(3)]
        acts = [settle(writer, writer.commit(f"f{place}")) for place, writer in enumerate(writers)]
        crew.wait()
        return Race(crew, acts, lambda: consistent(crew, {"f0", "f1", "f2"}))

    assert every_order(make, switches=2) > 500


def test_a_commit_between_a_settler_s_requests_is_not_lost() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        pending = ada.commit("a")
        bob.known()
        crew.wait()
        late: list[Pending] = []

        def after() -> None:
            crew.wait()
            bob.settled(late[0])
            consistent(crew, {"a", "b"})
            assert crew.listed() == ["a", "b"]

        return Race(crew, [settle(ada, pending), lambda: late.append(bob.commit("b"))], after)

    assert every_order(make, switches=2) > 20


def test_of_two_replacements_settled_by_both_writers_at_once_exactly_one_is_void() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        ada.settled(ada.commit("a"))
        one = ada.commit(ReplaceFiles(old=("a",), new=(new_file("a1"),)))
        crew.wait(0.01)
        other = bob.commit(ReplaceFiles(old=("a",), new=(new_file("a2"),)))
        crew.wait()

        def after() -> None:
            consistent(crew, {"a1"})
            assert isinstance(ada.settle(one), Loaded)
            assert isinstance(bob.settle(other), Conflict)

        return Race(crew, [settle(ada, one), settle(bob, other)], after)

    assert every_order(make, switches=2) > 50


def old_log(crew: Crew, files: int) -> set[str]:
    """A log of so many records, old enough for a trim."""
    writer = crew.member()
    for number in range(files):
        writer.settled(writer.commit(f"f{number}"))
        crew.wait(10)
    return {f"f{number}" for number in range(files)}


def test_a_trim_takes_nothing_from_a_settler() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        files = old_log(crew, 4)
        ada = crew.member()
        pending = ada.commit("a")
        crew.wait()

        def after() -> None:
            assert sorted(crew.listed()) == sorted(files | {"a"})
            assert isinstance(ada.settle(pending), Loaded)

        return Race(crew, [settle(ada, pending), lambda: crew.member().store.trim(keep=1, dry_run=False)], after)

    assert every_order(make, switches=2) > 100


def test_a_reader_behind_a_trim_sees_what_everybody_sees() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        behind = crew.member()
        behind.known()
        files = old_log(crew, 4)
        seen: list[Loaded | None] = []

        def after() -> None:
            (found,) = seen
            assert found is not None
            assert found.manifest == crew.state()
            assert sorted(crew.listed()) == sorted(files)

        return Race(
            crew,
            [
                lambda: seen.append(behind.store.catch_up(behind.known())),
                lambda: crew.member().store.trim(keep=1, dry_run=False),
            ],
            after,
        )

    assert every_order(make, switches=2) > 200


def test_two_trims_at_once_leave_the_stream_whole() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        files = old_log(crew, 4)
        late = crew.member()
        late.commit("late")
        crew.wait(100)
        crew.storage._objects.pop(f"{LOG}last_change")
        trims: list[Act] = [lambda keep=keep: crew.member().store.trim(keep=keep, dry_run=False) for keep in (0, 2)]

        def after() -> None:
            assert sorted(crew.listed()) == sorted(files | {"late"})
            late.settled(late.held[0])
            assert crew.listed().count("late") == 1

        return Race(crew, trims, after)

    assert every_order(make, switches=1) > 50


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
    held = Held(key=pending.key[len(LOG) :], transaction=to_transaction(decode(stored.body, Entry)))
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
            raise StorageUnavailable("no answer", key=step.key)

    if seen_first:
        # Reading breaks off between the record and the floor that it is below.
        crew.storage.hook = hook
        with pytest.raises(StorageUnavailable):
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


def test_two_births_at_once_are_one() -> None:
    def make() -> Race:
        crew = Crew()
        born: list[Loaded] = []

        def birth(name: str) -> Act:
            first = fold.empty(tap="t", stream="s", store="merge", lineage=name, created="2026", transaction_id=name)
            return lambda: born.append(crew.member().store.create(first))

        def after() -> None:
            one, other = born
            assert one.manifest == other.manifest == crew.state()

        return Race(crew, [birth("x"), birth("y")], after)

    assert every_order(make, switches=2) > 50


def test_a_writer_that_is_told_nothing_by_storage_for_a_while_loses_nothing() -> None:
    """Every request may fail once, before its effect or after it."""
    for at in range(40):
        for done in (False, True):
            for error in (UnknownOutcome, TryAgainLater):
                if error is TryAgainLater and done:
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
                    if step.done is done and (writes or error is TryAgainLater) and next(count) == at:
                        raise error("no answer")

                crew.storage.hook = hook
                for name in ("a", "b"):
                    pending = None
                    while pending is None:
                        try:
                            pending = writer.commit(name)
                        except (UnknownOutcome, TryAgainLater):
                            crew.wait(0.1)
                    crew.wait()
                    for _ in range(20):
                        try:
                            if writer.settle(pending) is not None:
                                break
                        except TryAgainLater:
                            pass
                        crew.wait(1)
                crew.storage.hook = lambda step: None
                consistent(crew, {"a", "b"})
                assert crew.listed() == ["a", "b"]
