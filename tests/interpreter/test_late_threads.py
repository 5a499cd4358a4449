"""Work that begins late, on a thread of its own, or never."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from singerlake.interpreter.threads import LateThreads

NAME = "late-in-a-test"


def alive() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == NAME]


def test_work_begins_though_more_is_asked_for_meanwhile() -> None:
    late = LateThreads(0.01, NAME)
    for _ in range(3):
        began, go_on = threading.Event(), threading.Event()

        def work(began: threading.Event = began, go_on: threading.Event = go_on) -> None:
            began.set()
            go_on.wait()

        one = late.begin(work)
        others = [late.begin(lambda: None) for _ in range(5)]
        assert began.wait(20)
        for other in others:
            other.end()
        go_on.set()
        one.end()
        assert one.thread is not None
        assert not one.thread.is_alive()


def test_what_is_called_off_never_begins_and_one_thread_waits_for_all() -> None:
    late = LateThreads(0.02, NAME)
    began: list[int] = []
    for number in range(50):
        late.begin(lambda number=number: began.append(number)).end()  # type: ignore[misc]
        assert len(alive()) <= 1
    last = threading.Event()
    late.begin(last.set)
    assert last.wait(20)
    assert not began


def test_no_thread_is_left_where_nothing_is_waited_for() -> None:
    late = LateThreads(0.01, NAME)
    late.begin(lambda: None).end()
    for thread in alive():
        thread.join(20)
    assert not alive()
    done = threading.Event()
    late.begin(done.set)
    assert done.wait(20)


def test_work_for_which_there_is_no_thread_begins_when_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    start: Callable[[threading.Thread], None] = threading.Thread.start
    done, refused = threading.Event(), threading.Event()

    def starting(thread: threading.Thread) -> None:
        if threading.current_thread().name == NAME and not refused.is_set():
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    LateThreads(0.01, NAME).begin(done.set)
    assert done.wait(20)
    assert refused.is_set()


def test_one_that_is_cleared_away_while_another_is_started_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    start: Callable[[threading.Thread], None] = threading.Thread.start
    late = LateThreads(0.01, NAME)
    done, other = threading.Event(), late.begin(lambda: None)

    def starting(thread: threading.Thread) -> None:
        if threading.current_thread().name == NAME:
            other.end()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    late.begin(done.set)
    assert done.wait(20)
