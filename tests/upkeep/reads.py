"""An engine that tells what it read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from singerlake.errors import StorageUnavailableError
from singerlake.storage.port import Storage
from singerlake.work.engine import Answer, Item, Task, Threads


@dataclass
class Told:
    """Reads, remembers what it read, and fails when it has read ``most`` files."""

    storage: Storage
    most: int | None = None
    read: list[object] = field(default_factory=list)

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        for item, answer in Threads(self.storage, 1)(task, items):
            if len(self.read) == self.most:
                raise StorageUnavailableError("the network is gone")
            self.read.append(item)
            yield item, answer
