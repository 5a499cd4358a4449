"""Keeping the bytes of one file of this machine as an object of attached files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from singerlake.attached.media_types import media_type_of_name
from singerlake.attached.objects import put_attached
from singerlake.attached.put.find import FoundFile, require_regular
from singerlake.clock import Clock, IdSource
from singerlake.errors import AccessDeniedError, ChangedFileError, SingerlakeError, StorageUnavailableError
from singerlake.format import layout
from singerlake.singer_file import spool_error
from singerlake.storage.port import Storage

IN_MEMORY = 4 << 20
"""Most bytes of a file that is held in memory: one request writes it, if it is not there."""
_PIECE = 1 << 20
_HOW = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    # What became a FIFO since it was found must not be waited for.
    | getattr(os, "O_NONBLOCK", 0)
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kept:
    """A file whose bytes are an object. ``copy`` is the object's; ``new``: it was not there before. ``modified`` is the
    file's own time, ``extracted`` when it was read."""

    name: str
    bytes: int
    sha256: str
    media_type: str
    copy: int
    modified: datetime
    extracted: datetime
    new: bool


@dataclass(frozen=True)
class Keeper:
    """Keeps files below ``prefix``, the key prefix of their stream. Larger ones pass through ``folder``, so that the
    bytes that are sent are those that were summed up, whatever becomes of the file. For several threads at once."""

    storage: Storage
    prefix: str
    folder: Path
    clock: Clock
    ids: IdSource

    def keep(self, file: FoundFile, copy_of: Callable[[str], int]) -> Kept:
        """See to it that the file's bytes are there. ``copy_of`` gives the copy under which a SHA-256 is kept.

        Raises ``ChangedFileError`` where the file changed while it was read, ``AccessDeniedError``, ``SettingError``
        and ``StorageUnavailableError`` where it cannot be read, and what storage and spool raise.
        """
        now = self.clock.now()
        with _opened(file) as source:
            before = os.fstat(source.fileno())
            size = before.st_size
            body: bytes | Path
            if size <= IN_MEMORY:
                body, sha256 = _read(source, file, size)
            else:
                body = self.folder / self.ids()
                sha256 = self._copy(source, file, size, body)
            try:
                after = os.fstat(source.fileno())
                if (after.st_size, after.st_mtime_ns) != (size, before.st_mtime_ns):
                    raise _changed(file)
                copy = copy_of(sha256)
                new = put_attached(self.storage, self.prefix + layout.attached_path(sha256, copy), body, size)
            finally:
                if isinstance(body, Path):
                    body.unlink(missing_ok=True)
        kind = media_type_of_name(file.name)
        return Kept(file.name, size, sha256, kind, copy, _moment(before.st_mtime_ns), now, new)

    def _copy(self, source: IO[bytes], file: FoundFile, size: int, path: Path) -> str:
        """Copy exactly ``size`` bytes; their SHA-256."""
        digest, left = hashlib.sha256(), size
        try:
            with path.open("xb") as spool:
                while piece := _piece(source, file, min(_PIECE, left + 1)):
                    left -= len(piece)
                    if left < 0:
                        raise _changed(file)
                    digest.update(piece)
                    spool.write(piece)
            if left:
                raise _changed(file)
        except BaseException as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise spool_error(error, path) from error
            raise
        return digest.hexdigest()


def _opened(file: FoundFile) -> IO[bytes]:
    try:
        descriptor = os.open(file.path, _HOW)
    except OSError as error:
        raise _unreadable(file, error) from error
    try:
        require_regular(file.path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def _read(source: IO[bytes], file: FoundFile, size: int) -> tuple[bytes, str]:
    """Exactly ``size`` bytes, and their SHA-256."""
    parts: list[bytes] = []
    left = size + 1
    while left and (piece := _piece(source, file, left)):
        parts.append(piece)
        left -= len(piece)
    if left != 1:
        raise _changed(file)
    body = b"".join(parts)
    return body, hashlib.sha256(body).hexdigest()


def _piece(source: IO[bytes], file: FoundFile, size: int) -> bytes:
    try:
        return source.read(size) or b""
    except OSError as error:
        raise _unreadable(file, error) from error


def _changed(file: FoundFile) -> ChangedFileError:
    return ChangedFileError(
        "the file changed while it was read",
        hint="put it again when nothing writes to it; its record was not kept",
        file=file.path,
    )


def _unreadable(file: FoundFile, error: OSError) -> SingerlakeError:
    if isinstance(error, PermissionError):
        return AccessDeniedError("this file cannot be read", hint="check its permissions", file=file.path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _changed(file)
    reason = (error.strerror or str(error)).lower()
    return StorageUnavailableError(f"this file cannot be read: {reason}", hint="check its disk", file=file.path)


def _moment(nanoseconds: int) -> datetime:
    """A file's time, the nearest one where the years 1 to 9999 do not hold it."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return (datetime.max if nanoseconds > 0 else datetime.min).replace(tzinfo=UTC)
