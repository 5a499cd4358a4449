"""What a queue of commits does: gives messages out in the order of their groups, and again until they are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it was given out. ``id`` is the queue's, ``receipt`` what deletes it."""

    id: str
    body: str = field(repr=False)
    receipt: str = field(default="", repr=False)


class Queue(Protocol):
    """A queue that many threads may share. Every method may raise ``AccessDeniedError``, ``SettingError`` and
    ``StorageUnavailableError``."""

    @property
    def name(self) -> str:
        """What the log calls it: its URL, which holds no secret."""
        ...

    def send(self, body: str, *, group: str, deduplication: str) -> None:
        """Put a message behind those of its ``group``. One of the same ``deduplication`` may be dropped. It may have
        been put there although this raises."""
        ...

    def receive(self, most: int, *, wait: int) -> Sequence[Received]:
        """Up to ``most`` messages, waiting up to ``wait`` seconds for the first. Others of their groups are given out
        once these are deleted; these are given out again if they are not."""
        ...

    def delete(self, messages: Sequence[Received]) -> Sequence[Received]:
        """Delete messages; gives those that could not be, which will be given out again."""
        ...
