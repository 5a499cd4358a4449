"""Which tables a statement names, as far as that is seen without Spark. Pure.

These are the names behind FROM and JOIN, and behind commas that follow. One that the statement gives to a query of its
own is left out, since it may mean that one. Spark alone knows all of them: what is told here is for plans.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|\w+|\S""",
    re.DOTALL,
)
_QUERY = ("select", "with", "from", "values")
_ENDS = (
    "select where group having order sort distribute cluster limit window qualify union except intersect minus pivot "
    "unpivot values"
).split()
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
    tokens = [token for token in _TOKEN.findall(statement) if not token.startswith(("--", "/*"))]
    own = _named_queries(tokens)
    found: list[str] = []
    groups = [_Group()]
    before = ""
    for place, token in enumerate(tokens):
        word, following = token.lower(), tokens[place + 1] if place + 1 < len(tokens) else ""
        group = groups[-1]
        if token == "(":
            groups.append(_Group(wanted=group.wanted and following.lower() not in _QUERY))
            group.listed, group.wanted = group.listed or group.wanted, False
        elif token == ")":
            if len(groups) > 1:
                groups.pop()
        elif word == "from":
            # It may also be of a function, or of IS DISTINCT FROM.
            group.wanted = group.wanted or ((group.selects or before in ("", "(")) and before != "distinct")
        elif word == "join":
            group.wanted = True
        elif token == ",":
            group.wanted = group.listed
        elif word == "lateral":
            group.listed = group.wanted
        elif word in _ENDS:
            group.selects = group.selects or word == "select"
            group.wanted = group.listed = False
        elif group.wanted and _is_name(token):
            group.wanted, group.listed = False, True
            if following not in (".", "(") and _plain(token).lower() not in own:
                found.append(f"`{_plain(token).replace('`', '``')}`")
        before = word
    return list(dict.fromkeys(found))


def _named_queries(tokens: list[str]) -> set[str]:
    """Names that WITH gives, in lower case: those before ``AS (``, and before a list of columns that it follows."""
    names: set[str] = set()
    opened: list[int] = []
    for place, token in enumerate(tokens):
        end = place
        if token == "(":
            opened.append(place)
        elif token == ")" and opened:
            end = opened.pop() - 1
        if end >= 0 and [each.lower() for each in tokens[place + 1 : place + 3]] == ["as", "("]:
            names.add(_plain(tokens[end]).lower())
    return names


def _is_name(token: str) -> bool:
    return token[0] == "`" or (token[0].isidentifier() and token.isidentifier())


def _plain(token: str) -> str:
    return token[1:-1].replace("``", "`") if token[0] == "`" else token
