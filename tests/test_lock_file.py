"""The lock: who gets it, who waits, who takes over, and what a late writer must not do."""

from __future__ import annotations

import itertools
import os
import threading

import msgspec
import pytest

from singerlake.errors import (
    CorruptObjectError,
    LockTimeoutError,
    SettingError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.lock_file import Lock, LockBody, LockSettings, parse_lock
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage, Step

KEY = "raw/tap/stream/abc/singerlake.lock"
SETTINGS = LockSettings(max_wait=100, stale_after=30, refresh=10)


class Place:
    """One storage, one clock, and locks on one key of it."""

    def __init__(self, *, ignore_conditions: bool = False, ignore_delete_conditions: bool = False) -> None:
        self.clock = FakeClock()
        self.ids = counting_ids()
        self.storage = MemoryStorage(
            clock=self.clock,
            ids=self.ids,
            ignore_conditions=ignore_conditions,
            ignore_delete_conditions=ignore_delete_conditions,
        )

    def lock(self, writer: str, settings: LockSettings = SETTINGS) -> Lock:
        return Lock(self.storage, KEY, writer, settings, self.clock, self.ids)

    def body(self) -> LockBody | None:
        stored = self.storage.get(KEY)
        return parse_lock(stored.body, key=KEY) if stored else None


@pytest.fixture(params=["conditional", "no conditional delete", "no conditions"])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(
        ignore_conditions=request.param == "no conditions",
        ignore_delete_conditions=request.param == "no conditional delete",
    )


def test_the_lock_file_has_the_spec_s_fields_while_it_is_held(place: Place) -> None:
    with place.lock("ada").held():
        stored = place.storage.get(KEY)
        assert stored is not None
        fields = msgspec.json.decode(stored.body)
        assert set(fields) == {"writer-id", "acquired", "refreshed", "nonce"}
        assert fields["writer-id"] == "ada"
        assert fields["acquired"] == "2026-01-01T00:00:00.000000Z"


def test_a_lock_written_on_a_condition_is_told_before_it_is_read_back(place: Place) -> None:
    steps: list[str] = []
    place.storage.hook = lambda step: None if step.done else steps.append(step.operation)
    with place.lock("ada").held(lambda: steps.append("taken")) as lock:
        assert lock.is_held
        told = list(steps)
    if place.storage.capabilities().conditional_put:
        assert told[-3:] == ["put", "taken", "get"]
    else:
        assert "taken" not in told


def test_a_lock_that_storage_refuses_is_not_told(place: Place) -> None:
    place.lock("ada").acquire()
    told: list[str] = []
    with pytest.raises(LockTimeoutError):
        place.lock("bob", LockSettings(max_wait=5, stale_after=1000, refresh=10)).acquire(lambda: told.append("taken"))
    assert told == []


def test_a_released_lock_is_free_for_the_next_writer_at_once(place: Place) -> None:
    for writer in ("ada", "bob", "ada"):
        with place.lock(writer).held() as lock:
            assert lock.is_held
            body = place.body()
            assert body is not None
            assert body.writer_id == writer
        body = place.body()
        assert body is None or body.released is not None
    assert place.clock.seconds == 0


def test_a_live_slow_writer_is_waited_for_and_named_when_patience_ends(place: Place) -> None:
    slow = place.lock("slow")
    slow.acquire()
    place.clock.on_sleep = lambda _: slow.refresh()
    with pytest.raises(
        LockTimeoutError, match=r"writer slow has held the lock since 2026-01-01.*singerlake lock break"
    ):
        place.lock("bob").acquire()
    assert SETTINGS.max_wait <= place.clock.seconds < SETTINGS.max_wait + 5
    assert slow.is_held


def test_a_dead_writer_s_lock_is_taken_over_after_the_stale_time_and_not_before(place: Place) -> None:
    place.lock("dead").acquire()
    lock = place.lock("bob")
    lock.acquire()
    assert lock.is_held
    assert SETTINGS.stale_after <= place.clock.seconds < SETTINGS.stale_after + 5


def test_staleness_is_judged_by_change_and_not_by_what_the_holder_s_clock_says(place: Place) -> None:
    skewed = LockBody(writer_id="skewed", acquired="1970-01-01", refreshed="1970-01-01", nonce="n")
    place.storage.put(KEY, msgspec.json.encode(skewed))
    place.lock("bob").acquire()
    assert place.clock.seconds >= SETTINGS.stale_after


def test_a_lock_as_the_specification_writes_it_is_waited_for_and_taken_over_when_stale(place: Place) -> None:
    """Without ``nonce``; its holder refreshes it for a while, and then is dead."""
    beats = iter(range(1, 60))

    def beat(_: float) -> None:
        number = next(beats, None)
        if number is not None:
            spec = {"writer-id": "0c6d2a", "acquired": "2026-01-01T00:00:00Z", "refreshed": f"{number}"}
            place.storage.put(KEY, msgspec.json.encode(spec))

    beat(0)
    place.clock.on_sleep = beat
    patient = LockSettings(max_wait=1000, stale_after=30, refresh=10)
    lock = place.lock("bob", patient)
    lock.acquire()
    assert lock.is_held
    assert next(beats, None) is None
    assert place.clock.seconds > SETTINGS.stale_after


def test_a_lock_of_the_specification_that_stays_alive_is_named_when_patience_ends(place: Place) -> None:
    place.storage.put(KEY, b'{"writer-id": "0c6d2a", "acquired": "a", "refreshed": "0"}')
    changes = itertools.count()

    def beat(_: float) -> None:
        spec = {"writer-id": "0c6d2a", "acquired": "a", "refreshed": str(next(changes))}
        place.storage.put(KEY, msgspec.json.encode(spec))

    place.clock.on_sleep = beat
    with pytest.raises(LockTimeoutError, match="writer 0c6d2a has held the lock since a"):
        place.lock("bob").acquire()


def test_another_program_s_lock_under_one_s_own_writer_id_is_not_taken_for_one_s_own(place: Place) -> None:
    place.storage.put(KEY, b'{"writer-id": "bob", "acquired": "a", "refreshed": "b"}')
    place.lock("bob").acquire()
    assert place.clock.seconds >= SETTINGS.stale_after


def test_a_writer_that_woke_up_late_neither_overwrites_nor_deletes_its_successor_s_lock(place: Place) -> None:
    sleeper = place.lock("sleeper")
    sleeper.acquire()
    successor = place.lock("successor")
    successor.acquire()
    assert sleeper.refresh() is False
    assert not sleeper.is_held
    sleeper.release()
    body = place.body()
    assert body is not None
    assert (body.writer_id, body.released) == ("successor", None)
    assert successor.refresh()


def test_releasing_after_a_takeover_that_went_unnoticed_leaves_the_successor_s_lock(place: Place) -> None:
    sleeper = place.lock("sleeper")
    sleeper.acquire()
    place.lock("successor").acquire()
    sleeper.release()
    body = place.body()
    assert body is not None
    assert (body.writer_id, body.released) == ("successor", None)


def test_a_lost_reply_to_the_first_write_is_recognised_by_reading_back() -> None:
    place = Place()
    lost = iter([True])

    def hook(step: Step) -> None:
        if step.operation == "put" and step.done and next(lost, False):
            raise UnknownOutcomeError("the reply was lost", key=step.key)

    place.storage.hook = hook
    lock = place.lock("ada")
    lock.acquire()
    assert lock.is_held
    assert place.clock.seconds == 0


@pytest.mark.parametrize("number", range(12))
def test_whoever_is_interrupted_while_taking_it_leaves_no_lock(place: Place, number: int) -> None:
    """At either side of any request until the lock is held."""
    seen: list[Step] = []

    def hook(step: Step) -> None:
        seen.append(step)
        if len(seen) == number + 1:
            raise KeyboardInterrupt

    place.storage.hook = hook
    try:
        with place.lock("ada").held():
            place.storage.hook = lambda _: None
    except KeyboardInterrupt:
        assert number < 6
    place.storage.hook = lambda _: None
    body = place.body()
    assert body is None or body.released is not None


def test_whoever_is_interrupted_while_waiting_leaves_the_holder_s_lock(place: Place) -> None:
    place.lock("ada").acquire()
    held = place.body()

    def hook(step: Step) -> None:
        raise KeyboardInterrupt

    place.storage.hook = hook
    with pytest.raises(KeyboardInterrupt), place.lock("bob").held():
        pass
    place.storage.hook = lambda _: None
    assert place.body() == held


def test_a_refresh_whose_reply_was_a_refusal_of_its_own_write_keeps_the_lock() -> None:
    place = Place()
    lock = place.lock("ada")
    lock.acquire()
    original = place.storage.put

    def put_twice(key: str, body: bytes, **conditions: object) -> object:
        original(key, body, **conditions)  # type: ignore[arg-type]
        return original(key, body, **conditions)  # type: ignore[arg-type]

    place.storage.put = put_twice  # type: ignore[method-assign,assignment]
    assert lock.refresh()
    assert lock.is_held
    place.storage.put = original  # type: ignore[method-assign]
    assert lock.refresh()


def test_a_foreign_lock_file_is_a_loud_error_and_stays_as_it_is(place: Place) -> None:
    place.storage.put(KEY, b"<xml/>")
    with pytest.raises(CorruptObjectError, match=r"not a lock file.*singerlake\.lock"):
        place.lock("bob").acquire()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body == b"<xml/>"


def test_a_release_that_storage_refuses_does_not_hide_what_was_done(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()

    def hook(step: Step) -> None:
        if step.operation == "delete":
            raise StorageUnavailableError("no answer")

    with place.lock("ada").held():
        place.storage.hook = hook
    assert "could not release" in caplog.text


def refreshed_while_held() -> bool:
    """Whether a lock is refreshed while it is held."""
    place = Place()
    seen = threading.Event()
    puts = itertools.count(1)

    def hook(step: Step) -> None:
        if step.operation == "put" and step.done and next(puts) >= 3:
            seen.set()

    place.storage.hook = hook
    settings = LockSettings(max_wait=10, stale_after=1, refresh=0.01)
    with place.lock("ada", settings).held() as lock:
        return seen.wait(20) and lock.is_held


def test_a_held_lock_is_refreshed_while_work_goes_on() -> None:
    assert refreshed_while_held()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_a_lock_is_held_refreshes_its_own() -> None:
    with Place().lock("bob", LockSettings(refresh=0.01)).held():
        child = os.fork()
        if not child:
            os._exit(0 if refreshed_while_held() else 1)
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "times", [{"refresh": 0}, {"stale_after": -1}, {"max_wait": -1}, {"refresh": 20, "stale_after": 30}]
)
def test_times_that_would_make_live_locks_look_dead_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(SettingError, match="lock_refresh_seconds"):
        LockSettings(**times)


class Turns:
    """Lets named threads pass one storage call at a time, in a given order, then freely."""

    def __init__(self, order: tuple[str, ...]) -> None:
        self._order = list(order)
        self._changed = threading.Condition()

    def __call__(self, step: Step) -> None:
        name = threading.current_thread().name
        with self._changed:
            if step.done:
                if self._order and self._order[0] == name:
                    self._order.pop(0)
                    self._changed.notify_all()
                return
            assert self._changed.wait_for(lambda: name not in self._order or self._order[0] == name, timeout=20)


def both_after(order: tuple[str, ...], *, ignore_conditions: bool) -> list[str]:
    """Which of two writers hold the lock after their first steps in the given order."""
    place = Place(ignore_conditions=ignore_conditions)
    place.storage.hook = Turns(order)
    holders: list[str] = []

    def run(lock: Lock) -> None:
        try:
            lock.acquire()
        except LockTimeoutError:
            return
        holders.append(threading.current_thread().name)

    settings = LockSettings(max_wait=5, stale_after=1000, refresh=10)
    threads = [threading.Thread(target=run, args=(place.lock(name, settings),), name=name) for name in "AB"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(holders)


ORDERS = sorted(set(itertools.permutations("AAABBB")))
"""In which two writers check, write and read back."""
WITHOUT_CHECK = sorted(set(itertools.permutations("AABB")))
"""In which they write and read back: with conditions a lock is written without looking first."""


@pytest.mark.parametrize("order", WITHOUT_CHECK, ids="".join)
def test_with_conditions_exactly_one_of_two_writers_holds_the_lock(order: tuple[str, ...]) -> None:
    assert len(both_after(order, ignore_conditions=False)) == 1


def test_without_conditions_reading_back_fails_in_the_known_four_of_twenty_orders() -> None:
    doubly_held = {"".join(order) for order in ORDERS if both_after(order, ignore_conditions=True) == ["A", "B"]}
    assert len(ORDERS) == 20
    assert doubly_held == {"ABAABB", "BABBAA", "BAAABB", "ABBBAA"}
