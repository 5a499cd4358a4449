"""Items made on another thread come as they would without it, and no more of them are held than there is room for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import pytest

from singerlake.work.ahead import ahead, together


def taken(items: Generator[int, None, None], *, room: int = 3) -> Iterator[int]:
    return ahead(items, lambda _: 1, room=room)


@pytest.mark.parametrize("room", [1, 2, 1000])
def test_items_come_in_their_order_and_are_made_on_another_thread(room: int) -> None:
    makers = set()

    def items() -> Generator[int, None, None]:
        for number in range(100):
            makers.add(threading.current_thread())
            yield number

    assert list(taken(items(), room=room)) == list(range(100))
    (maker,) = makers
    assert maker is not threading.current_thread()
    assert maker.daemon, "it keeps no process alive"


def test_an_error_comes_behind_all_items_that_were_made_before_it() -> None:
    def items() -> Generator[int, None, None]:
        yield from (1, 2)
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone"):
        seen.extend(taken(items()))
    assert seen == [1, 2]


def test_no_more_is_made_than_there_is_room_for() -> None:
    made: list[int] = []
    more = threading.Semaphore(0)

    def items() -> Generator[int, None, None]:
        for number in range(100):
            made.append(number)
            more.release()
            yield number

    given = taken(items(), room=3)
    for number, each in enumerate(given):
        assert each == number
        # Of the room's three and the one that was taken, each is waited for; a further one would have to wait itself.
        while len(made) < min(100, number + 4):
            more.acquire()
        assert len(made) <= number + 4


def test_a_reader_that_leaves_off_ends_the_thread_and_what_it_reads_is_closed() -> None:
    closed = threading.Event()

    def items() -> Generator[int, None, None]:
        try:
            yield from range(1_000_000)
        finally:
            closed.set()

    given = taken(items())
    assert next(given) == 0
    given.close()
    assert closed.wait(30)
    assert list(given) == []


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_work_on_several_items_is_answered_in_their_order(at_once: int) -> None:
    under_way, most, lock = 0, 0, threading.Lock()
    all_there = threading.Barrier(min(at_once, 9))

    def work(number: int) -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        all_there.wait(30)
        with lock:
            under_way -= 1
        return -number

    assert list(together(work, range(9), at_once=at_once)) == [-number for number in range(9)]
    assert most == min(at_once, 9)


def test_an_error_of_work_comes_in_its_place_and_nothing_further_is_begun() -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise OSError("the second one")
        return number

    seen = []
    with pytest.raises(OSError, match="the second one"):
        seen.extend(together(work, range(100), at_once=2))
    assert seen == [0]
    assert sorted(begun) == [0, 1, 2]
