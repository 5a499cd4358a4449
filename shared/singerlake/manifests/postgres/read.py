"""Reading one stream's state out of PostgreSQL's tables, within a transaction that somebody else began."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import msgspec

from singerlake.errors import CorruptObjectError, LostStateError, UnsupportedFormatError
from singerlake.format import NEWEST_FORMAT
from singerlake.format.exact_json import decode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest, Position, Retired, Run, SchemaVersion
from singerlake.interpreter.collector import collector_paused
from singerlake.manifests.numbered import Record

if TYPE_CHECKING:
    from singerlake.manifests.postgres.connection import Connection

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
    settled: str | None
    xid: str

    @property
    def position(self) -> Position:
        """The transaction that made the state."""
        return Position(self.number, self.id)


def read_head(connection: Connection, table_id: str, *, lock: bool = False) -> StreamHead | None:
    """The stream's head, with ``lock`` so that no other transaction commits before this one ends; None: no stream."""
    row = connection.execute(_LOCK if lock else _HEAD, (table_id,)).fetchone()
    return None if row is None else StreamHead(*row)


def read_tail(connection: Connection, table_id: str, base: Manifest, head: StreamHead) -> list[Record] | None:
    """The transactions after ``base`` up to ``head``; None where the tables no longer hold them all, or hold a state
    that was put in place as a whole. Raises ``LostStateError`` where ``base`` was never in the past of ``head``, though
    both are of one lineage, and ``CorruptObjectError``."""
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
            hint="restore it to its newest state, or run 'singerlake rebuild'; nothing was changed",
            stream=table_id,
            committed=base.transaction.number,
            found=head.number,
        )
    return None


def read_state(connection: Connection, table_id: str) -> Manifest | None:
    """The whole state; None: no such stream. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    row = connection.execute(_STREAM, (table_id,)).fetchone()
    if row is None:
        return None
    format, tap, stream, lineage, created, number, id, next_offset, versions, schemas, runs, closed, settled = row
    if format > NEWEST_FORMAT:
        raise UnsupportedFormatError(
            f"written in format {format}, this version reads up to {NEWEST_FORMAT}",
            hint="upgrade singerlake",
            stream=table_id,
        )
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
        files=FileList(_files(connection, table_id)),
        retired=AppendOnlyList(_retired(connection, table_id)),
        runs=_parsed(runs, tuple[Run, ...], "streams", table_id),
        closed=closed,
        settled=msgspec.UNSET if settled is None else settled,
    )


def _files(connection: Connection, table_id: str) -> list[DataFile]:
    files: list[DataFile] = []
    with collector_paused():
        while True:
            after = (files[-1].offset, files[-1].id) if files else (-1, "")
            row = connection.execute(_FILES, (table_id, *after, _PAGE), binary=True).fetchone()
            if row is None or row[0] is None:
                return files
            page = _parsed(f"[{row[0]}]", list[DataFile], "file_references", table_id)
            page.sort(key=_order)
            files.extend(page)


_order = attrgetter("offset", "id")


def _retired(connection: Connection, table_id: str) -> list[Retired]:
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
    try:
        return decode(body.encode(), kind)
    except msgspec.DecodeError as error:
        raise CorruptObjectError(
            f"a row of the table {table} is not what it should be: {error}",
            hint="restore the database, or run 'singerlake rebuild'; nothing was changed",
            stream=table_id,
        ) from error
