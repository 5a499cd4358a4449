"""The second stage of collection in PostgreSQL: which files have had no reference for long, by the database's clock,
and their end. The first stage is the commit that takes a file's last reference, which stamps it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from singerlake.format.fold import Conflict
from singerlake.format.model import Position, Retired
from singerlake.manifests.postgres_read import read_head
from singerlake.manifests.postgres_session import Done, Session

if TYPE_CHECKING:
    from singerlake.manifests.postgres_connection import Connection

_PAGE = 1000
_SHOWN = 5

_UNREFERENCED = """
    SELECT file_id, path, "by", since, updated::text FROM files
    WHERE table_id = %s AND updated <> 'infinity' AND updated <= now() - %s
        AND (updated, file_id) > (%s::timestamptz, %s)
    ORDER BY updated, file_id LIMIT %s
"""
_STILL_LISTED = """
    SELECT file_id FROM files WHERE table_id = %s AND file_id = ANY(%s) AND updated = 'infinity'
    UNION SELECT file_id FROM file_references WHERE table_id = %s AND file_id = ANY(%s)
    ORDER BY file_id
"""
_FORGET = "DELETE FROM files WHERE table_id = %s AND updated <> 'infinity' AND file_id = ANY(%s)"
_MOVE_HEAD = "UPDATE streams SET number = %s, transaction_id = %s WHERE table_id = %s"
_LOG = "INSERT INTO transactions (table_id, number, id, at, kind) VALUES (%s, %s, %s, %s, 'forget_files')"


def unreferenced(session: Session, table_id: str, older_than: timedelta) -> Iterator[Retired]:
    """The files that lost their last reference at least ``older_than`` ago, longest ago first. A page at a time, so
    that no connection waits for the caller, and what is forgotten meanwhile disturbs nothing."""
    after = ("-infinity", "")
    while True:
        rows = _page(session, (table_id, older_than, *after, _PAGE))
        yield from (Retired(id=id, path=path, by=by, since=since) for id, path, by, since, _ in rows)
        if len(rows) < _PAGE:
            return
        after = (rows[-1][4], rows[-1][0])


def _page(session: Session, arguments: tuple[object, ...]) -> list[tuple[Any, ...]]:
    return session.read(lambda connection: connection.execute(_UNREFERENCED, arguments).fetchall())


def forget(
    connection: Connection, table_id: str, ids: Sequence[str], *, transaction: str, at: str
) -> tuple[Done[int | Conflict], Position | None]:
    """Take files without reference out of the tables: how many there were, and where that stands among the stream's
    transactions. Where one of them has a reference, or none is there, nothing is done."""
    head = read_head(connection, table_id, lock=True)
    if head is None:
        return Done(0), None
    chosen = list(ids)
    listed = [id for (id,) in connection.execute(_STILL_LISTED, (table_id, chosen) * 2).fetchall()]
    if listed:
        return Done(Conflict(f"files to forget are listed: {', '.join(listed[:_SHOWN])}")), None
    gone = connection.execute(_FORGET, (table_id, chosen)).rowcount
    if not gone:
        return Done(0), None
    position = Position(head.number + 1, transaction)
    # Without a body, so that nobody goes on from a state that still has these files.
    connection.execute(_LOG, (table_id, position.number, position.id, at))
    connection.execute(_MOVE_HEAD, (position.number, position.id, table_id))
    return Done(gone, head.xid), position
