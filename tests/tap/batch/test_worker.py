"""The thread that encodes: in order, within its room, and never beyond an error."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from singerlake.errors import StorageFullError
from tap_singerlake.batch.output import Worker


def test_work_is_done_in_its_order() -> None:
    worker, done = Worker("test", 10), list[int]()
    last = [worker.do(lambda number=number: done.append(number), 3) for number in range(100)][-1]  # type: ignore[misc]
    last.result(60)
    assert done == list(range(100))
    worker.close()


def test_it_takes_no_more_than_there_is_room_for_but_one_piece_of_any_size() -> None:
    worker, go_on, taken = Worker("test", 10), threading.Event(), threading.Event()
    worker.do(lambda: None, 1000).result(60)
    first = worker.do(lambda: go_on.wait(60) and None, 6)

    def give() -> None:
        worker.do(lambda: None, 6)
        taken.set()

    giver = threading.Thread(target=give)
    giver.start()
    assert not taken.wait(0.2)
    go_on.set()
    assert taken.wait(60)
    first.result(60)
    giver.join()
    worker.close()


def test_after_an_error_nothing_is_done() -> None:
    worker, done = Worker("test", 10), list[int]()

    def fail() -> None:
        raise StorageFullError("no space is left")

    blocked = threading.Event()
    worker.do(lambda: blocked.wait(60) and None)
    bad, later = worker.do(fail), worker.do(lambda: done.append(1))
    blocked.set()
    for each in (bad, later):
        with pytest.raises(StorageFullError):
            each.result(60)
    with pytest.raises(StorageFullError):
        worker.do(lambda: done.append(2))
    worker.close()
    assert done == []


def test_what_waits_is_cancelled_at_the_end() -> None:
    worker, begun, go_on = Worker("test", 10), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go_on.wait(60)

    first = worker.do(hold)
    second = worker.do(lambda: None)
    assert begun.wait(60)
    ending = threading.Thread(target=worker.close)
    ending.start()
    with pytest.raises(CancelledError):
        second.result(60)
    go_on.set()
    first.result(60)
    ending.join(60)
    assert not ending.is_alive()
