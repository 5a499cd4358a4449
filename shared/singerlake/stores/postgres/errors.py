"""What PostgreSQL's errors mean for a person. No text of libpq about a connection gets out: where ``postgres_url`` has
a mistake in it, libpq quotes the part that it could not read, and that may be the password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from singerlake.errors import (
    AccessDeniedError,
    CorruptObjectError,
    SettingError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
)
from singerlake.storage.patience import DOWN, GivenUp, RetryReason

if TYPE_CHECKING:
    import psycopg

CREATE = "run 'singerlake store create'"

_CONTENDED = frozenset(("40001", "40P01"))
"""Serialization failure, deadlock: nothing was done, and the same again may succeed."""
LOCK_NOT_AVAILABLE = "55P03"
_NO_TABLES = frozenset(("42P01", "42703", "3F000"))
UNIQUE_VIOLATION = "23505"
_NOT_IN_BLOCKS = "08P01"
"""PgBouncer's state for what its pool mode does not allow."""


class NotConnectedError(StorageUnavailableError):
    """The server is not there, or lets nobody in for now. Raised as what it is a kind of, when waiting did not help."""

    def __init__(self, message: str, *, hint: str, trouble: RetryReason) -> None:
        super().__init__(message, hint=hint)
        self.trouble = trouble


class NoAddressError(SettingError):
    """The server's host name is not known."""

    trouble = RetryReason.NO_SUCH_HOST


# From libpq's, psycopg's and the server's own messages; what a server says in another language falls through.
_SILENT = r"timeout"
_NO_HOST = "correct the host, and write @, : and / in the password as %40, %3A and %2F"
_PLAIN = "no encryption|SSL off"
_BY_TLS = "SSL encryption|SSL on"
"""How a server calls a connection that its pg_hba.conf does not allow, since version 14 and before."""
_PG_HBA = "allow this client in the server's pg_hba.conf"
_CONNECTING: tuple[tuple[str, type[SingerlakeError], str, str], ...] = (
    (
        r"(password|SASL) authentication failed",
        AccessDeniedError,
        "refused the user or the password",
        "correct them",
    ),
    (r"no password supplied", AccessDeniedError, "asks for a password, and there is none", "add the password"),
    (
        rf"(?s)^(?!.*({_BY_TLS})).*pg_hba\.conf.*({_PLAIN})",
        AccessDeniedError,
        "does not allow connections without TLS from this machine",
        f"set sslmode=require, or {_PG_HBA}",
    ),
    (
        rf"(?s)^(?!.*({_PLAIN})).*pg_hba\.conf.*({_BY_TLS})",
        AccessDeniedError,
        "does not allow connections with TLS from this machine",
        f"{_PG_HBA} in a line of the kind hostssl or host",
    ),
    (r"pg_hba\.conf", AccessDeniedError, "does not allow connections from this machine", _PG_HBA),
    (
        r"permission denied for database",
        AccessDeniedError,
        "does not allow this user to connect to the database",
        "grant connect",
    ),
    (
        r"client certificate|certificate (required|authentication failed)|unknown ca",
        AccessDeniedError,
        "asks for a client certificate that it knows",
        "set sslcert and sslkey",
    ),
    (r"authentication failed|role \".*\" does not exist", AccessDeniedError, "refused the user", "correct the user"),
    (
        r"database \".*\" does not exist|no such database",
        SettingError,
        "has no database of that name",
        "correct or create the database",
    ),
    (r"(resolve|translate) host", NoAddressError, "has no address", _NO_HOST),
    (r"invalid response", SettingError, "is not PostgreSQL", "correct the host and port"),
    (
        r"root certificate file",
        SettingError,
        "cannot be verified: the file of sslrootcert is missing, or holds no certificate",
        "let sslrootcert name the file of the server's certificate authority, or set sslrootcert=system",
    ),
    (
        r"certificate verify failed",
        SettingError,
        "has a certificate of another authority than sslrootcert names",
        "let sslrootcert name the file of the authority that signed it",
    ),
    (
        r"does not match host name",
        SettingError,
        "has a certificate for another host name",
        "write the host as in the certificate",
    ),
    (
        r"private key|certificate file",
        SettingError,
        "cannot be asked: the file of sslcert or of sslkey is missing, or not as it must be",
        "correct sslcert and sslkey, which only its owner may read",
    ),
    (r"support SSL|SSL error", SettingError, "offers no TLS that sslmode accepts", "correct sslmode"),
    (
        r"unrecognized configuration|unsupported startup parameter|invalid ",
        SettingError,
        "cannot take an option",
        "correct the options",
    ),
    (
        r"too many|connection slots|no more connections",
        StorageUnavailableError,
        "has no free connection",
        "use fewer writers at a time",
    ),
    (r"starting up|shutting down|recovery", StorageUnavailableError, "is starting or ending", "wait for it"),
    (
        r"cannot connect to server|server_login_retry|server login",
        StorageUnavailableError,
        "is a pooler that does not reach its PostgreSQL",
        "check the server behind the pooler",
    ),
    (_SILENT, StorageUnavailableError, "did not answer in time", "check that it runs and can be reached"),
)
"""What a message holds, and the error it becomes: class, what the server did, next step."""


def bad_url() -> SettingError:
    """A ``postgres_url`` that libpq cannot read."""
    return SettingError(
        "postgres_url is not a libpq connection URL (its value is not shown)",
        hint="write postgresql://user:password@host:5432/database, with @, : and / in the password as %40, %3A and %2F",
    )


def cannot_connect(message: str) -> SingerlakeError:
    """Why a connection did not come about, in words that hold nothing of libpq's ``message`` or of the URL."""
    for pattern, kind, what, hint in _CONNECTING:
        if re.search(pattern, message):
            told, hint = f"the server that postgres_url names {what}", f"{hint} (postgres_url), then run again"
            if kind is StorageUnavailableError:
                silent = pattern == _SILENT
                return NotConnectedError(told, hint=hint, trouble=RetryReason.SILENT if silent else RetryReason.BUSY)
            return kind(told, hint=hint)
    return NotConnectedError(
        "no connection to the server that postgres_url names",
        hint="check that it runs and can be reached, and postgres_url, then run again; nothing was changed",
        trouble=RetryReason.SILENT,
    )


def given_up(error: SingerlakeError, how: GivenUp) -> SingerlakeError:
    """The same as ``error``, after waiting for the server."""
    waited = round(how.seconds, 1)
    if how.answered and how.trouble is not RetryReason.BUSY:
        return StorageUnavailableError(
            "the server that postgres_url names answered before and no longer does", hint=DOWN, waited_seconds=waited
        )
    kind = SettingError if isinstance(error, SettingError) else StorageUnavailableError
    return kind(error.message, hint=error.hint, waited_seconds=waited)


def is_contended(error: psycopg.Error) -> bool:
    """Whether a whole transaction is to be tried again, because others were at the same rows."""
    return error.sqlstate in _CONTENDED


def no_schema(schema: str) -> SettingError:
    """There are no tables where ``postgres_schema`` says."""
    return SettingError(
        "the database has no tables of a manifest store in postgres_schema",
        hint=f"{CREATE}, or correct postgres_schema; nothing was written",
        postgres_schema=schema,
    )


def standby() -> StorageUnavailableError:
    """The server is a copy of another one, and only that one takes writes."""
    return StorageUnavailableError(
        "the server that postgres_url names takes no writes: it is a standby",
        hint="point postgres_url to the primary, then run again; nothing was changed",
    )


def not_the_state(**context: object) -> CorruptObjectError:
    """The rows that a state stands for are not all there, or others are."""
    return CorruptObjectError(
        "the tables of the manifest store do not match the stream's state",
        hint="restore the database, or run 'singerlake rebuild --discard-manifest'; nothing was changed",
        **context,
    )


def translated(error: psycopg.Error, schema: str) -> SingerlakeError:
    """What the server answered to a statement, as an error of this package."""
    state = error.sqlstate or ""
    if state in _NO_TABLES:
        return no_schema(schema)
    if state == "42501":
        return AccessDeniedError(
            "the user of postgres_url lacks a permission in PostgreSQL",
            hint="grant usage on the schema and all on its tables, or correct postgres_url",
            postgres_schema=schema,
            reason=error.diag.message_primary,
        )
    if state == _NOT_IN_BLOCKS and "statement pooling" in str(error):
        return SettingError(
            "postgres_url names a pooler in statement pooling mode, in which there are no transactions",
            hint="set pool_mode to transaction or session for this database in the pooler; nothing was changed",
            reason=error.diag.message_primary,
        )
    if state == "0A000" and "standby" in str(error):
        return standby()
    if state == "25006":
        return StorageUnavailableError(
            "the server that postgres_url names takes no writes: default_transaction_read_only is on",
            hint="some hosts set it while the disk is full: make room, or set it to off for the server, the database or"
            " the user, then run again; nothing was changed",
        )
    if state in ("53100", "53200"):
        return StorageFullError(
            "PostgreSQL has no space left", hint="make room on the server, then run again", state=state
        )
    if state.startswith(("21", "22", "23")):
        return not_the_state(constraint=error.diag.constraint_name, state=state)
    if state == "57014":
        return StorageUnavailableError(
            "PostgreSQL took too long to run a statement", hint="run again; nothing was changed", state=state
        )
    return StorageUnavailableError(
        f"PostgreSQL failed: {error.diag.message_primary or 'the connection was lost'}",
        hint="run again; nothing was changed",
        state=state,
    )
