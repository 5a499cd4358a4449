"""Reading attached files: bytes are held against their row while they pass."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, cast

from singerlake.errors import BrokenFileError, MissingFileError, SettingError, UnknownNameError
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage

_PIECE = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def attached_from(files: Iterable[DataFile], offset: int) -> Iterator[tuple[int, Attached]]:
    """The rows of ``files`` whose records are at ``offset`` or behind it, each with its record's offset."""
    for file in files:
        for row in file.attached:
            if file.offset + row.message >= offset:
                yield file.offset + row.message, row


def open_attached(
    storage: Storage, prefix: str, file: str | Attached | None, state: Callable[[], Manifest]
) -> BinaryIO:
    """A stream of one attached file below ``prefix``, as ``open_checked`` gives it. ``file`` is a SHA-256, None for a
    file that could not be read, or a row, with which ``state`` is asked only if its object is gone. Raises
    ``SettingError`` for a text that is not a SHA-256, ``UnknownNameError`` where no record has such a file,
    ``MissingFileError`` for one without object."""
    checksum = file.sha256 if isinstance(file, Attached) else file
    sha256 = checksum if checksum is None else checksum.strip().lower()
    if sha256 is None:
        raise MissingFileError(
            "this file could not be read when its record was captured, so the lake does not have it",
            hint="capture the record again when the file can be read",
        )
    if not _SHA256.match(sha256):
        raise SettingError(
            "this is not a SHA-256", hint="give 64 hexadecimal digits, or a row of LakeStream.attached()"
        )
    tried: set[str] = set()
    if isinstance(file, Attached):
        opened = _first(storage, prefix, [file], tried)
        if opened is not None:
            return opened
    # Once more, since the object may have been collected, and the file attached again as another one, meanwhile.
    for _ in range(2):
        rows = [row for _, row in attached_from(state().files.with_rows(), 0) if row.sha256 == sha256]
        opened = _first(storage, prefix, rows, tried)
        if opened is not None:
            return opened
        if not rows:
            break
    if not rows:
        raise UnknownNameError(
            "no record of the stream has an attached file with this SHA-256",
            hint="LakeStream.attached() lists those that records have; its record may be erased or expired",
            sha256=sha256,
        )
    raise MissingFileError(
        "a file that is attached to a record is not there",
        hint="run 'singerlake verify'; restore the file from a backup",
        key=prefix + (rows[0].path() or ""),
    )


def _first(storage: Storage, prefix: str, rows: Iterable[Attached], tried: set[str]) -> BinaryIO | None:
    """A stream of the first object of ``rows`` that is there. ``tried`` gets the paths of those that are not."""
    for row in rows:
        path = row.path()
        if path is not None and row.sha256 is not None and path not in tried:
            try:
                return open_checked(storage, prefix + path, row.sha256, row.bytes or 0)
            except MissingFileError:
                tried.add(path)
    return None


def open_checked(storage: Storage, key: str, sha256: str, size: int) -> BinaryIO:
    """A stream of the object at ``key``, which cannot seek: the last bytes are given only if there are ``size`` bytes
    with this SHA-256. Raises ``MissingFileError`` and what storage raises; while it is read, ``BrokenFileError``."""
    return cast(BinaryIO, io.BufferedReader(_Checked(storage.open(key), key, sha256, size), _PIECE))


class _Checked(io.RawIOBase):
    """The bytes of ``source``, which it owns and closes."""

    def __init__(self, source: BinaryIO, key: str, sha256: str, size: int) -> None:
        self._source = source
        self._key = key
        self._sha256 = sha256
        self._size = size
        self._seen = 0
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        # The one of the base class asks for 8 KiB at a time.
        return b"".join(iter(lambda: self._next(_PIECE), b""))

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()

    def _next(self, size: int) -> bytes:
        if not size:
            return b""
        data = self._source.read(size)
        self._hash.update(data)
        self._seen += len(data)
        if self._seen > self._size:
            raise self._broken(f"has more than the {self._size:,} bytes that were attached")
        if not data and self._seen < self._size:
            raise self._broken(f"has {self._seen:,} bytes of the {self._size:,} that were attached")
        if self._seen == self._size and self._hash.hexdigest() != self._sha256:
            raise self._broken("its bytes are not those that were attached")
        return data

    def _broken(self, message: str) -> BrokenFileError:
        hint = "run 'singerlake verify'; restore the file from a backup"
        return BrokenFileError(message, hint=hint, key=self._key)
