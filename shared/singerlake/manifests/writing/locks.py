"""The locks that one commit holds, as its uploads see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress

from singerlake.lock_file import Lock
from singerlake.manifests.writing.uploads import Upload


class CommitLocks:
    """Taken once, in their order, and given back by ``held``."""

    def __init__(self, locks: Sequence[Lock], held: ExitStack) -> None:
        self._locks = locks
        self._held = held
        self._taken: Future[None] = Future()

    def around(self, first: Upload, others: Iterable[Upload | None], *, beside: bool) -> Iterator[Upload | None]:
        """``first`` and ``others``. The locks are taken before them; or else ``beside``, while the caller has others
        prepare ``first``, who ``wait`` before they send it. Raises as ``Lock.acquire``."""
        if not (beside and self._locks):
            self._take()
            yield first
        else:
            yield first
            self._take()
        yield from others

    def wait(self) -> None:
        """Wait until all locks are this writer's. Raises what keeps it from taking them."""
        self._taken.result()

    def _take(self) -> None:
        try:
            for lock in self._locks[:-1]:
                self._held.enter_context(lock.held())
            for last in self._locks[-1:]:
                self._held.enter_context(last.held(self._note_taken))
        except BaseException as error:
            with suppress(InvalidStateError):
                self._taken.set_exception(error)
            raise
        self._note_taken()

    def _note_taken(self) -> None:
        with suppress(InvalidStateError):
            self._taken.set_result(None)
