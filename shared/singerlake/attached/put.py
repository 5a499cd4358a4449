"""Files that a person names, and folders of them: checked before anything is read, then read, and kept as objects."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from singerlake.attached.keep import Fetched, Keeper, read_whole
from singerlake.attached.members import attached_members
from singerlake.attached.sources.local import FileStream
from singerlake.attached.sources.source import Deadline, OpenedFile
from singerlake.clock import IdSource, timestamp
from singerlake.errors import (
    AccessDeniedError,
    ChangedFileError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
    UnreadableSourceError,
)
from singerlake.format.exact_json import encode
from singerlake.format.extra_fields import FileHeader
from singerlake.format.layout import file_path
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.singer_file import MEMBER_BYTES, Spool, compress_member, spool_error

IN_MEMORY = 4 << 20
"""Most bytes of a file that is held in memory: one request writes it, if it is not there."""
_HOW = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    # What became a FIFO since it was found must not be waited for.
    | getattr(os, "O_NONBLOCK", 0)
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_Inode = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file. ``name`` is what its record calls it; ``size`` is its bytes when it was found."""

    path: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class PutFile:
    """A file whose bytes are an object's ``copy``, ``new`` or not. ``modified`` is its own time, ``extracted`` ours."""

    name: str
    bytes: int
    sha256: str
    media_type: str
    copy: int
    modified: datetime
    extracted: datetime
    new: bool


def find_files(given: Sequence[str], *, recursive: bool, lake: str | None) -> list[FoundFile]:
    """The files that ``given`` names, in that order. A file is called by its own name; those in a folder, which
    ``recursive`` allows, by their path below it, in the byte order of names. Links are followed. ``lake`` is the folder
    of the lake, if it is one: neither it nor a folder in it must be among them.

    Raises ``SettingError`` for what is not there, not a regular file, or not named in UTF-8 or uniquely;
    ``AccessDeniedError`` for a folder that cannot be read.
    """
    home = os.path.realpath(lake) if lake is not None and os.path.isdir(lake) else None
    found: list[FoundFile] = []
    for path in given:
        status = _status(path)
        if not stat.S_ISDIR(status.st_mode):
            found.append(_file(path, os.path.basename(path), status))
            continue
        if not recursive:
            raise SettingError("this is a folder", hint="add recursive, or name the files in it", file=path)
        found += _below(path, status, home)
    named: dict[str, str] = {}
    for file in found:
        if file.name in named:
            raise SettingError(
                f"two files would be called {file.name!r}",
                hint="put a folder that holds both, with recursive, or put one after the other",
                file=file.path,
                other=named[file.name],
            )
        named[file.name] = file.path
    return found


def _below(top: str, status: os.stat_result, home: str | None) -> Iterator[FoundFile]:
    """Without recursion: folders may be deeper than the calls that the interpreter allows."""
    pending = [(_entered(top, status, [], home), "", iter(_names(top)))]
    while pending:
        _, folder, names = pending[-1]
        name = next(names, None)
        if name is None:
            pending.pop()
            continue
        inside = folder + name
        path = os.path.join(top, inside)
        status = _status(path)
        if stat.S_ISDIR(status.st_mode):
            above = [inode for inode, _, _ in pending]
            pending.append((_entered(path, status, above, home), inside + "/", iter(_names(path))))
        else:
            yield _file(path, inside, status)


def _entered(path: str, status: os.stat_result, above: Sequence[_Inode], home: str | None) -> _Inode:
    inode = status.st_dev, status.st_ino
    if inode in above:
        raise SettingError("this folder is a link to a folder above it", hint="remove the link", file=path)
    if home is not None and os.path.join(os.path.realpath(path), "").startswith(os.path.join(home, "")):
        raise SettingError("the lake itself is among the files", hint="name another folder", file=path)
    return inode


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder), key=os.fsencode)
    except OSError as error:
        raise _unreadable(folder, error) from error


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        if not isinstance(error, FileNotFoundError | NotADirectoryError) and error.errno != errno.ELOOP:
            raise _unreadable(path, error) from error
        message = "this link leads to no file" if os.path.islink(path) else "no such file"
        raise SettingError(message, hint="check its name", file=path) from error


def _file(path: str, name: str, status: os.stat_result) -> FoundFile:
    _require_regular(path, status)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SettingError(
            "the name of this file is not UTF-8, which records are", hint="rename it", file=path
        ) from None
    return FoundFile(path, name, status.st_size)


def _require_regular(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
        raise SettingError(f"this is {kind}", hint="name a regular file, with its content on a disk", file=path)


def _unreadable(path: str, error: OSError) -> AccessDeniedError | SettingError:
    if isinstance(error, PermissionError):
        return AccessDeniedError("this cannot be read", hint="check the permissions of it and its folder", file=path)
    return SettingError(f"this cannot be read: {(error.strerror or '').lower()}", hint="check it", file=path)


@dataclass(frozen=True)
class Putter:
    """Reads files and keeps their bytes as objects of a stream. Larger ones pass through ``folder``, so that the bytes
    that are sent are those that were summed up, whatever becomes of the file. For several threads at once."""

    keeper: Keeper
    tap: str
    stream: str
    folder: Path
    ids: IdSource

    def put(self, file: FoundFile, state: Callable[[], Manifest]) -> PutFile:
        """See to it that the lake has the file's bytes. ``state`` is what the stream's writer knows by now. Raises
        ``ChangedFileError`` where the file changed meanwhile, ``AccessDeniedError``, ``SettingError``,
        ``StorageUnavailableError`` where it cannot be read, and what storage and spool raise."""
        now = self.keeper.clock.now()
        fetched, modified = self._read(file)
        try:
            kept = self.keeper.keep(self.tap, self.stream, fetched, state)
        finally:
            fetched.drop()
        return PutFile(
            file.name, fetched.size, fetched.sha256, fetched.media_type, kept.copy, _moment(modified), now, kept.new
        )

    def _read(self, file: FoundFile) -> tuple[Fetched, int]:
        """The file, and when it was modified, in nanoseconds."""
        deadline = Deadline(self.keeper.clock, float("inf"))
        try:
            with closing(_opened(file)) as stream:
                source = OpenedFile(stream, os.fstat(stream.fileno()).st_size, file.name)
                fetched = read_whole(source, deadline, lambda: self.folder / self.ids(), in_memory=IN_MEMORY)
                return fetched, stream.modified
        except UnreadableSourceError as error:
            raise _changed(file) if error.passing else _broken(file, error.__cause__) from error


def _opened(file: FoundFile) -> FileStream:
    try:
        descriptor = os.open(file.path, _HOW)
    except OSError as error:
        raise _broken(file, error) from error
    try:
        status = os.fstat(descriptor)
        _require_regular(file.path, status)
        return FileStream(descriptor, status.st_mtime_ns)
    except BaseException:
        os.close(descriptor)
        raise


def _changed(file: FoundFile) -> ChangedFileError:
    return ChangedFileError(
        "the file changed while it was read",
        hint="put it again when nothing writes to it; its record was not kept",
        file=file.path,
    )


def _broken(file: FoundFile, error: BaseException | None) -> SingerlakeError:
    if isinstance(error, PermissionError):
        return AccessDeniedError("this file cannot be read", hint="check its permissions", file=file.path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _changed(file)
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return StorageUnavailableError(f"this file cannot be read: {reason}", hint="check its disk", file=file.path)


def _moment(nanoseconds: int) -> datetime:
    """A file's time, the nearest one where the years 1 to 9999 do not hold it."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
    except OverflowError:
        return (datetime.max if nanoseconds > 0 else datetime.min).replace(tzinfo=UTC)


RECORDS = 10_000
"""Most records of one data file: that many rows are in the state of the stream, and in one of its members."""
PROPERTY = "name"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "bytes": {"type": "integer", "minimum": 0},
        "sha256": {"type": "string"},
        "media_type": {"type": "string"},
        "modified": {"type": "string", "format": "date-time"},
    },
}
CONTENT = StreamSchema(schema=SCHEMA, key_properties=(PROPERTY,))
_LEVEL = 1


def write_data_file(path: Path, stream: str, version: str, header: FileHeader, kept: Sequence[PutFile]) -> NewFile:
    """Write a record for each of ``kept``, one at least, to a new file at ``path``, and describe it. Raises
    ``StorageFullError``, ``AccessDeniedError`` and ``StorageUnavailableError`` of the spool."""
    rows = tuple(_row(number, each) for number, each in enumerate(kept))
    try:
        schema = encode({"type": "SCHEMA", "stream": stream, "schema": SCHEMA, "key_properties": [PROPERTY]})
        spool = Spool(path, schema, header, level=_LEVEL)
        lines: list[bytes] = []
        size = 0
        for each in kept:
            lines.append(_record_line(stream, each))
            size += len(lines[-1])
            if size >= MEMBER_BYTES:
                _append(spool, lines)
                lines, size = [], 0
        _append(spool, lines)
        spool.append_empty(attached_members(rows))
    except OSError as error:
        raise spool_error(error, path) from error
    first, last = (choose(each.extracted for each in kept) for choose in (min, max))
    return spool.describe(
        path=file_path(stream, version, first, last, header.id),
        version=version,
        first=timestamp(first),
        last=timestamp(last),
        attached=rows,
    )


def _append(spool: Spool, lines: Sequence[bytes]) -> None:
    if lines:
        raw = b"".join(lines)
        member = compress_member(raw, _LEVEL)
        spool.append(member, raw_bytes=len(raw), messages=len(lines), records=len(lines))


def _record_line(stream: str, kept: PutFile) -> bytes:
    record = {
        "name": kept.name,
        "bytes": kept.bytes,
        "sha256": kept.sha256,
        "media_type": kept.media_type,
        "modified": timestamp(kept.modified),
    }
    extracted = timestamp(kept.extracted)
    return encode({"type": "RECORD", "stream": stream, "record": record, "time_extracted": extracted}) + b"\n"


def _row(message: int, kept: PutFile) -> Attached:
    return Attached(message, PROPERTY, kept.name, kept.sha256, kept.bytes, kept.media_type, kept.copy)
