"""Marks of tables as rows of PostgreSQL: which state of each is the newest."""

from __future__ import annotations

from singerlake.clock import Clock
from singerlake.format import layout
from singerlake.stores.postgres.connection import Connection, PostgresSettings
from singerlake.stores.postgres.session import WriteResult, current_xid, session_of

_READ = "SELECT mark FROM table_marks WHERE table_id = %s"
_NEW = "INSERT INTO table_marks (mark, table_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_REPLACE = "UPDATE table_marks SET mark = %s WHERE table_id = %s AND mark = %s"


class PostgresMarks:
    """The marks of a lake's tables. Every method may raise what ``Session`` raises."""

    def __init__(self, settings: PostgresSettings, lake_id: str, clock: Clock) -> None:
        # Tables are made by several threads at once, and connections are the process's own.
        self._session = session_of(settings, clock)
        self._lake_id = lake_id

    def read(self, table: str) -> str | None:
        """The table's mark now; None where it has none."""
        return self._session.read(lambda connection: self._found(connection, table))

    def swap(self, table: str, before: str | None, after: str) -> bool:
        """Put ``after``, a new text, for ``before`` (None: none), else False. Raises ``UnknownOutcomeError``."""

        def work(connection: Connection) -> WriteResult[bool]:
            row = (after, self._id(table))
            new = before is None
            done = connection.execute(_NEW, row) if new else connection.execute(_REPLACE, (*row, before))
            return WriteResult(True, current_xid(connection)) if done.rowcount else WriteResult(False)

        return self._session.write(work, lambda connection: self._found(connection, table) == after)

    def _found(self, connection: Connection, table: str) -> str | None:
        row = connection.execute(_READ, (self._id(table),)).fetchone()
        return None if row is None else str(row[0])

    def _id(self, table: str) -> str:
        return f"{self._lake_id}#table/{layout.to_segment(table)}"
