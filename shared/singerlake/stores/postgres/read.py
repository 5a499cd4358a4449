"""Reading one stream's state out of PostgreSQL's tables, within a transaction that somebody else began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

import msgspec

from singerlake.errors import LostStateError
from singerlake.format.exact_json import decode_stored
from singerlake.format.state import features
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest, Position, Retired, Run, SchemaVersion
from singerlake.interpreter.process import collector_paused
from singerlake.stores.numbered import Record
from singerlake.stores.postgres.connection import Connection

T = TypeVar("T")

_PAGE = 2000
"""File references in one answer, as one JSON text: large enough to cost little each, far below PostgreSQL's 1 GB."""

_HEAD = """
    SELECT number, transaction_id, lineage, next_offset, closed, settled, ''
    FROM streams WHERE table_id = %s
"""
_LOCK = """
    SELECT number, transaction_id, lineage, next_offset, closed, settled, pg_current_xact_id()::text
    FROM streams WHERE table_id = %s FOR UPDATE
"""
_TAIL = "SELECT number, body FROM transactions WHERE table_id = %s AND number > %s ORDER BY number"
_STREAM = """
    SELECT format, tap, stream, lineage, created, number, transaction_id, next_offset, versions, schemas, runs, closed,
        settled
    FROM streams WHERE table_id = %s
"""
# Aggregated in the order of the inner query, which no parallel worker may disturb; what comes is sorted once more.
_FILES = """
    SELECT string_agg(body, ',') FROM (
        SELECT body FROM file_references WHERE table_id = %s AND ("offset", file_id) > (%s, %s)
        ORDER BY "offset", file_id LIMIT %s
    ) AS page
"""
_FILES_BETWEEN = """
    SELECT string_agg(body, ',') FROM (
        SELECT body FROM file_references WHERE table_id = %s AND "offset" >= %s AND "offset" < %s
        ORDER BY "offset", file_id
    ) AS run
"""
_MORE = 'SELECT FROM file_references WHERE table_id = %s ORDER BY "offset", file_id OFFSET %s LIMIT 1'
_RETIRED = """
    SELECT file_id, path, "by", since, shown, deleted, number, place FROM files
    WHERE table_id = %s AND updated <> 'infinity' AND (number, place) > (%s, %s)
    ORDER BY number, place LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class StreamHead:
    """Where a stream stands. ``xid`` is this transaction's number in PostgreSQL, as text, where the row is locked."""

    number: int
    id: str
    lineage: str
    next_offset: int
    closed: str | None
    settled: str | msgspec.UnsetType
    xid: str

    @property
    def position(self) -> Position:
        return Position(self.number, self.id)


def read_head(connection: Connection, table_id: str, *, lock: bool = False) -> StreamHead | None:
    """The stream's head, with ``lock`` so that no other transaction commits before this one ends; None: no stream."""
    row = connection.execute(_LOCK if lock else _HEAD, (table_id,)).fetchone()
    if row is None:
        return None
    number, id, lineage, next_offset, closed, settled, xid = row
    return StreamHead(number, id, lineage, next_offset, closed, msgspec.UNSET if settled is None else settled, xid)


def read_tail(connection: Connection, table_id: str, base: Manifest, head: StreamHead) -> list[Record] | None:
    """The transactions after ``base`` up to ``head``; None where the tables no longer hold them all, or hold a whole
    new state. Raises ``CorruptObjectError``, and ``LostStateError`` where ``base`` is not in ``head``'s past."""
    before = base.transaction
    records: list[Record] = []
    rows = connection.execute(_TAIL, (table_id, before.number)).fetchall() if before.number < head.number else ()
    for _, body in rows:
        if body is None:
            return None
        record = _parsed(body, Record, "transactions", table_id)
        if record.number != before.number + 1:
            return None
        if record.after != before.id:
            break
        before = Position(record.number, record.transaction.id)
        records.append(record)
    if before == head.position:
        return records
    if base.lineage == head.lineage and (rows or before.number >= head.number):
        raise LostStateError(
            "the database lost transactions that were committed",
            hint="restore it to its newest state, or run 'singerlake rebuild --discard-manifest'; nothing was changed",
            stream=table_id,
            committed=base.transaction.number,
            found=head.number,
        )
    return None


def has_more_files(connection: Connection, table_id: str, than: int) -> bool:
    """Whether a stream lists more files than that, at little cost."""
    return connection.execute(_MORE, (table_id, than)).fetchone() is not None


def read_row(connection: Connection, table_id: str) -> Manifest | None:
    """The stream's own row; None: no such stream. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    row = connection.execute(_STREAM, (table_id,)).fetchone()
    if row is None:
        return None
    format, tap, stream, lineage, created, number, id, next_offset, versions, schemas, runs, closed, settled = row
    features.check(format, key=f"streams/{table_id}")
    return Manifest(
        format=format,
        tap=_parsed(tap, str, "streams", table_id),
        stream=_parsed(stream, str, "streams", table_id),
        store="postgres",
        lineage=lineage,
        created=created,
        transaction=Position(number, id),
        next_offset=next_offset,
        versions=_parsed(versions, dict[str, str], "streams", table_id),
        schemas=_parsed(schemas, dict[str, SchemaVersion], "streams", table_id),
        files=FileList(),
        runs=_parsed(runs, tuple[Run, ...], "streams", table_id),
        closed=closed,
        settled=msgspec.UNSET if settled is None else settled,
    )


def read_files(connection: Connection, table_id: str) -> Iterator[list[DataFile]]:
    """The listed files in the order of their offsets, some at a time. Raises ``CorruptObjectError``."""
    after = (-1, "")
    while True:
        row = connection.execute(_FILES, (table_id, *after, _PAGE), binary=True).fetchone()
        if row is None or row[0] is None:
            return
        page = _parsed_files(row[0], table_id)
        yield page
        after = page[-1].offset, page[-1].id


def read_files_between(connection: Connection, table_id: str, start: int, stop: int) -> list[DataFile]:
    """The listed files that begin at offset ``start`` or later, and before ``stop``. Raises ``CorruptObjectError``."""
    row = connection.execute(_FILES_BETWEEN, (table_id, start, stop), binary=True).fetchone()
    return [] if row is None or row[0] is None else _parsed_files(row[0], table_id)


def _parsed_files(bodies: str, table_id: str) -> list[DataFile]:
    with collector_paused():
        files = _parsed(f"[{bodies}]", list[DataFile], "file_references", table_id)
    files.sort(key=_order)
    return files


_order = attrgetter("offset", "id")


def read_retired(connection: Connection, table_id: str) -> list[Retired]:
    retired: list[Retired] = []
    after = (-1, -1)
    while rows := connection.execute(_RETIRED, (table_id, *after, _PAGE)).fetchall():
        retired.extend(
            Retired(id=id, path=path, by=by, since=since, shown=shown, deleted=deleted)
            for id, path, by, since, shown, deleted, _, _ in rows
        )
        after = rows[-1][-2:]
    return retired


def _parsed(body: str, kind: type[T], table: str, table_id: str) -> T:
    what = f"a row of the table {table} is not what it should be"
    hint = "restore the database, or run 'singerlake rebuild'; nothing was changed"
    return decode_stored(body.encode(), kind, what, hint=hint, stream=table_id)
