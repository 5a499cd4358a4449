"""A declaration back from what a table's state keeps of it."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from singerlake.conditions import condition_of, named_condition_of
from singerlake.errors import CorruptObjectError, SettingError
from singerlake.tables.declaration.model import (
    ALSO,
    ICEBERG,
    Action,
    Check,
    ColumnRule,
    Deletions,
    Format,
    Formulas,
    Keep,
    NullKeys,
    TableDeclaration,
    partition_of,
)
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import EarlierRules, TableState

_DEFAULTS = TableDeclaration(name="", tap="", stream="").to_json()


def declaration_of(state: TableState) -> TableDeclaration:
    """What the table was declared to be. Raises ``CorruptObjectError``."""
    try:
        return _declaration(state.table, state.declaration)
    except (KeyError, TypeError, ValueError, AttributeError, SettingError) as error:
        raise CorruptObjectError(
            "the state of a table has no declaration that this version knows",
            hint="upgrade singerlake, or restore the object",
            key=state_key(state.table),
        ) from error


def earlier_declarations(state: TableState) -> tuple[tuple[int, TableDeclaration], ...]:
    """By which declarations the first records of the table were made, each up to an offset; those from there on by
    ``declaration_of``. Raises as it."""
    return tuple(
        (each.offset, declaration_of(structs.replace(state, declaration={**state.declaration, **_kept(each)})))
        for each in state.earlier
    )


def _kept(rules: EarlierRules) -> dict[str, Any]:
    return {"checks": rules.checks, "null_keys": rules.null_keys}


def changes(state: TableState, declaration: TableDeclaration) -> list[str]:
    """What of a declaration is another one than that of the state."""
    # A state that an earlier version wrote lacks what was declared nowhere then.
    before, now = {**_DEFAULTS, **state.declaration}, declaration.to_json()
    return [name for name in (*now, *(() if ALSO in now else (ALSO,))) if before.get(name) != now.get(name)]


def _declaration(name: str, kept: dict[str, Any]) -> TableDeclaration:
    deleted = kept["deleted_when"]
    return TableDeclaration(
        name=name,
        tap=kept["tap"],
        stream=kept["stream"],
        keep=Keep(kept["keep"]),
        key=None if kept["key"] is None else tuple(kept["key"]),
        order_by=tuple(kept["order_by"]),
        sort_by=tuple(kept["sort_by"]),
        partition_by=tuple(map(partition_of, kept["partition_by"])),
        columns={column: ColumnRule(**rule) for column, rule in kept["columns"].items()},
        checks=tuple(_check(*check) for check in kept["checks"]),
        format=Format(kept["format"]),
        csv_formulas=Formulas(kept.get("csv_formulas", "keep")),
        metadata=kept["metadata"],
        deleted_when=None if deleted is None else named_condition_of(deleted),
        deletions=Deletions(kept.get("deletions", "hard")),
        null_keys=NullKeys(kept["null_keys"]),
        sql=kept.get("sql"),
        iceberg=ICEBERG in kept.get(ALSO, ()),
    )


def _check(column: str, text: str, action: str) -> Check:
    return Check(column, text, None if text == "unique" else condition_of(text), Action(action))
