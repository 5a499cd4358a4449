"""A journal: a file on the local disk that says what was read so far, so that the next run can continue.

JSON lines: one that says whose journal it is, then those of the command. A line is written when its file was read
whole, and never changed. The last one may be cut, as a killed process leaves it; it counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from singerlake import open_file_lock
from singerlake.errors import SettingError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import encode
from singerlake.storage.port import Entry

STAMP_BYTES = 16
_PREFIX = 2
"""Bytes of a stamp by which it is found. Of ten million stamps, some hundred and fifty have the same ones."""

Take = Callable[[bytes, int], None]
"""Gets a whole line and its place in bytes. Raises ``ValueError`` or msgspec's ``DecodeError`` for a wrong one."""


class _JournalHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The command and the lake that a journal belongs to."""

    lake: str
    journal: str
    version: Literal[1] = 1


_HEAD = msgspec.json.Decoder(_JournalHead)


class JournalFile:
    """An open journal. Made by ``open_file``."""

    def __init__(self, path: Path, file: BinaryIO, end: int) -> None:
        self._path = path
        self._file = file
        self._end = end

    def append(self, line: msgspec.Struct) -> int:
        """Write a line, and say where it begins. Raises ``SettingError`` where the journal cannot be written."""
        text = msgspec.json.encode(line) + b"\n"
        begin, self._end = self._end, self._end + len(text)
        with _local(self._path):
            self._file.write(text)
            self._file.flush()
        return begin

    def line(self, begin: int) -> bytes:
        """The line that begins there. Raises ``SettingError`` where the journal cannot be read."""
        with _local(self._path):
            self._file.seek(begin)
            return self._file.readline()


class StampSet:
    """Stamps, in some 15 bytes of memory each. A database takes five times as long for them: they come in no order."""

    def __init__(self) -> None:
        self._rest: dict[bytes, bytearray] = {}

    def add(self, stamp: bytes) -> None:
        self._rest.setdefault(stamp[:_PREFIX], bytearray()).extend(stamp[_PREFIX:])

    def __contains__(self, stamp: bytes) -> bool:
        rest, wanted = self._rest.get(stamp[:_PREFIX]), stamp[_PREFIX:]
        at = -1 if rest is None else rest.find(wanted)
        while rest is not None and at >= 0 and at % len(wanted):
            at = rest.find(wanted, at + 1)
        return at >= 0


def stamp(entry: Entry, *more: object) -> bytes:
    """A digest of all that differs once a file on storage has changed: key, size, ETag, time, and ``more``."""
    shown = (entry.key, entry.size, entry.etag, entry.last_modified.isoformat(), *more)
    return blake2b(msgspec.msgpack.encode(shown), digest_size=STAMP_BYTES).digest()


def said_of(listed: msgspec.Struct) -> bytes:
    """A digest of what a state says of a file."""
    return blake2b(encode(listed), digest_size=STAMP_BYTES).digest()


@contextmanager
def open_file(path: Path, command: str, lake: str, take: Take) -> Iterator[JournalFile]:
    """The journal at ``path`` that ``command`` keeps of the lake with the URL ``lake``, made if need be, held for a
    block; ``take`` gets its lines first. Raises ``SettingError`` for another's, no journal, one in use or
    unreadable."""
    if not open_file_lock.AVAILABLE:
        raise SettingError(
            "a journal needs file locks (flock), which this system does not have",
            hint="leave --journal out",
            journal=str(path),
        )
    with _local(path):
        file = path.open("a+b")
    head = _JournalHead(lake, command)
    try:
        with _local(path):
            open_file_lock.take(file.fileno())
            whole = _read(file, path, head, take)
            # A cut line would run into the next one.
            file.truncate(whole)
        journal = JournalFile(path, file, whole)
        if not whole:
            journal.append(head)
        yield journal
    finally:
        # The failed write was reported when it happened; closing would try it again.
        with suppress(OSError):
            file.close()


def _read(file: BinaryIO, path: Path, head: _JournalHead, take: Take) -> int:
    """How many bytes are whole lines."""
    whole = 0
    file.seek(0)
    for line in file:
        if not line.endswith(b"\n"):
            # What a killed process was about to write begins like a journal, or it is somebody else's file.
            if not whole and not msgspec.json.encode(head).startswith(line):
                raise _foreign(path, head)
            break
        try:
            if whole:
                take(line, whole)
            else:
                _check(_HEAD.decode(line), path, head)
        except (msgspec.DecodeError, ValueError):
            raise _foreign(path, head) from None
        whole += len(line)
    return whole


def _check(read: _JournalHead, path: Path, head: _JournalHead) -> None:
    if read.journal != head.journal:
        raise SettingError(
            f"not a journal of {head.journal!r}, but of {read.journal!r}", hint="give another file", journal=str(path)
        )
    if read.lake != head.lake:
        raise SettingError(
            "the journal is another lake's",
            hint="give the journal of this lake, or a new file",
            journal=str(path),
            its_lake=read.lake,
            lake=head.lake,
        )


def _foreign(path: Path, head: _JournalHead) -> SettingError:
    return SettingError(f"not a journal of {head.journal!r}", hint="give another file", journal=str(path))


@contextmanager
def _local(path: Path) -> Iterator[None]:
    """Translate the operating system's errors."""
    try:
        yield
    except BlockingIOError as error:
        raise SettingError("the journal is in use", hint="wait for the other run", journal=str(path)) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingError(
            f"the journal cannot be read and written: {reason}", hint="give another file", journal=str(path)
        ) from error


prepare_decoders(_JournalHead)
