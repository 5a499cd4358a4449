"""The statement of a table in SQL, as far as it is understood without Spark. Pure."""

from __future__ import annotations

import re

from singerlake.errors import SettingError

_BEGINS = ("select", "with", "from", "values", "table", "(")
"""What a query of Spark begins with."""
_SKIPPED = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"\(|\w+")
_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")


def statement_of(text: str) -> str:
    """The statement, without white space and a semicolon around it. Raises ``SettingError`` where it begins as no query
    does: whether it is one as a whole, Spark says."""
    statement = text.strip().removesuffix(";").rstrip()
    skipped = _SKIPPED.match(statement)
    found = _WORD.match(statement, skipped.end() if skipped else 0)
    word = found[0] if found is not None else ""
    if word.lower() not in _BEGINS:
        raise SettingError(f"a statement that begins with {word!r} is not a query", hint="write one SELECT")
    return statement


def name_in(relation: str) -> str | None:
    """The table that a name in a statement means, written as Spark quotes it; None where it has several parts."""
    parts = [(quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(relation)]
    return parts[0] if len(parts) == 1 else None


def quoted(name: str) -> str:
    """A table's name as SQL takes it."""
    return f"`{name.replace('`', '``')}`"
