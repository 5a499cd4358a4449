"""The lake's id, which each data file names: where storage is far, a run has members before it has the id."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

_PART = 16
"""Members that wait for the id take at most this part of the memory: a sixteenth."""


class LakeId:
    """Asked for once, by ``ask`` on a thread of its own, when it is first wanted. ``failed`` gets what that raised, at
    once. Compressed members may wait for it, in a sixteenth of ``max_memory_bytes``. Any thread may use it."""

    def __init__(
        self, ask: Callable[[], str | None], failed: Callable[[BaseException], None], max_memory_bytes: int
    ) -> None:
        self._ask = ask
        self._failed = failed
        self._room = max_memory_bytes // _PART
        self._answer: Future[str | None] | None = None
        self._changing = threading.Lock()
        self.waiting = 0
        """Bytes of the members that wait for it."""

    @property
    def known(self) -> bool:
        """Whether ``wait`` gives it, or raises, at once."""
        return self._wanted().done()

    def wait(self) -> str | None:
        """The id. Raises what asking for it raised."""
        return self._wanted().result()

    def lets_wait(self, size: int) -> bool:
        """Whether a compressed member of ``size`` bytes may wait for it, which then counts as ``waiting``."""
        wanted = self._wanted()
        with self._changing:
            if wanted.done() or self.waiting + size > self._room:
                return False
            self.waiting += size
            return True

    def ended_waiting(self, size: int) -> None:
        """Members of ``size`` bytes are where they belong."""
        with self._changing:
            self.waiting -= size

    def _wanted(self) -> Future[str | None]:
        with self._changing:
            if self._answer is None:
                self._answer = Future()
                threading.Thread(target=self._run, args=(self._answer,), name="lake-id").start()
            return self._answer

    def _run(self, answer: Future[str | None]) -> None:
        try:
            found = self._ask()
        except BaseException as error:
            self._failed(error)
            answer.set_exception(error)
        else:
            answer.set_result(found)
