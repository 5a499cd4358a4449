"""The statement of a table in SQL, and the tables that it names, as far as that is seen without Spark. Pure.

These are the names behind FROM and JOIN, and behind commas that follow. One that the statement gives to a query of its
own is left out, since it may mean that one. Spark alone knows all of them: what is told here is for plans.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from singerlake.errors import SettingError

_BEGINS = ("select", "with", "from", "values", "table", "(")
"""What a query of Spark begins with."""
_SKIPPED = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"\(|\w+")
_NAME_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.]+)")


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
    parts = [(quoted or plain).replace("``", "`") for quoted, plain in _NAME_PART.findall(relation)]
    return parts[0] if len(parts) == 1 else None


def quoted(name: str) -> str:
    """A table's name as SQL takes it."""
    return f"`{name.replace('`', '``')}`"


_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|\w+|\S""",
    re.DOTALL,
)
_QUERY = ("select", "with", "from", "values")
_ENDS = [
    "select",
    "where",
    "group",
    "having",
    "order",
    "sort",
    "distribute",
    "cluster",
    "limit",
    "window",
    "qualify",
    "union",
    "except",
    "intersect",
    "minus",
    "pivot",
    "unpivot",
    "values",
]
"""Words behind which a comma does not lead to one more table."""


@dataclass
class _Group:
    """What stands between two parentheses, or all of it. ``selects``: a SELECT was there, so FROM means tables.
    ``wanted``: a table comes next. ``listed``: a table came, and a comma leads to the next one."""

    selects: bool = False
    wanted: bool = False
    listed: bool = False


def relations_in(statement: str) -> list[str]:
    """The tables, each once, as the statement writes them but with backquotes."""
    parts = [part for part in _TOKEN.findall(statement) if not part.startswith(("--", "/*"))]
    own = _named_queries(parts)
    found: list[str] = []
    groups = [_Group()]
    before = ""
    for place, part in enumerate(parts):
        word, following = part.lower(), parts[place + 1] if place + 1 < len(parts) else ""
        group = groups[-1]
        if part == "(":
            groups.append(_Group(wanted=group.wanted and following.lower() not in _QUERY))
            group.listed, group.wanted = group.listed or group.wanted, False
        elif part == ")":
            if len(groups) > 1:
                groups.pop()
        elif word == "from":
            # It may also be of a function, or of IS DISTINCT FROM.
            group.wanted = group.wanted or ((group.selects or before in ("", "(")) and before != "distinct")
        elif word == "join":
            group.wanted = True
        elif part == ",":
            group.wanted = group.listed
        elif word == "lateral":
            group.listed = group.wanted
        elif word in _ENDS:
            group.selects = group.selects or word == "select"
            group.wanted = group.listed = False
        elif group.wanted and _is_name(part):
            group.wanted, group.listed = False, True
            if following not in (".", "(") and _plain(part).lower() not in own:
                found.append(f"`{_plain(part).replace('`', '``')}`")
        before = word
    return list(dict.fromkeys(found))


def _named_queries(parts: list[str]) -> set[str]:
    """Names that WITH gives, in lower case: those before ``AS (``, and before a list of columns that it follows."""
    names: set[str] = set()
    opened: list[int] = []
    for place, part in enumerate(parts):
        end = place
        if part == "(":
            opened.append(place)
        elif part == ")" and opened:
            end = opened.pop() - 1
        if end >= 0 and [each.lower() for each in parts[place + 1 : place + 3]] == ["as", "("]:
            names.add(_plain(parts[end]).lower())
    return names


def _is_name(part: str) -> bool:
    return part[0] == "`" or (part[0].isidentifier() and part.isidentifier())


def _plain(part: str) -> str:
    return part[1:-1].replace("``", "`") if part[0] == "`" else part
