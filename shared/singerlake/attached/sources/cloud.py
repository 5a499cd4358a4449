"""Objects in clouds, read with the credentials that the lake is written with."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import BinaryIO

from singerlake.attached.sources.locations import CORRECT, CloudObject
from singerlake.attached.sources.source import Source
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, UnreadableSourceError
from singerlake.storage.port import Storage

OpenStorage = Callable[[str], Storage]
"""Opens a bucket, which is named as a lake's root is. Raises ``SettingError``."""


class CloudObjects:
    """The objects of buckets that ``open_storage`` opens. An object of at most ``small`` bytes is one request."""

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
                    error.rename("lake_root", "file_sources")
                    raise
            return self._buckets[root]

    def open(self, location: CloudObject) -> Source:
        """Open an object. Raises ``UnreadableSourceError``."""
        try:
            storage = self.bucket(location.root)
            beginning = storage.beginning(location.key, self._small)
            stream: BinaryIO = io.BytesIO(beginning.data)
            if len(beginning.data) < beginning.size:
                stream = storage.open(location.key)
        except SingerlakeError as error:
            raise _unreadable(error) from error
        return Source(_Stream(stream), beginning.size, location.name)


class _Stream:
    """Raises ``UnreadableSourceError`` in the place of what storage raises."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except SingerlakeError as error:
            raise _unreadable(error) from error

    def close(self) -> None:
        self._stream.close()


def _unreadable(error: SingerlakeError) -> UnreadableSourceError:
    hint = CORRECT
    if isinstance(error, AccessDeniedError):
        hint = "let the credentials of the lake read it, or set on_missing_file to record"
    return UnreadableSourceError(f"it cannot be read: {error.message}", hint=hint)
