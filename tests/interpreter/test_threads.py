"""Threads that work ahead for a generator end with it, and nothing is joined where Python clears one away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from singerlake.interpreter.threads import threads_ahead


def ahead(works: list[Callable[[], object]], futures: list[Future[object]]) -> Iterator[object]:
    with threads_ahead(1, "ahead") as executor:
        futures += [executor.submit(work) for work in works]
        for future in futures:
            yield future.result()


def test_it_ends_when_all_is_done() -> None:
    futures: list[Future[object]] = []
    assert list(ahead([lambda: 1, lambda: 2], futures)) == [1, 2]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_an_error_ends_it_and_nothing_else_is_begun() -> None:
    begun = threading.Event()
    futures: list[Future[object]] = []

    def fails() -> object:
        raise ValueError("it fails")

    def blocks() -> object:
        begun.set()
        return None

    works = ahead([fails, blocks], futures)
    with pytest.raises(ValueError, match="it fails"):
        next(works)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
    assert futures[1].cancelled() or begun.is_set()


def test_one_that_is_left_behind_joins_no_thread_and_begins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    going_on, begun = threading.Event(), threading.Event()
    futures: list[Future[object]] = []
    works = ahead([lambda: 1, going_on.wait, begun.set], futures)
    assert next(works) == 1
    running = [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", lambda *_: pytest.fail("a thread was joined"))
        del works
    going_on.set()
    for thread in running:
        thread.join(10)
        assert not thread.is_alive()
    assert futures[2].cancelled()
    assert not begun.is_set()
