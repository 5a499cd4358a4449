"""What the page of a table says of it: its columns, its declaration, its checks, and what it was made from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from singerlake.clock import parse_timestamp
from singerlake.humanize import cut
from singerlake.site.facts import StreamFacts, TableFacts
from singerlake.site.paths import table_path
from singerlake.site.tree import LEVELS, Node, tree_of
from singerlake.tables.maintain.status import Standing

CHECKS = 150
"""Of a table that its page shows."""
_NAME, _TYPE, _DECLARED_TEXT, _SQL = 300, 200, 1000, 20_000
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


@dataclass(frozen=True, slots=True)
class Input:
    """A table that a statement read; ``path`` is None where it is not in this lake. ``is_older``: it has other rows
    now than those that were read."""

    table: str
    path: str | None
    is_older: bool
    last_run: datetime | None


def inputs_of(table: TableFacts, tables: Mapping[str, TableFacts]) -> list[Input]:
    """What the statement of a table read."""
    found = []
    for read in table.reads:
        now = tables.get(read.table)
        run = now.standing.last_run if now is not None and now.standing is not None else None
        found.append(
            Input(
                table=read.table,
                path=table_path(now) if now is not None else None,
                is_older=now is not None and now.rows_id != read.rows,
                last_run=parse_timestamp(run.at) if run is not None else None,
            )
        )
    return found


def column_tree(table: TableFacts, source: StreamFacts | None) -> tuple[Node, ...]:
    """The columns of a table in their order; those of a struct lie below it. What the stream's schema says of a
    property is said of its column."""
    known = _properties(table, source)
    return tuple(
        _node(each.name, each.type, ("key",) if each.name in table.key else (), 0, known) for each in table.columns
    )


def _properties(table: TableFacts, source: StreamFacts | None) -> Mapping[str, Node]:
    """The properties of a stream by the names that the table gives them."""
    if source is None or source.current is None or table.standing is None:
        return {}
    rules = table.standing.declaration.get("columns")
    rules = rules if isinstance(rules, dict) else {}
    known = {}
    for node in tree_of(source.current.schema.schema):
        rule = rules.get(node.name)
        name = rule.get("rename") if isinstance(rule, dict) else None
        known[name if isinstance(name, str) else node.name] = node
    return known


def check_rows(standing: Standing) -> list[CheckRow]:
    """The checks of a table, those that do not hold first."""
    rows = [
        CheckRow(cut(column, _NAME), cut(text, _DECLARED_TEXT), action, standing.failing.get(f"{column} {text}", 0))
        for column, text, action in standing.checks
    ]
    return sorted(rows, key=lambda row: -row.failing)


def declared(standing: Standing) -> Iterator[tuple[str, str]]:
    """What a page says of the declaration: words for people, each with its text."""
    for key, words in _DECLARED:
        value = standing.declaration.get(key)
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        # What a statement gives is kept as it is.
        if text and not (key == "keep" and standing.source is None):
            yield words, cut(text, _DECLARED_TEXT)


def statement(standing: Standing) -> str:
    """The SQL statement that makes the table; empty where none does."""
    sql = standing.declaration.get("sql")
    return cut(sql, _SQL) if isinstance(sql, str) else ""


def _node(name: str, type: Any, marks: tuple[str, ...], level: int, known: Mapping[str, Node]) -> Node:
    fields = _fields(type)
    deeper = bool(fields) and level + 1 >= LEVELS
    said = known.get(name)
    inside = {each.name: each for each in said.children} if said is not None else {}
    return Node(
        name=cut(name, _NAME),
        type=cut(_words(type), _TYPE),
        marks=marks,
        description=said.description if said is not None else "",
        children=() if deeper else tuple(_node(str(inner), of, (), level + 1, inside) for inner, of in fields),
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
