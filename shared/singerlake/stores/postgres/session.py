"""Transactions on PostgreSQL: a consistent read, and a write that is tried again until it is known to be done or not.

Serializable transactions are to be retried from their beginning on SQLSTATE 40001, advisably on 40P01, and with care on
23505 (PostgreSQL manual, "Serialization Failure Handling"). Whether one took effect whose COMMIT was not answered is
found by what it would have left, and by ``pg_xact_status``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from singerlake.clock import Backoff, Clock
from singerlake.errors import (
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
    TooManyConflictsError,
    UnknownOutcomeError,
)
from singerlake.storage.patience import Patience, RetryReason
from singerlake.stores.postgres import errors
from singerlake.stores.postgres.connection import Connection, Connections, PostgresSettings, connections_to, driver
from singerlake.stores.postgres.schema import check_name, check_version

if TYPE_CHECKING:
    import psycopg


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection ended with this error. Before COMMIT was sent, nothing can have taken effect."""
    if error.sqlstate is None:
        return isinstance(error, driver().OperationalError)
    return error.sqlstate.startswith("08") or error.diag.severity_nonlocalized in ("FATAL", "PANIC")


T = TypeVar("T")

ATTEMPTS = 100
"""Tries of one transaction against others at the same rows. The time between them grows evenly: a try waits for the
row itself, so that what is slept is only to keep all who waited from coming at once."""
_WAITS = 10
"""Tries that may end because a lock was not given up in time: 10 s each."""
_UNIQUE_ATTEMPTS = 3
_FIRST_WAIT = 0.005
_LONGEST_WAIT = 0.25

_AT_COMMIT = "it ended the connection at COMMIT"

_LIMITS = """
    SET LOCAL search_path TO {schema};
    SET LOCAL statement_timeout TO '120s';
    SET LOCAL lock_timeout TO '10s';
    SET LOCAL idle_in_transaction_session_timeout TO '60s';
    SET LOCAL enable_seqscan TO off;
    SET LOCAL jit TO off;
"""
# A writer that was stopped in mid-transaction must not hold up the others for good. A sequential scan would put a
# predicate lock on a whole table, and streams that have nothing to do with one another would fail to serialize.
# Compiling a statement takes longer than running any of these.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';"
# An acknowledged commit must outlive a crash of the server, whichever default the database has.
_VERSION = "SELECT max(version) FROM {schema}.schema_version"
# With its schema: by the search path, a user who may not use the schema would not be denied the table, but not find it.
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;" + _LIMITS + _VERSION
_WRITE = "BEGIN ISOLATION LEVEL SERIALIZABLE;" + _LIMITS + _DURABLE + _VERSION


@dataclass(frozen=True, slots=True)
class WriteResult(Generic[T]):
    """What a write came to. ``xid``: its transaction's number in PostgreSQL, as text; None: nothing to commit."""

    value: T
    xid: str | None = None


class _RetryError(Exception):
    """The transaction did not take effect, and is to be tried again."""


class _EndedError(Exception):
    """The connection ended at COMMIT, and the transaction did not take effect."""


class Session:
    """Transactions of one store. ``schema`` is ``postgres_schema``; ``patience`` is that with the server."""

    def __init__(self, connections: Connections, schema: str, patience: Patience) -> None:
        self._connections = connections
        self._schema = schema
        self._patience = patience
        self._clock = patience.clock

    def read(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` reads, all of it from one moment. Raises what ``cannot_connect``, ``check_version`` and
        ``translated`` give. On a thread that is in a transaction on the same tables, it reads in that one: a user of
        the database may have one connection alone."""
        connection = self._connections.running(self._schema)
        return work(connection) if connection is not None else self._tried(lambda: self._read_once(work), writes=False)

    def write(self, work: Callable[[Connection], WriteResult[T]], proof: Callable[[Connection], bool]) -> T:
        """What ``work`` gives, once it is committed; ``work`` may run more than once, each time from new. ``proof``
        tells whether the tables hold what ``work`` wrote when it ran last.

        Raises as ``read``, ``TooManyConflictsError`` (nothing was committed) and ``UnknownOutcomeError``.
        """
        return self._tried(lambda: self._write_once(work, proof), writes=True)

    def close(self) -> None:
        self._connections.close()

    def _tried(self, once: Callable[[], T], *, writes: bool) -> T:
        database_error = driver().Error
        wait = self._patience.begin(writes=writes)
        tries = unique = waits = 0
        backoff = Backoff(self._clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
        while tries < ATTEMPTS:
            problem: psycopg.Error | None = None
            try:
                value = once()
            except _RetryError:
                pass
            except _EndedError:
                if not wait.again(RetryReason.SILENT, said=_AT_COMMIT):
                    raise StorageUnavailableError(
                        f"PostgreSQL failed: {_AT_COMMIT}", hint="look at the server's log; nothing was changed"
                    ) from None
                continue
            except (errors.NotConnectedError, errors.NoAddressError) as error:
                if not wait.again(error.trouble, said=error.message):
                    assert wait.given_up is not None
                    raise errors.given_up(error, wait.given_up) from None
                continue
            except database_error as error:
                problem = error
            else:
                self._patience.answered(writes=writes)
                return value
            if problem is not None and is_lost(problem):
                # Connections that lay idle beside this one are probably gone as well.
                self._connections.close()
                told = errors.translated(problem, self._schema)
                if isinstance(told, SettingError) or not wait.again(RetryReason.SILENT, said=told.message):
                    raise told
                continue
            if problem is not None and problem.sqlstate == errors.LOCK_NOT_AVAILABLE:
                waits += 1
                if waits >= _WAITS:
                    break
            elif problem is not None and not errors.is_contended(problem):
                unique += problem.sqlstate == errors.UNIQUE_VIOLATION
                if problem.sqlstate != errors.UNIQUE_VIOLATION or unique >= _UNIQUE_ATTEMPTS:
                    raise errors.translated(problem, self._schema)
            tries += 1
            backoff.wait()
        raise TooManyConflictsError(
            "other writers kept changing the same rows first, or held a lock too long",
            hint="run again, with fewer writers on this stream; nothing was changed",
            postgres_schema=self._schema,
        )

    def _begin(self, connection: Connection, text: str) -> None:
        from psycopg.sql import SQL, Identifier

        cursor = connection.execute(SQL(text).format(schema=Identifier(self._schema)))
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        check_version(row[0] if row else None, self._schema)

    @contextmanager
    def _transaction(self, text: str) -> Iterator[Connection]:
        with self._connections.lent() as connection:
            self._begin(connection, text)
            with self._connections.runs(connection, self._schema):
                yield connection

    def _read_once(self, work: Callable[[Connection], T]) -> T:
        with self._transaction(_READ) as connection:
            return work(connection)

    def _write_once(self, work: Callable[[Connection], WriteResult[T]], proof: Callable[[Connection], bool]) -> T:
        with self._transaction(_WRITE) as connection:
            done = work(connection)
            if done.xid is None or self._commit(connection):
                return done.value
        if self._took_effect(done.xid, proof):
            return done.value
        raise _EndedError

    def _commit(self, connection: Connection) -> bool:
        """Whether the server confirmed it; False where no answer came. What the server refuses is raised."""
        try:
            if connection.execute("COMMIT").statusmessage != "COMMIT":
                raise _RetryError
        except driver().Error as error:
            # A server that is shut down while it waits for a standby says so after it has committed.
            if not connection.closed and not is_lost(error):
                raise
            return False
        return True

    def _took_effect(self, xid: str, proof: Callable[[Connection], bool]) -> bool:
        """Whether the transaction ``xid`` was committed. Only what it left is ``proof`` that it was: after a failover
        another transaction may bear its number. Raises ``UnknownOutcomeError``."""

        def look(connection: Connection) -> str | None:
            if proof(connection):
                return "proven"
            row = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (xid,)).fetchone()
            return row[0] if row else None

        wait, again = self._patience.begin(), True
        while again:
            trouble = RetryReason.CONFLICT
            try:
                status = self._read_once(look)
            except (driver().Error, SingerlakeError) as error:
                self._connections.close()
                status, trouble = None, getattr(error, "trouble", RetryReason.SILENT)
            if status == "proven":
                return True
            if status == "aborted":
                return False
            again = wait.again(trouble)
        raise UnknownOutcomeError(
            "the connection to PostgreSQL was lost during a commit, and it is not known whether the commit took effect",
            hint="run again; nothing was deleted",
            postgres_schema=self._schema,
        )


def session_of(settings: PostgresSettings, clock: Clock) -> Session:
    """Transactions on the tables that ``settings`` name. Raises ``SettingError`` where the driver is missing, or the
    schema cannot have this name."""
    check_name(settings.schema)
    driver()
    url = settings.url
    patience = Patience(settings.patience_seconds, clock, place="postgres_url", what="PostgreSQL", key=url)
    return Session(connections_to(url), settings.schema, patience)


def current_xid(connection: Connection) -> str:
    """The number of the running transaction, which makes it one that writes."""
    row = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert row is not None
    return str(row[0])
