"""A stored object as a file that is read from any byte on."""

from __future__ import annotations

import io
from typing import Any

from singerlake.storage.port import Storage


class StoredFile(io.RawIOBase):
    """An object of ``size`` bytes as a file that is read by ranges."""

    def __init__(self, storage: Storage, key: str, size: int) -> None:
        self._storage, self._key, self._size, self._at = storage, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begins = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = begins[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        body = self._storage.read_range(self._key, self._at, min(len(buffer), self._size - self._at))
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)
