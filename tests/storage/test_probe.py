"""The probe tells the truth about every way in which a storage may treat conditions, and no more than it was shown."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import Clock, SystemClock, random_id
from singerlake.errors import AccessDeniedError, ConditionsUnprovenError, StorageUnavailableError, UnknownOutcomeError
from singerlake.storage.port import Capabilities, Entry, Refused, Storage, Written
from singerlake.storage.probe import (
    PROBE_PREFIX,
    RACERS,
    Answer,
    Proved,
    Together,
    _left_behind,
    at_once,
    in_turn,
    probe,
    prove,
)
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage, Step

HONEST = Capabilities(conditional_put=True, conditional_delete=True)
WRITES = 2 * RACERS + 5
"""Writes of a probe before those that are about DELETE."""


class AdjustableClock(SystemClock):
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment


class CheckThenAct(MemoryStorage):
    """Looks first and writes later, so that all who looked in time believe they have won."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), ids=random_id)
        self._looked = threading.Barrier(RACERS)

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        stored = self.get(key)
        if if_absent and stored is None and b"racer" in body:
            self._looked.wait(10)
            return super().put(key, body)
        return super().put(key, body, if_absent=if_absent, if_match=if_match)


class NoDelete(MemoryStorage):
    """Permits everything but DELETE."""

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        raise AccessDeniedError("no delete", key=key)


class CheckThenActNoDelete(NoDelete, CheckThenAct):
    """Both, from when it is ``racy``."""

    def __init__(self, clock: Clock) -> None:
        CheckThenAct.__init__(self)
        self._clock = clock
        self.racy = True

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        kind = CheckThenAct if self.racy else MemoryStorage
        return kind.put(self, key, body, if_absent=if_absent, if_match=if_match)


class Network(MemoryStorage):
    """A storage behind a network: what becomes of the write of each number, counted from 0.

    ``twice``: a balancer sends it a second time and passes on the second answer. ``lost``: it takes effect, its reply
    is lost. ``never``: it is lost on its way. ``late``: its reply is lost, it takes effect after the next write.
    """

    def __init__(self, faults: Mapping[int, str], *, ignore_conditions: bool = False) -> None:
        super().__init__(clock=FakeClock(), ids=counting_ids(), ignore_conditions=ignore_conditions)
        self._faults = faults
        self._numbers = itertools.count()
        self._late: list[tuple[str, bytes, bool, str | None]] = []

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        fault = self._faults.get(next(self._numbers))
        late, self._late = self._late, []
        if fault == "late":
            self._late.append((key, body, if_absent, if_match))
        if fault in ("twice", "lost"):
            super().put(key, body, if_absent=if_absent, if_match=if_match)
        if fault in ("lost", "never", "late"):
            raise UnknownOutcomeError("no answer came", key=key)
        answer = super().put(key, body, if_absent=if_absent, if_match=if_match)
        for its_key, its_body, its_absent, its_match in late:
            super().put(its_key, its_body, if_absent=its_absent, if_match=its_match)
        return answer


FAULTS = ("twice", "lost", "never", "late")


def seen_of(storage: Storage) -> Capabilities | None:
    return probe(storage, clock=SystemClock(), ids=random_id)


def asked(storage: Storage) -> Capabilities | None:
    """One round, a racer after the other, so that each write has its number."""
    return probe(storage, clock=FakeClock(), ids=counting_ids(), together=in_turn)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, HONEST),
        ({"ignore_delete_conditions": True}, Capabilities(conditional_put=True, conditional_delete=False)),
        ({"ignore_conditions": True}, Capabilities(conditional_put=False, conditional_delete=False)),
        (
            {"refuse_conditions": True},
            Capabilities(conditional_put=False, conditional_delete=False, takes_conditions=False),
        ),
    ],
)
def test_the_probe_finds_what_the_storage_declares_and_leaves_nothing(
    options: dict[str, bool], expected: Capabilities
) -> None:
    storage = MemoryStorage(clock=SystemClock(), ids=random_id, **options)
    assert storage.capabilities() == expected
    assert seen_of(storage) == expected
    assert list(storage.list("")) == []


def test_a_storage_that_checks_and_then_acts_is_found_out_by_the_race() -> None:
    seen = seen_of(CheckThenAct())
    assert seen is not None
    assert seen.conditional_put is False


def _few_faults() -> Iterator[dict[int, str]]:
    for count in (1, 2):
        for places in itertools.combinations(range(WRITES), count):
            for kinds in itertools.product(FAULTS, repeat=count):
                yield dict(zip(places, kinds, strict=True))


def test_no_two_faults_make_an_honest_storage_one_that_ignores_conditions() -> None:
    verdicts = [asked(Network(faults)) for faults in _few_faults()]
    assert all(seen is None or seen.conditional_put for seen in verdicts)
    assert None in verdicts


def test_no_two_faults_make_a_storage_that_ignores_conditions_an_honest_one() -> None:
    verdicts = [asked(Network(faults, ignore_conditions=True)) for faults in _few_faults()]
    assert not any(seen is not None and seen.conditional_put for seen in verdicts)


@given(st.dictionaries(st.integers(0, 3 * WRITES), st.sampled_from(FAULTS)))
def test_no_faults_at_all_make_an_honest_storage_one_that_ignores_conditions(faults: dict[int, str]) -> None:
    seen = asked(Network(faults))
    assert seen is None or seen.conditional_put


def test_a_balancer_that_sends_the_winner_s_request_twice_is_asked_again() -> None:
    """The race then has no winner, which is no proof of anything."""
    storage, clock = Network({0: "twice"}), FakeClock()
    assert asked(Network({0: "twice"})) is None
    assert prove(storage, clock=clock, ids=counting_ids(), max_wait=60, together=in_turn) == HONEST
    assert 0 < clock.seconds < 1
    assert list(storage.list("")) == []


def test_where_nothing_can_be_proved_it_waits_as_long_as_it_was_told_and_then_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    always = dict.fromkeys(range(100_000), "twice")
    for wait in (0, 60):
        clock = FakeClock()
        with pytest.raises(ConditionsUnprovenError, match=r"s3_probe_max_wait_seconds.*nothing was written"):
            prove(Network(always), clock=clock, ids=counting_ids(), max_wait=wait, together=in_turn)
        assert wait <= clock.seconds < wait + 6
    assert caplog.text.count("does not show whether it honours conditional writes") == 1


def test_what_a_round_saw_that_took_too_long_is_not_believed() -> None:
    """Another probe may have taken over its objects meanwhile, and removed them."""
    clock = FakeClock()
    storage = MemoryStorage(clock=clock, ids=counting_ids(), ignore_conditions=True)

    def sleep(step: Step) -> None:
        if step.operation == "get":
            clock.seconds += 301

    storage.hook = sleep
    assert probe(storage, clock=clock, ids=counting_ids(), together=in_turn) is None


@pytest.mark.parametrize("together", [at_once, in_turn])
def test_both_ways_to_ask_give_what_came_of_each_and_raise_what_one_raised(together: Together) -> None:
    assert together([partial(pow, number, 2) for number in range(RACERS)]) == [n * n for n in range(RACERS)]
    with pytest.raises(UnknownOutcomeError):
        together([partial(pow, 2, 2), partial(Network({0: "lost"}).put, "a", b"1"), partial(pow, 3, 2)])


def test_what_has_to_be_refused_is_asked_beside_the_race() -> None:
    """A writer waits for the probe, so that one round trip more is one for each run."""
    sizes = []

    def together(works: Sequence[Callable[[], Answer]]) -> list[Answer]:
        sizes.append(len(works))
        return in_turn(works)

    storage = MemoryStorage(clock=SystemClock(), ids=random_id)
    assert probe(storage, clock=SystemClock(), ids=random_id, together=together) == HONEST
    assert sizes == [3, RACERS, 2, RACERS + 1]


class OneAtATime(MemoryStorage):
    """Takes ``If-Match`` for "if it exists", and refuses each write to a key to which another is under way."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock(), ids=counting_ids())
        self._under_way: set[str] = set()
        self._depth = 0

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        there = self.get(key)
        if key in self._under_way or (if_match is not None and there is None):
            return Refused()
        answer = super().put(key, body, if_absent=if_absent, if_match=if_match and there and there.etag)
        if self._depth == 2 and isinstance(answer, Written):
            self._under_way.add(key)
        return answer

    def together(self, works: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """``Together``: the questions in turn, and each question's writes at once, the last one first."""
        self._depth += 1
        try:
            return [work() for work in reversed(works)][::-1]
        finally:
            self._depth -= 1
            self._under_way.clear()


def test_an_old_etag_is_tried_when_nothing_else_is_under_way() -> None:
    storage = OneAtATime()
    seen = probe(storage, clock=FakeClock(), ids=counting_ids(), together=storage.together)
    assert seen is not None
    assert not seen.conditional_put


def test_without_the_right_to_delete_probes_do_not_pile_up() -> None:
    """A race of creates takes a key where nothing is, and leaves an object there. So there is one a day."""
    clock = AdjustableClock()
    storage = NoDelete(clock=clock, ids=random_id)
    counts = []
    for _ in range(4):
        for _ in range(8):
            assert seen_of(storage) == Capabilities(conditional_put=True, conditional_delete=False)
            counts.append(len(list(storage.list(PROBE_PREFIX))))
            clock.moment += timedelta(hours=3)
        clock.moment += timedelta(hours=2)
    assert counts == [4] * 8 + [8] * 8 + [12] * 8 + [16] * 8


def test_probes_at_once_without_the_right_to_delete_mostly_take_over_different_objects() -> None:
    storage = NoDelete(clock=AdjustableClock(), ids=random_id)
    for number in range(16):
        storage.put(f"{PROBE_PREFIX}{number}/one-winner-e3b0c44298fc1c14", b"")
    taken = {_left_behind(storage, "one-winner-e3b0c44298fc1c14", random_id().encode()).note for _ in range(100)}
    assert len(taken) > 8


@pytest.mark.parametrize("hours", [0, 2, 30])
def test_what_an_earlier_probe_left_hides_no_storage_that_creates_twice(hours: int) -> None:
    clock = AdjustableClock()
    storage = CheckThenActNoDelete(clock)
    for _ in range(4):
        seen = seen_of(storage)
        assert seen is not None
        assert not seen.conditional_put
        clock.moment += timedelta(hours=hours)


def test_a_race_of_creates_that_another_process_saw_is_believed_for_a_day_and_of_the_same_server() -> None:
    def puts(server: str) -> bool:
        seen = probe(storage, clock=SystemClock(), ids=random_id, server=server)
        assert seen is not None
        return seen.conditional_put

    clock = AdjustableClock()
    storage = CheckThenActNoDelete(clock)
    storage.racy = False
    assert puts("http://honest")
    storage.racy = True
    assert not puts("http://gateway")
    assert puts("http://honest")
    clock.moment += timedelta(hours=25)
    assert not puts("http://honest")


def test_what_killed_probes_left_is_removed_after_an_hour() -> None:
    clock = AdjustableClock()
    storage = MemoryStorage(clock=clock, ids=random_id)
    for name in ("first", "second"):
        storage.put(f"{PROBE_PREFIX}{name}/created", b"1")
        clock.moment += timedelta(minutes=61)
    assert seen_of(storage) == HONEST
    assert [entry.key for entry in storage.list("")] == [f"{PROBE_PREFIX}second/created"]


def test_a_storage_that_does_not_answer_is_an_error_and_not_a_capability() -> None:
    storage = MemoryStorage(clock=SystemClock(), ids=random_id)

    def fault(step: Step) -> None:
        if step.operation == "put":
            raise StorageUnavailableError("down")

    storage.hook = fault
    with pytest.raises(StorageUnavailableError):
        seen_of(storage)


class Down(MemoryStorage):
    """Does not answer, and says so once somebody else waits for the answer."""

    def __init__(self) -> None:
        super().__init__(clock=FakeClock(), ids=counting_ids())
        self.asked = 0
        self.somebody_waits = threading.Event()

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        self.asked += 1
        assert self.somebody_waits.wait(30)
        raise StorageUnavailableError("storage does not answer")


def test_who_waits_for_a_proof_gets_its_error_and_does_not_ask_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    storage, proved = Down(), Proved()
    lock = threading.Lock()

    class Noticed:
        """The lock, whose second taker is noticed."""

        def __enter__(self) -> None:
            if not lock.acquire(blocking=False):
                storage.somebody_waits.set()
                lock.acquire()

        def __exit__(self, *error: object) -> None:
            lock.release()

    def ask() -> Capabilities:
        return proved.of(storage, clock=FakeClock(), ids=counting_ids(), max_wait=60)

    monkeypatch.setattr(proved, "_lock", Noticed())
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        first, second = (each.exception(60) for each in asking)
    assert isinstance(first, StorageUnavailableError)
    assert isinstance(second, StorageUnavailableError)
    assert str(first) == str(second)
    assert first is not second, "each thread notes its own way in what it raises"
    assert storage.asked == 1
    with pytest.raises(StorageUnavailableError):
        ask()
    assert storage.asked == 2, "later ones ask again"
