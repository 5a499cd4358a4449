"""Reading many files: what is done with each is a task, what reads them is an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, TypeVar

from singerlake.clock import attended
from singerlake.maintenance.batches import batches
from singerlake.maintenance.parallel import THREADS, in_parallel
from singerlake.storage.port import Storage

BATCH_BYTES = 1 << 20
BATCH_FILES = 16
"""What a thread takes at once of small files: to hand over one takes as long as to read it."""

_QUICK = 0.5
"""Of the time that a thread reads it runs for at least this share where nothing is waited for."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)


class Task(Protocol[Item_contra, Answer_co]):
    """What is done with each of many files. Tasks, items and answers are pickled: other processes may do it."""

    def size(self, item: Item_contra, /) -> int:
        """The stored bytes of the file that ``item`` names."""
        ...

    def __call__(self, storage: Storage, item: Item_contra, /) -> Answer_co:
        """Read that file. Raises what storage raises."""
        ...


class Engine(Protocol):
    """Reads many files."""

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item], /) -> Iterator[tuple[Item, Answer]]:
        """Each item with what ``task`` says of it, in the order of the items; few are taken before they are needed.
        Raises what storage raises."""
        ...


@dataclass(frozen=True, slots=True)
class Threads:
    """The engine that is always there: threads of this process, each with one file at a time.

    Of small files that come without waiting, as from a local disk's cache, one thread reads all: several would hand
    the interpreter's lock to and fro at every call, and take twice as long.
    """

    storage: Storage
    threads: int = THREADS

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        pace = _Pace(self.storage.near)

        def read(batch: list[Item]) -> Iterator[tuple[Item, Answer]]:
            found, share = attended(lambda: answers(task, self.storage, batch))
            pace.note(share)
            return zip(batch, found, strict=True)

        work = batches(items, task.size, size=BATCH_BYTES, most=BATCH_FILES)
        return chain.from_iterable(in_parallel(read, work, threads=self.threads, at_once=pace.is_quick))


class _Pace:
    """Whether batches are of small files that come without waiting, as far as is known of those before them."""

    def __init__(self, near: bool) -> None:
        self._near = near
        self._small = False
        self._alone = False
        self._pause = self._left = 0

    def is_quick(self, batch: Sequence[object]) -> bool:
        """Whether ``batch``, which is the next one, is to be read by itself."""
        small, self._small = self._small, self._near and len(batch) == BATCH_FILES
        # One between larger files goes with them.
        if not (small and self._small):
            return False
        if self._left:
            self._left -= 1
            return False
        self._alone = True
        return True

    def note(self, share: float) -> None:
        """The thread that read a batch ran for this share of the time."""
        if self._alone:
            self._alone = False
            # The first files are slow anywhere, so it is tried again; in vain less and less often.
            self._pause = 0 if share > _QUICK else 2 * self._pause + 1
            self._left = self._pause


def answers(task: Task[Item, Answer], storage: Storage, items: Sequence[Item]) -> list[Answer]:
    """What ``task`` says of each item, in their order. Raises what storage raises."""
    return [task(storage, item) for item in items]
