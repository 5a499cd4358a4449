"""Objects in clouds, read with the credentials that the lake is written with."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import BinaryIO

from singerlake.attached.sources.locations import CORRECT, CloudObject
from singerlake.attached.sources.source import Source, changed
from singerlake.errors import CorruptObjectError, SettingError, SingerlakeError, UnreadableSourceError
from singerlake.storage.port import Entry, Storage

OpenStorage = Callable[[str], Storage]
"""Opens a bucket, which is named as a lake's root is. Raises ``SettingError``."""


class CloudObjects:
    """The objects of buckets that ``open_storage`` opens. An object of at most ``small`` bytes is one request;
    of a larger one it is checked at the end that it is still the same, since it may come in several."""

    def __init__(self, open_storage: OpenStorage, small: int) -> None:
        self._open_storage = open_storage
        self._small = small
        self._lock = threading.Lock()
        self._buckets: dict[str, Storage] = {}

    def bucket(self, root: str) -> Storage:
        """The bucket that ``root`` names; nothing is sent. Raises ``SettingError``."""
        with self._lock:
            if root not in self._buckets:
                try:
                    self._buckets[root] = self._open_storage(root)
                except SettingError as error:
                    error.context.setdefault("entry", root)
                    error.rename("lake_root", "file_sources")
                    raise
            return self._buckets[root]

    def open(self, location: CloudObject) -> Source:
        """Open an object. Raises ``UnreadableSourceError``."""
        try:
            storage = self.bucket(location.root)
            beginning = storage.beginning(location.key, self._small)
            if len(beginning.data) == beginning.size:
                return Source(io.BytesIO(beginning.data), beginning.size, location.name)
            there = storage.head(location.key)
            stream = storage.open(location.key)
        except SingerlakeError as error:
            raise _unreadable(error) from error
        return Source(_Stream(stream, storage, location.key, there), beginning.size, location.name)


class _Stream:
    """Raises ``UnreadableSourceError`` in the place of what storage raises, and at the end of an object that is not the
    one that was ``there`` at its beginning."""

    def __init__(self, stream: BinaryIO, storage: Storage, key: str, there: Entry | None) -> None:
        self._stream = stream
        self._storage = storage
        self._key = key
        self._there = there

    def read(self, size: int, /) -> bytes:
        try:
            data = self._stream.read(size)
            now = self._there if data else self._storage.head(self._key)
        except SingerlakeError as error:
            raise _unreadable(error) from error
        if now is None or self._there is None or now.etag != self._there.etag:
            raise changed()
        return data

    def close(self) -> None:
        self._stream.close()


def _unreadable(error: SingerlakeError) -> UnreadableSourceError:
    hint = CORRECT
    if error.hint and not isinstance(error, CorruptObjectError):
        # What is wrong is the permission, the bucket or the network, and not the file.
        error.rename("lake_root", "file_sources")
        hint = f"{error.hint}, or set on_missing_file to record"
    return UnreadableSourceError(f"it cannot be read: {error.message}", hint=hint)
