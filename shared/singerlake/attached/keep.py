"""Bringing files that were read into the lake, the same bytes once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from singerlake.attached.fetch import Fetched
from singerlake.attached.objects import free_copy, put_attached
from singerlake.clock import Clock
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage

_REMEMBERED = 1 << 16
_SECONDS = 900.0
"""How long an object counts as there: less than any collector waits before it deletes what nobody lists."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a file: the copy of the object, and whether it was written now."""

    copy: int
    new: bool


@dataclass
class Keeper:
    """Writes the objects of attached files, and knows those that it wrote lately. Safe to share between threads."""

    storage: Storage
    clock: Clock
    remembered: int = _REMEMBERED
    _known: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, tap: str, stream: str, fetched: Fetched, state: Callable[[], Manifest]) -> Kept:
        """See to it that the lake has the bytes. ``state`` is what the stream's writer knows by now. Raises as
        ``put_attached``."""
        copy = free_copy(state(), fetched.sha256)
        path = layout.attached_path(fetched.sha256, copy)
        if self._is_known(stream, path):
            return Kept(copy, new=False)
        new = put_attached(self.storage, layout.stream_prefix(tap, stream) + path, fetched.body, fetched.size)
        self._remember(stream, path)
        return Kept(copy, new)

    def _is_known(self, stream: str, path: str) -> bool:
        with self._lock:
            since = self._known.get((stream, path))
        return since is not None and self.clock.monotonic() - since < _SECONDS

    def _remember(self, stream: str, path: str) -> None:
        with self._lock:
            while len(self._known) >= self.remembered:
                del self._known[next(iter(self._known))]
            self._known.pop((stream, path), None)
            self._known[stream, path] = self.clock.monotonic()
