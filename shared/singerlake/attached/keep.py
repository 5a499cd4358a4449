"""The objects of attached files: the same bytes once, under their checksum, whichever records have them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from singerlake.attached.fetch import Fetched
from singerlake.clock import Clock
from singerlake.errors import CorruptObjectError, StorageUnavailableError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Storage, Written

_ATTEMPTS = 5
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


def free_copy(manifest: Manifest, sha256: str) -> int:
    """The copy under which a writer that knows the state ``manifest`` keeps the bytes with this checksum: the least one
    that is not being collected, so that no collector deletes what is in use again."""
    retired = manifest.retired_by_id
    return next(copy for copy in count(1) if layout.attached_name(sha256, copy) not in retired)


def put_attached(storage: Storage, key: str, body: bytes | Path, size: int) -> bool:
    """See to it that the object at ``key``, whose name is the checksum of ``body``, is there with its ``size`` bytes;
    whether it was written now. A file at a path may be taken away.

    Whoever else writes it at the same time writes the same bytes. Raises ``CorruptObjectError`` where an object of
    another size is there, ``StorageUnavailableError`` where others keep deleting it, and what storage raises.
    """
    for _ in range(_ATTEMPTS):
        new = True
        if isinstance(body, bytes):
            outcome = put_on_condition(storage, key, body, etag=None, just_read=True)
            if isinstance(outcome, Written) and outcome.etag == hashlib.md5(body, usedforsecurity=False).hexdigest():
                return True
            new = isinstance(outcome, Written)
        elif storage.head(key) is None:
            storage.upload(key, body)
            return True
        else:
            new = False
        there = storage.head(key)
        # A collector may have deleted it since.
        if there is not None:
            if there.size != size:
                raise CorruptObjectError(
                    f"has {there.size} bytes, the file with this name has {size}",
                    hint="move it away, run again, then run 'singerlake verify'",
                    key=key,
                )
            return new
    message = "an attached file is deleted each time that it is stored"
    raise StorageUnavailableError(message, hint="run again when 'singerlake gc' is done", key=key)
