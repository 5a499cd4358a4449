"""The table ``commits``: the decisions about a tap's atomic runs, each in the transaction that it decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singerlake.format.decision import Decision, decision_from_json
from singerlake.format.exact_json import ascii_json

if TYPE_CHECKING:
    from singerlake.stores.postgres.connection import Connection

_KEEP = "INSERT INTO commits (tap_id, name, body) VALUES (%s, %s, %s)"
_BY_NAME = "SELECT body FROM commits WHERE tap_id = %s AND name = %s"


def keep_decision(connection: Connection, tap_id: str, decision: Decision) -> None:
    """Add a decision, in a transaction that somebody else began."""
    connection.execute(_KEEP, (tap_id, decision.id, ascii_json(decision)))


def is_kept(connection: Connection, tap_id: str, name: str) -> bool:
    """Whether there is a decision about a commit."""
    return connection.execute(_BY_NAME, (tap_id, name)).fetchone() is not None


def read_decision(connection: Connection, tap_id: str, name: str) -> Decision | None:
    """The decision about a commit; None where there is none. Raises ``CorruptObjectError``,
    ``UnsupportedFormatError``."""
    row = connection.execute(_BY_NAME, (tap_id, name)).fetchone()
    return None if row is None else decision_from_json(row[0].encode(), key=f"commits/{tap_id}/{name}.json")
