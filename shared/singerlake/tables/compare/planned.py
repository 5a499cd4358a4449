"""What a run would make of the rows that tables have, before it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from singerlake.arrow.schema.own import OFFSET
from singerlake.errors import SettingError, SingerlakeError, expected_errors
from singerlake.format.state.selection import schema_in_force
from singerlake.glance import at_a_glance
from singerlake.tables.compare.as_of import Maker, Past
from singerlake.tables.compare.counts import Counts, RowDifference, counted_differences
from singerlake.tables.compare.diff import by_key, in_order
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.run.one_table import TableResult
from singerlake.tables.run.plan import SqlPlan, TablePlan
from singerlake.tables.state.model import TableState
from singerlake.tables.state.types import columns_of, type_name, words_of

Told = Callable[[str, RowDifference], object]
"""Is called with the name of a table, and a row of it that differs."""


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDifference:
    """What a run would make of the rows that a table has, which are those of messages before ``offset``. ``fate``:
    ``kept`` where they stay as they are, ``made_anew`` for the reason ``why``, ``new`` where the table is not published
    yet, ``no_messages`` where its stream has none.

    Columns that would be ``added`` and ``removed`` have their types, ``retyped`` ones the type of before and after.
    ``columns`` says in how many of the ``changed`` rows each column differs that is in both with one type. The counts
    are None where rows of before and after are not known by one key, as ``why_not_compared`` says."""

    table: str
    tap: str
    stream: str
    fate: Literal["kept", "made_anew", "new", "no_messages"]
    why: str = ""
    offset: int | None = None
    added: Mapping[str, str] = field(default_factory=dict)
    removed: Mapping[str, str] = field(default_factory=dict)
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    inserted: int | None = 0
    changed: int | None = 0
    deleted: int | None = 0
    columns: Mapping[str, int] = field(default_factory=dict)
    why_not_compared: str | None = None


@at_a_glance
@dataclass(frozen=True, slots=True)
class PlannedDifferencesResult:
    """What a run would make of the rows that tables have. Those of which that cannot be said are in ``failed``."""

    lake: str
    tables: tuple[PlannedDifference, ...]
    failed: tuple[TableFailure, ...]


def planned_differences(
    lake: str, maker: Maker, planned: Iterable[TableResult], told: Told | None = None
) -> PlannedDifferencesResult:
    """Compare each table with what its plan makes of the same messages. One that cannot be compared stops no other."""
    tables: list[PlannedDifference] = []
    failed: list[TableFailure] = []
    for each in planned:
        name = each.declaration.name
        try:
            with expected_errors(table=name):
                tables.append(_difference(maker, each, told))
        except SingerlakeError as error:
            failed.append(TableFailure(name, error))
    return PlannedDifferencesResult(lake, tuple(tables), tuple(failed))


def _difference(maker: Maker, planned: TableResult, told: Told | None) -> PlannedDifference:
    if planned.error is not None:
        raise planned.error
    declaration, plan = planned.declaration, planned.plan
    found = PlannedDifference(
        table=declaration.name, tap=declaration.tap, stream=declaration.stream, fate="no_messages"
    )
    if plan is None:
        return found
    base = None if plan.base is None or not plan.base.state.is_published else plan.base.state
    if base is None:
        return replace(found, fate="new")
    if isinstance(plan, SqlPlan) and plan.is_nothing:
        return replace(found, fate="kept")
    if isinstance(plan, SqlPlan) or not base.sources:
        raise SettingError(
            "a statement makes the table, or made it, and its rows are known only when it is run",
            hint="declare it under another name, run that, and compare the two",
        )
    old, new = ({each.name: each.type for each in side.fields} for side in (columns_of(base), plan.columns.table))
    retyped = [name for name in new if name in old and words_of(old[name]) != words_of(new[name])]
    found = replace(
        found,
        fate="kept",
        offset=base.sources[0].offset,
        added={name: type_name(type) for name, type in new.items() if name not in old},
        removed={name: type_name(type) for name, type in old.items() if name not in new},
        retyped={name: (type_name(old[name]), type_name(new[name])) for name in retyped},
    )
    if not plan.why:
        return found
    found = replace(found, fate="made_anew", why=plan.why)
    differs = _keys_differ(base, plan, found.retyped)
    if differs:
        return replace(found, inserted=None, changed=None, deleted=None, why_not_compared=differs)
    counts = _counted(maker, base, plan, found, told)
    return replace(
        found, inserted=counts.inserted, changed=counts.changed, deleted=counts.deleted, columns=counts.columns
    )


def _keys_differ(base: TableState, plan: TablePlan, retyped: Mapping[str, tuple[str, str]]) -> str | None:
    before, after = base.key, plan.names(plan.key)
    if before != after:
        return f"its key is {_listed(after)} now, and was {_listed(before)}"
    named = next((name for name in after if name in retyped), None)
    return None if named is None else f"column {named} of its key has another type now"


def _listed(key: Sequence[str]) -> str:
    return ", ".join(key) or "none"


def _counted(maker: Maker, base: TableState, plan: TablePlan, found: PlannedDifference, told: Told | None) -> Counts:
    past, offset = in_order(Past.of(maker, base)), base.sources[0].offset
    before = past.made(offset)
    schema = schema_in_force(plan.manifest)
    key = () if schema is None else schema.key_properties
    after = maker.made(by_key(plan.declaration), plan.manifest, offset, key)
    other = {*found.added, *found.removed, *found.retyped}
    among = [name for name in after.schema.names if name not in other and name in before.schema.names]
    if not before.state.key:
        among.append(OFFSET)
    tell = None if told is None else partial(told, plan.declaration.name)
    return counted_differences(before, after, tell, among=among)
