"""Connections to PostgreSQL: opened when needed, shared by all stores of a process, closed when they lie idle.

Each costs the server something even if it is idle, so a thread closes them, and ends when nothing is left to close.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from singerlake.errors import SettingError
from singerlake.interpreter.threads import LateThread, LateThreads
from singerlake.storage.patience import PATIENCE_SECONDS
from singerlake.stores.postgres.errors import bad_url, cannot_connect

if TYPE_CHECKING:
    import psycopg

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

IDLE_SECONDS = 5.0
"""No connection stays open longer than this after its last use."""
_OLDEST_SERVER = 130000

_DEFAULTS = {
    "connect_timeout": "10",
    "fallback_application_name": "singerlake",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""Where ``postgres_url`` does not say otherwise; seconds."""


@dataclass(frozen=True, kw_only=True)
class PostgresSettings:
    """``url`` is ``postgres_url`` (secret). ``schema`` is ``postgres_schema``, whose tables ``singerlake store create``
    makes. ``patience_seconds`` is how long a request is repeated while the database does not answer."""

    url: str = field(repr=False)
    schema: str
    patience_seconds: float = PATIENCE_SECONDS


class Connections:
    """The connections of this process to one server and database. Safe to use from several threads."""

    def __init__(self, url: str, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._url = url
        self._idle_seconds = idle_seconds
        self._threads = threading.local()
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Connection, LateThread] = {}
        self._late = LateThreads(self._idle_seconds, "singerlake-postgres-idle")

    @contextmanager
    def runs(self, connection: Connection, schema: str) -> Iterator[None]:
        """Note that this thread is in a transaction on the tables of ``schema``."""
        self._threads.running = schema, connection
        try:
            yield
        finally:
            self._threads.running = None

    def running(self, schema: str) -> Connection | None:
        """The connection on which this thread is in a transaction on the tables of ``schema``; None: in none."""
        running: tuple[str, Connection] | None = getattr(self._threads, "running", None)
        return running[1] if running is not None and running[0] == schema else None

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A connection in autocommit mode; what is left open in it is rolled back. Raises as ``connect``."""
        connection = self._taken() or connect(self._url)
        try:
            yield connection
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close what is idle; the next use opens again."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection, closing in idle.items():
            closing.end()
            _close(connection)

    def _taken(self) -> Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, closing = self._idle.popitem()
            closing.end()
            if not connection.closed:
                return connection

    def _give_back(self, connection: Connection) -> None:
        from psycopg.pq import TransactionStatus

        if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(driver().Error):
                connection.rollback()
        if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
            _close(connection)
            return
        with self._lock:
            # In real time: it is the server that waits.
            self._idle[connection] = self._late.begin(partial(self._close_idle, connection))

    def _close_idle(self, connection: Connection) -> None:
        with self._lock:
            is_idle = self._idle.pop(connection, None) is not None
        if is_idle:
            _close(connection)

    def abandon(self) -> list[Connection]:
        """In a process just forked: begin anew, and give the parent's idle connections, which are to be left alone."""
        inherited = list(self._idle)
        self._begin()
        return inherited


_registry: dict[str, Connections] = {}
_registering = threading.Lock()
_inherited: list[Connection] = []


def connections_to(url: str) -> Connections:
    with _registering:
        return _registry.setdefault(url, Connections(url))


def driver() -> Any:
    """The module psycopg. Raises ``SettingError`` where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise SettingError(
            "manifest_store 'postgres' needs the driver psycopg, which cannot be loaded",
            hint="run: pip install 'singerlake[postgres]'",
            reason=str(error),
        ) from error
    return psycopg


def connect(url: str) -> Connection:
    """A new connection. Raises ``SettingError``, ``AccessDeniedError``, ``StorageUnavailableError`` without ``url``."""
    psycopg = driver()
    try:
        parameters = psycopg.conninfo.conninfo_to_dict(url)
    except (psycopg.Error, ValueError):
        parameters = None
    if not parameters or "\0" in url:
        raise bad_url()
    problem = ""
    try:
        connection: Connection = psycopg.connect(
            **{**_DEFAULTS, **parameters, "client_encoding": "UTF8"},
            autocommit=True,
            # A pooler between this and the server may hand the next transaction to another session.
            prepare_threshold=None,
        )
    except (psycopg.Error, ValueError, OSError) as error:
        problem = str(error) or type(error).__name__
    if problem:
        raise cannot_connect(problem)
    if connection.info.server_version < _OLDEST_SERVER:
        _close(connection)
        raise SettingError("the server that postgres_url names is older than PostgreSQL 13", hint="upgrade the server")
    return connection


def _close(connection: Connection) -> None:
    with suppress(Exception):
        connection.close()


def _close_all() -> None:
    for connections in list(_registry.values()):
        connections.close()


def _in_child() -> None:
    global _registering
    _registering = threading.Lock()
    for connections in _registry.values():
        # Kept, since closing one would end the parent's session, and its descriptor let go, so that the parent's end
        # is the session's end.
        for connection in connections.abandon():
            with suppress(Exception):
                os.close(connection.fileno())
            _inherited.append(connection)


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
