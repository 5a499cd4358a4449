"""What this machine's disk has for a while: a folder for a file that is uploaded when it is whole, tables of a
temporary SQLite database, and the paths that a state lists. SQLite makes its file when memory is full, and removes the
name at once: the file goes with its process, however that ends."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

from singerlake.errors import AccessDeniedError, SingerlakeError, StorageFullError, StorageUnavailableError

UNKNOWN = "$TMPDIR"
"""Where a file would be, as long as no folder for it was found."""

_AT_ONCE = 1 << 10
"""Rows that wait until they are written."""
_PAGE = 256
"""Rows that are read at once."""
_CACHE_KIB = 4000
"""Pages in memory. What is larger is in the file."""
_PRAGMAS = ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE")

_WITH_PATH = "FROM paths WHERE path = ?"


@contextmanager
def local_folder(made: str) -> Iterator[Path]:
    """A new folder, which goes with the block; ``made``, in the plural, is what is made there. Raises
    ``StorageFullError``, ``AccessDeniedError`` or ``StorageUnavailableError`` for what its disk refuses."""
    where = UNKNOWN
    try:
        where = tempfile.gettempdir()
        with tempfile.TemporaryDirectory(prefix="singerlake-") as folder:
            yield Path(folder)
    except OSError as error:
        raise refusal(error, made, where) from error


def refusal(error: OSError, made: str, where: str) -> SingerlakeError:
    """What the disk of ``where`` refused while ``made`` were written, as ``local_folder`` raises it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(f"no space is left for {made}", hint="free some, or set $TMPDIR", folder=where)
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{made} cannot be written", hint="set $TMPDIR", folder=where)
    reason = (error.strerror or "the disk refused").lower()
    return StorageUnavailableError(
        f"{made} cannot be written: {reason}", hint="check the disk, or set $TMPDIR", folder=where
    )


class ScratchDatabase:
    """Tables in memory, and above some MB in ``$TMPDIR``, written and read by any thread. Their space is free again as
    soon as nobody holds them.

    Nothing is ever committed: SQLite then writes only what its memory does not hold. Indexes are made when something is
    read first: to sort all rows once takes half the time of putting each where it belongs."""

    def __init__(self, made: str, tables: Sequence[str], indexes: Sequence[str]) -> None:
        """``made``, in the plural, is what is kept there; the others are the statements that create tables and indexes.
        Raises as ``local_folder``, and so do the methods."""
        self._made = made
        self._using = threading.Lock()
        self._waiting: dict[str, list[tuple[Any, ...]]] = {}
        self._indexes: tuple[str, ...] = ()
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        for pragma in (*_PRAGMAS, f"cache_size=-{_CACHE_KIB}"):
            self.all(f"PRAGMA {pragma}")
        for statement in ("BEGIN", *tables):
            self.all(statement)
        self._indexes = tuple(indexes)

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Add a row to a table. It is there when anything is read."""
        try:
            with self._using:
                waiting = self._waiting.setdefault(table, [])
                waiting.append(row)
                if len(waiting) >= _AT_ONCE:
                    self._write()
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def first(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row of a statement's answer; None where it has none."""
        rows = self.all(statement, values)
        return rows[0] if rows else None

    def all(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement's answer, which are few."""
        try:
            with self._using:
                self._prepare()
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def change(self, statement: str, values: tuple[Any, ...]) -> int:
        """How many rows a statement has changed."""
        try:
            with self._using:
                self._prepare()
                return self._connection.execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def rows(self, statement: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """All rows of a statement's answer, few of them in memory. The tables stay as they are meanwhile."""
        try:
            with self._using:
                self._prepare()
                cursor = self._connection.execute(statement, values)
            while True:
                with self._using:
                    page = cursor.fetchmany(_PAGE)
                yield from page
                if len(page) < _PAGE:
                    return
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def _prepare(self) -> None:
        if self._waiting:
            self._write()
        indexes, self._indexes = self._indexes, ()
        for statement in indexes:
            self._connection.execute(statement)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for table, rows in waiting.items():
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608

    def _refused(self, error: sqlite3.Error) -> Exception:
        """What to raise for an error: its own where the disk is not to blame."""
        code = error.sqlite_errorcode & 0xFF
        if code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            return error
        where = _sqlite_folder()
        full = code == sqlite3.SQLITE_FULL
        return refusal(OSError(ENOSPC, os.strerror(ENOSPC)) if full else _reason(where), self._made, where)


def to_raw(text: str) -> bytes:
    """A text as a table keeps it, since a path or an id may be no Unicode. Bytes are in the order of the texts."""
    return text.encode("utf-8", "surrogatepass")


def to_text(raw: bytes) -> str:
    """The text that was kept."""
    return raw.decode("utf-8", "surrogatepass")


def to_sortable(number: int) -> bytes:
    """Bytes in the order of the numbers, which may have more than the 64 bits of SQLite's."""
    size = (number.bit_length() + 7) // 8
    return (0x8000 + (size if number >= 0 else -size)).to_bytes(2) + (number % (1 << 8 * size)).to_bytes(size)


def _sqlite_folder() -> str:
    """The folder in which SQLite has its temporary files."""
    asked_for = (os.environ.get(name, "") for name in ("SQLITE_TMPDIR", "TMPDIR"))
    known = (*asked_for, "/var/tmp", "/usr/tmp", "/tmp")  # noqa: S108
    return next((folder for folder in known if os.access(folder, os.W_OK | os.X_OK)), UNKNOWN)


def _reason(where: str) -> OSError:
    """Why the disk refuses, which SQLite does not say: the disk is asked once more."""
    try:
        with tempfile.TemporaryFile(dir=where, buffering=0) as file:
            file.write(bytes(1 << 16))
            os.fsync(file.fileno())
    except OSError as error:
        return error
    return OSError(EIO, os.strerror(EIO))


class ListedPaths:
    """Paths, each with its file's size in bytes and a digest of what the state says of it. Every method may raise what
    ``ScratchDatabase`` raises."""

    def __init__(self) -> None:
        self._rows = ScratchDatabase(
            "the paths that a state lists",
            ["CREATE TABLE paths (path BLOB, size TEXT, said BLOB, shown INTEGER, stamp BLOB)"],
            ["CREATE INDEX by_path ON paths (path)"],
        )

    def add(self, path: str, size: int = 0, said: bytes = b"") -> None:
        """One more path. A damaged state may list one twice."""
        # A state may say numbers that SQLite does not have.
        self._rows.add("paths", (to_raw(path), str(size), said, 0, None))

    def size(self, path: str) -> int | None:
        """The size of a listed file, the greatest where it is listed twice; None of one that is not listed."""
        found = self._rows.all(f"SELECT size {_WITH_PATH}", (to_raw(path),))
        return max((int(listed) for (listed,) in found), default=None)

    def show(self, path: str, stamp: Callable[[bytes], bytes] | None = None) -> bool:
        """A listing shows a path; False where it is not listed. ``stamp`` makes a stamp of what is said of its file."""
        raw, made = to_raw(path), None
        if stamp is not None:
            said = self._rows.all(f"SELECT said {_WITH_PATH}", (raw,))
            # Of one that is listed twice, nobody can tell what is said.
            made = stamp(said[0][0]) if len(said) == 1 else None
        return self._rows.change("UPDATE paths SET shown = 1, stamp = ? WHERE path = ?", (made, raw)) > 0

    def is_shown(self, path: str) -> bool:
        """Whether a path is listed, and a listing of storage has shown it."""
        return self._rows.first(f"SELECT 1 {_WITH_PATH} AND shown", (to_raw(path),)) is not None

    def stamp(self, path: str) -> bytes | None:
        """The stamp that was made of a path; None where none was."""
        found = self._rows.first(f"SELECT stamp {_WITH_PATH}", (to_raw(path),))
        return found[0] if found else None

    @property
    def all_shown(self) -> bool:
        """Whether a listing of storage has shown each of them."""
        return self._rows.first("SELECT 1 FROM paths WHERE NOT shown LIMIT 1") is None

    def __contains__(self, path: str) -> bool:
        return self._rows.first(f"SELECT 1 {_WITH_PATH}", (to_raw(path),)) is not None
