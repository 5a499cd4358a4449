"""What the pages of tables show: columns as a tree, checks with their last result, how a table was declared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.clock import parse_timestamp
from singerlake.humanize import checks_in_short, cut
from singerlake.site.facts.facts import TableFacts
from singerlake.site.names import page_name
from singerlake.site.tree import LEVELS, Node
from singerlake.tables.maintain.status import Standing

CHECKS = 200
"""Of a table that its page shows."""
_NAME, _TYPE, _TEXT, _SQL = 300, 200, 1000, 20_000
"""Characters that are shown of a column's name, of its type, of a part of the declaration, of a statement."""
_DECLARED = (
    ("keep", "Keeps"),
    ("key", "Key"),
    ("order_by", "Order of records"),
    ("sort_by", "Order of rows"),
    ("partition_by", "Folders"),
    ("deleted_when", "Deleted when"),
    ("format", "Format"),
)


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check; ``failing`` counts rows of the last run that it does not hold for."""

    column: str
    condition: str
    action: str
    failing: int


def table_path(table: TableFacts) -> str:
    """Where the page of a table is."""
    return f"tables/{page_name(table.table)}.html"


def columns_path(table: TableFacts, number: int) -> str:
    """Where the columns of a table go on."""
    return f"columns/{page_name(table.table)}/{number}.html"


def column_tree(table: TableFacts) -> tuple[Node, ...]:
    """The columns of a table in their order; those of a struct lie below it."""
    return tuple(_node(each.name, each.type, ("key",) if each.name in table.key else (), 0) for each in table.columns)


def check_rows(standing: Standing) -> list[CheckRow]:
    """The checks of a table, those that do not hold first."""
    rows = [
        CheckRow(cut(column, _NAME), cut(text, _TEXT), action, standing.failing.get(f"{column} {text}", 0))
        for column, text, action in standing.checks
    ]
    return sorted(rows, key=lambda row: -row.failing)


def declared(standing: Standing) -> Iterator[tuple[str, str]]:
    """What a page says of the declaration: words for people, each with its text."""
    for key, words in _DECLARED:
        value = standing.declaration.get(key)
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if text:
            yield words, cut(text, _TEXT)


def statement(standing: Standing) -> str:
    """The SQL statement that makes the table; empty where none does."""
    sql = standing.declaration.get("sql")
    return cut(sql, _SQL) if isinstance(sql, str) else ""


def in_short(standing: Standing) -> Mapping[str, Any]:
    """What a list of tables shows of one."""
    run = standing.last_run
    return {
        "checks": checks_in_short(len(standing.checks), sum(standing.failing.values())),
        "failing": bool(standing.failing),
        "last_run": parse_timestamp(run.at) if run is not None else None,
    }


def _node(name: str, type: Any, marks: tuple[str, ...], level: int) -> Node:
    fields = _fields(type)
    deeper = bool(fields) and level + 1 >= LEVELS
    return Node(
        name=cut(name, _NAME),
        type=cut(_words(type), _TYPE),
        marks=marks,
        children=() if deeper else tuple(_node(str(inner), of, (), level + 1) for inner, of in fields),
        deeper=deeper,
    )


def _fields(type: Any) -> Sequence[Any]:
    """The fields of a struct, or of the structs in an array."""
    while isinstance(type, dict) and "array" in type:
        type = type["array"]
    return type.get("struct", ()) if isinstance(type, dict) else ()


def _words(type: Any) -> str:
    arrays = 0
    while isinstance(type, dict) and "array" in type:
        type, arrays = type["array"], arrays + 1
    if isinstance(type, dict):
        plain = f"decimal({', '.join(map(str, type['decimal']))})" if "decimal" in type else "struct"
    else:
        plain = str(type)
    return "array of " * arrays + plain
