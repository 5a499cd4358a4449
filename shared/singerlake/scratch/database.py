"""Tables of a temporary SQLite database. SQLite makes its file when memory is full, and removes the name at once: the
file goes with its process, however that ends."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from errno import EIO, ENOSPC
from typing import Any

from singerlake.scratch.folder import UNKNOWN, refusal

_AT_ONCE = 1 << 10
"""Rows that wait until they are written."""
_PAGE = 256
"""Rows that are read at once."""
_CACHE_KIB = 4000
"""Pages in memory. What is larger is in the file."""
_PRAGMAS = ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE")


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
        where = _folder()
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


def _folder() -> str:
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
