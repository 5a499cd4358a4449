"""The locks that one commit holds, as its uploads see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress

from singerlake.lock_file import Lock
from singerlake.stores.writing.uploads import Upload


class CommitLocks:
    """Taken once, in their order, and given back by ``held``."""

    def __init__(self, locks: Sequence[Lock], held: ExitStack) -> None:
        self._locks = locks
        self._held = held
        self._taken: Future[None] = Future()

    def around(self, first: Upload, others: Iterable[Upload | None], *, beside: bool) -> Iterator[Upload | None]:
        """``first`` and ``others``. The locks are taken before ``first`` is given, or with ``beside`` after it: another
        thread prepares it meanwhile, and calls ``wait`` before it sends a byte. Raises as ``Lock.acquire``."""
        if not (beside and self._locks):
            self._take()
            yield first
        else:
            try:
                yield first
                self._take()
            except BaseException as error:
                self._fail(error)
                raise
        yield from others

    def wait(self) -> None:
        """Wait until all locks are this writer's. Raises what keeps it from taking them."""
        self._taken.result()

    def _take(self) -> None:
        for lock in self._locks[:-1]:
            self._held.enter_context(lock.held())
        for last in self._locks[-1:]:
            self._held.enter_context(last.held(self._note_taken))
        self._note_taken()

    def _fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self._taken.set_exception(error)

    def _note_taken(self) -> None:
        with suppress(InvalidStateError):
            self._taken.set_result(None)
