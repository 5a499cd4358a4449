"""Whether a transaction took effect whose COMMIT was not answered: by what it would have left, and by
``pg_xact_status``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from singerlake.errors import SingerlakeError, UnknownOutcomeError
from singerlake.storage.patience import Patience, RetryReason
from singerlake.stores.postgres.connection import driver

if TYPE_CHECKING:
    import psycopg

    from singerlake.stores.postgres.connection import Connection

    Look = Callable[[Connection], str | None]


def took_effect(
    xid: str,
    proof: Callable[[Connection], bool],
    *,
    read: Callable[[Look], str | None],
    hang_up: Callable[[], None],
    patience: Patience,
    schema: str,
) -> bool:
    """Whether the transaction ``xid`` was committed. Only what it left is ``proof`` that it was: after a failover
    another transaction may bear its number. ``read`` asks by a new transaction; ``hang_up`` closes idle connections.

    Raises ``UnknownOutcomeError``.
    """

    def look(connection: Connection) -> str | None:
        if proof(connection):
            return "proven"
        row = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (xid,)).fetchone()
        return row[0] if row else None

    wait, again = patience.begin(), True
    while again:
        trouble = RetryReason.CONFLICT
        try:
            status = read(look)
        except (driver().Error, SingerlakeError) as error:
            hang_up()
            status, trouble = None, getattr(error, "trouble", RetryReason.SILENT)
        if status == "proven":
            return True
        if status == "aborted":
            return False
        again = wait.again(trouble)
    raise UnknownOutcomeError(
        "the connection to PostgreSQL was lost during a commit, and it is not known whether the commit took effect",
        hint="run again; nothing was deleted",
        postgres_schema=schema,
    )


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection ended with this error. Before COMMIT was sent, nothing can have taken effect."""
    if error.sqlstate is None:
        return isinstance(error, driver().OperationalError)
    return error.sqlstate.startswith("08") or error.diag.severity_nonlocalized in ("FATAL", "PANIC")
