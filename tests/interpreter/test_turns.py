"""Threads that take turns: one at a time, never for ever, and all at once where they wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from singerlake.clock import SystemClock
from singerlake.interpreter import threads
from singerlake.interpreter.threads import Turns, holding, waiting

LONG = 20.0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "PATIENCE", LONG)


def thread(work: Callable[[], object]) -> threading.Thread:
    started = threading.Thread(target=work)
    started.start()
    return started


@pytest.mark.usefixtures("patient")
def test_one_thread_has_its_turn_at_a_time() -> None:
    group, inside, most = Turns(), [0], [0]

    def work() -> None:
        for _ in range(50):
            with group.taken():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0005)
                inside[0] -= 1

    for each in [thread(work) for _ in range(4)]:
        each.join(LONG)
    assert inside == [0]
    assert most == [1]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("wait", ["waiting", "sleep"])
def test_another_thread_has_its_turn_while_one_waits(wait: str) -> None:
    group, other_ran = Turns(), threading.Event()

    def other() -> None:
        with group.taken():
            other_ran.set()

    with group.taken():
        started = thread(other)
        if wait == "waiting":
            with waiting():
                assert other_ran.wait(LONG)
        else:
            for _ in range(1000):
                SystemClock().sleep(0.001)
                if other_ran.is_set():
                    break
        assert other_ran.is_set()
    started.join(LONG)


@pytest.mark.usefixtures("patient")
def test_what_waited_goes_on_in_its_turn_alone() -> None:
    group, may_end, ended = Turns(), threading.Event(), threading.Event()

    def other() -> None:
        with group.taken():
            may_end.wait(LONG)
            ended.set()

    with group.taken():
        with waiting():
            started = thread(other)
            while not group._lock.locked():
                pass
            threading.Timer(0.05, may_end.set).start()
        assert ended.is_set()
    started.join(LONG)


@pytest.mark.usefixtures("patient")
def test_a_lock_is_waited_for_without_a_turn() -> None:
    group, lock, asked = Turns(), threading.Lock(), threading.Event()

    def other() -> None:
        with group.taken():
            asked.set()
            with holding(lock):
                assert lock.locked()

    with group.taken(), holding(lock):
        with waiting():
            started = thread(other)
            assert asked.wait(LONG)
            began = time.monotonic()
        # It got its turn back, though the other thread had it and waits for the lock.
        assert time.monotonic() - began < LONG / 2
        assert started.is_alive()
    started.join(LONG)
    assert not started.is_alive()
    with pytest.raises(ValueError, match="held"), holding(lock):
        raise ValueError("held")
    assert not lock.locked()


def test_a_thread_that_does_not_get_its_turn_goes_on_without() -> None:
    group, done = Turns(), threading.Event()

    def other() -> None:
        with group.taken():
            done.set()

    with group.taken():
        # What has the turn waits for what has none.
        started = thread(other)
        assert done.wait(LONG)
    started.join(LONG)
    with group.taken():
        assert group._lock.locked()
    assert not group._lock.locked()


@pytest.mark.usefixtures("patient")
def test_a_turn_ends_with_an_error() -> None:
    group = Turns()
    with pytest.raises(ValueError, match="inside"), group.taken():
        raise ValueError("inside")
    with pytest.raises(ValueError, match="waiting"), group.taken(), waiting():
        raise ValueError("waiting")
    assert not group._lock.locked()
    with waiting():
        assert not group._lock.locked()
