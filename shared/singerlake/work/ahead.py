"""What is wanted next, made on other threads before it is asked for. They keep no process alive."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from typing import Generic, TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def ahead(items: Generator[Item, None, None], size: Callable[[Item], int], *, room: int) -> Generator[Item, None, None]:
    """``items`` in their order, made on a thread of their own. It makes no further one while what nobody took yet takes
    ``room`` or more, as ``size`` counts, or once this generator is closed. What making one raises is raised in its
    place. Nobody waits for the thread: a storage may not answer for minutes."""
    made = _Made[Item](room)
    threading.Thread(target=made.fill, args=(items, size), name="singerlake-ahead", daemon=True).start()
    try:
        while (batch := made.take()) is not None:
            # The last item is not held while the next one is made: it may be large.
            yield batch.pop()
    finally:
        made.close()


def together(work: Callable[[Item], Answer], items: Iterable[Item], *, at_once: int) -> Iterator[Answer]:
    """``work`` done on each item, on up to ``at_once`` at a time; answers, and what ``work`` raises, in their order."""
    waiting: deque[Future[Answer]] = deque()
    for item in items:
        waiting.append(begun(work, item))
        if len(waiting) >= at_once:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def begun(work: Callable[[Item], Answer], item: Item) -> Future[Answer]:
    """``work`` done on ``item`` on a thread of its own."""
    # No executor, whose threads the interpreter waits for at its end.
    done = Future[Answer]()

    def run() -> None:
        try:
            done.set_result(work(item))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="singerlake-together", daemon=True).start()
    return done


class _Made(Generic[Item]):
    """Items between the thread that makes them and the one that takes them."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Item, int]] = deque()
        self._held = 0
        self._ended = False
        self._closed = False
        self._error: BaseException | None = None

    def fill(self, items: Generator[Item, None, None], size: Callable[[Item], int]) -> None:
        """Make all items; called on the thread that makes them."""
        error: BaseException | None = None
        try:
            for item in items:
                self._put(item, size(item))
                del item
                if self._closed:
                    break
            items.close()
        except BaseException as raised:
            error = raised
        with self._changed:
            self._error, self._ended = error, True
            self._changed.notify_all()

    def _put(self, item: Item, size: int) -> None:
        with self._changed:
            self._waiting.append((item, size))
            self._held += size
            self._changed.notify_all()
            del item
            self._changed.wait_for(lambda: self._held < self._room or self._closed)

    def take(self) -> list[Item] | None:
        """The next item, alone in a list; None after the last one. Raises what making it raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended)
            if self._waiting:
                item, size = self._waiting.popleft()
                self._held -= size
                self._changed.notify_all()
                return [item]
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
