"""Opening what a record names, wherever that is."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import BinaryIO

from singerlake.attached.sources.https import WebFiles
from singerlake.attached.sources.local import LocalFiles
from singerlake.attached.sources.locations import CORRECT, Allowed, CloudObject, LocalFile, parse_location
from singerlake.attached.sources.source import Deadline, OpenedFile, changed
from singerlake.errors import CorruptObjectError, SettingError, SingerlakeError, UnreadableSourceError
from singerlake.storage.port import Entry, Storage


class FileSources:
    """All places that ``allowed`` lists. ``open_storage`` opens buckets; an object of at most ``small`` bytes is one
    request. ``web`` reads URLs. For several threads. Raises ``SettingError`` for an unreadable place."""

    def __init__(self, allowed: Allowed, *, open_storage: OpenStorage, small: int, web: WebFiles) -> None:
        self._allowed = allowed
        self._local = LocalFiles(allowed.folders)
        self._cloud = CloudObjects(open_storage, small)
        self._web = web
        for bucket in allowed.clouds:
            self._cloud.bucket(bucket.root)

    def open(self, text: str, deadline: Deadline) -> OpenedFile:
        """Open a file, if that is allowed. Raises ``UnreadableSourceError``, ``CancelledError`` as ``deadline``."""
        deadline.left()
        location = parse_location(text)
        if isinstance(location, LocalFile):
            return self._local.open(location)
        if isinstance(location, CloudObject):
            self._allowed.require(location)
            return self._cloud.open(location)
        return self._web.open(location, deadline)

    def trouble(self) -> list[tuple[str, str]]:
        """Folders of the list that cannot be read from now, each with why; the others are not asked."""
        return self._local.trouble()

    def close(self) -> None:
        self._web.close()


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

    def open(self, location: CloudObject) -> OpenedFile:
        """Open an object. Raises ``UnreadableSourceError``."""
        try:
            storage = self.bucket(location.root)
            beginning = storage.beginning(location.key, self._small)
            if len(beginning.data) == beginning.size:
                return OpenedFile(io.BytesIO(beginning.data), beginning.size, location.name)
            there = storage.head(location.key)
            stream = storage.open(location.key)
        except SingerlakeError as error:
            raise _unreadable(error) from error
        return OpenedFile(_Stream(stream, storage, location.key, there), beginning.size, location.name)


class _Stream:
    """Raises ``UnreadableSourceError`` for storage's errors, and at the end of an object that was replaced."""

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
