"""Errors of the input that singer-sdk has its own class for: both kinds at once, so that either can be caught.

Their texts are this package's: where and what is wrong, and never a record.
"""

from __future__ import annotations

from singer_sdk.exceptions import InvalidInputLine, MissingKeyPropertiesError, RecordsWithoutSchemaException

from singerlake.errors import InvalidMessageError

EXCERPT = 200
"""Bytes of a bad line that its error shows."""
_CONTENT = (b'"record"', b'"value"')


class UnreadableLineError(InvalidMessageError, InvalidInputLine):
    """A line that is not a Singer message."""


class MessageBeforeSchemaError(InvalidMessageError, RecordsWithoutSchemaException):
    """A message for a stream whose SCHEMA has not come."""


class RecordBeforeSchemaError(MessageBeforeSchemaError):
    """A RECORD or BATCH for a stream whose SCHEMA has not come."""


class MissingKeyPropertyError(InvalidMessageError, MissingKeyPropertiesError):
    """A record without one of its stream's key properties."""


class RecordAgainstSchemaError(InvalidMessageError):
    """A record that its schema does not allow, where ``validate_records`` asks to look."""


def unreadable(problem: str, line: bytes, number: int) -> UnreadableLineError:
    """The error for a line that is not a message: its number, its length in bytes and how it begins."""
    return UnreadableLineError(
        problem, hint="look at what the tap writes", line=number, length=len(line), begins=excerpt(line)
    )


def excerpt(line: bytes) -> str:
    """The first bytes of a line for an error text, without what a RECORD or STATE holds: many people read logs."""
    shown = line[:EXCERPT]
    for name in _CONTENT:
        at = shown.find(name)
        if at >= 0:
            shown = shown[: at + len(name)]
    return shown.decode("utf-8", "backslashreplace")
