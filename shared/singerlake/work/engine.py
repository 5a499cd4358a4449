"""Reading many files: what is done with each is a task, what reads them is an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

from singerlake.clock import attended
from singerlake.storage.port import Storage
from singerlake.work.batches import batches
from singerlake.work.parallel import THREADS, in_parallel

BATCH_BYTES = 1 << 20
BATCH_FILES = 16
"""What a thread takes at once of small files: to hand over one takes as long as to read it."""
NEAR_FILES = 128
"""The same where they are near, and the bodies of a folder's files are had at once."""

_BUSY = 0.5
"""For at least this share of the time that a thread reads, the process runs where nothing is waited for."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class Task(Protocol[Item_contra, Answer_co]):
    """What is done with each of many files. Tasks, items and answers are pickled: other processes may do it."""

    def size(self, item: Item_contra, /) -> int:
        """The stored bytes of the file that ``item`` names."""

    def __call__(self, storage: Storage, item: Item_contra, /) -> Answer_co:
        """Read that file. Raises what storage raises."""

    def together(self, storage: Storage, items: Sequence[Item_contra], /) -> Sequence[Answer_co]:
        """Read several files. Raises what storage raises."""
        return [self(storage, item) for item in items]


class Answering:
    """A task that does nothing: whether an engine still answers."""

    def size(self, item: int) -> int:
        """Nothing is read."""
        return item

    def __call__(self, storage: Storage, item: int) -> int:
        """The item itself."""
        return item

    def together(self, storage: Storage, items: Sequence[int]) -> Sequence[int]:
        """The items themselves."""
        return items


class Engine(Protocol):
    """Reads many files."""

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item], /) -> Iterator[tuple[Item, Answer]]:
        """Each item with what ``task`` says of it, in the order of the items; few are taken before they are needed.
        Raises what storage raises."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The engine that is always there: threads of this process, each with one file at a time.

    Small files that come without waiting, as from a local disk's cache, are read by one of them: more would hand the
    interpreter's lock to and fro, and take longer.
    """

    storage: Storage
    threads: int = THREADS

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        near = self.storage.near
        most = NEAR_FILES if near else BATCH_FILES
        pace = _Pace(near)

        def read(work: tuple[list[Item], bool]) -> Iterator[tuple[Item, Answer]]:
            batch, alone = work
            answered, share = attended(lambda: answers(task, self.storage, batch))
            if alone:
                pace.note(share)
            return zip(batch, answered, strict=True)

        made = batches(items, task.size, size=BATCH_BYTES, most=most)
        work = ((batch, pace.alone(len(batch))) for batch in made)
        return chain.from_iterable(
            in_parallel(read, work, threads=self.threads, most=lambda work: 1 if work[1] else None)
        )


class _Pace:
    """Whether batches are of small files that come without waiting, as far as is known of those before them."""

    def __init__(self, near: bool) -> None:
        self._near = near
        self._small = False
        self._pause = self._left = 0

    def alone(self, files: int) -> bool:
        """Whether the next batch, of that many files, is read while no other one is."""
        small, self._small = self._small, self._near and files >= BATCH_FILES
        # One between larger files goes with them.
        if not (small and self._small):
            return False
        if self._left:
            self._left -= 1
            return False
        return True

    def note(self, share: float) -> None:
        """While a batch was read alone the process ran for this share of the time."""
        if share >= _BUSY:
            self._pause = 0
        elif not self._left:
            # The first files are slow anywhere, so it is tried again; in vain less and less often.
            self._pause = 2 * self._pause + 1
            self._left = self._pause


def answers(task: Task[Item, Answer], storage: Storage, items: Sequence[Item]) -> list[Answer]:
    """What ``task`` says of each item, in their order. Raises what storage raises."""
    parts = (items[at : at + NEAR_FILES] for at in range(0, len(items), NEAR_FILES))
    return [answer for part in parts for answer in task.together(storage, part)]


@dataclass(frozen=True)
class Watched:
    """An engine that tells of each item when it is done."""

    engine: Engine
    done: Callable[[int], None]

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        for item, answer in self.engine(task, items):
            self.done(task.size(item))
            yield item, answer
