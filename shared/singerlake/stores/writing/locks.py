"""The locks that one commit holds, as its uploads see them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from singerlake.lock_file import Lock


class CommitLocks:
    """A context: ``take`` takes all locks in their order, and leaving it gives them back."""

    def __init__(self, locks: Sequence[Lock]) -> None:
        self._locks = locks
        self._held = ExitStack()
        self._taken: Future[None] = Future()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # What waits must not wait for locks that nobody takes any more.
        with suppress(InvalidStateError):
            self._taken.set_exception(error or RuntimeError("the locks were not taken"))
        self.give_back()

    def take(self) -> None:
        """Wait for all locks. Raises as ``Lock.acquire``."""
        for lock in self._locks[:-1]:
            self._held.enter_context(lock.held())
        for last in self._locks[-1:]:
            self._held.enter_context(last.held(self._note_taken))
        self._note_taken()

    def wait(self) -> None:
        """On another thread: wait until all locks are this writer's. Raises what keeps it from taking them."""
        self._taken.result()

    def give_back(self) -> None:
        """Give the locks back before the context is left."""
        self._held.close()

    def _note_taken(self) -> None:
        with suppress(InvalidStateError):
            self._taken.set_result(None)
