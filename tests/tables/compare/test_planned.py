"""What a run would make of a table's rows is what the run then makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.conditions import condition_of, named_condition_of
from singerlake.errors import CheckFailedError, ExpiredMessagesError, LineageChangedError, SettingError
from singerlake.lake import Lake
from singerlake.tables.compare.counts import RowDifference
from singerlake.tables.compare.planned import PlannedDifference, PlannedDifferencesResult, planned_differences
from singerlake.tables.declaration.model import (
    Action,
    Check,
    ColumnRule,
    Format,
    Keep,
    NullKeys,
    TableDeclaration,
    partition_of,
)
from singerlake.tables.declaration.streams import Resolved
from singerlake.tables.project import plan_tables
from singerlake.tables.rows.columns import CURRENT, VALID_FROM, VALID_TO
from singerlake.upkeep.drop import drop_stream
from tests.lakes import Line
from tests.tables.compare.lakes import LATEST, TEN, add, captured, contents, context, erase, expire, run
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import made_by
from tests.tables.sql.tables import run as run_statements
from tests.tables.tables import TABLE, memory_lake

SCHEMA: Any = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "n": {"type": ["null", "string"]}, "day": {"type": "integer"}},
}
OWN = {"_singerlake_offset", "_singer_version", "_singerlake_version", "_time_extracted"}
WHEN = {VALID_FROM, VALID_TO, CURRENT}


def compared(
    lake: Lake, *declared: TableDeclaration, full_refresh: bool = False
) -> tuple[PlannedDifferencesResult, list[RowDifference]]:
    rows: list[RowDifference] = []
    tables = [Resolved(each.name, each) for each in declared]
    planned = plan_tables(lake.table_runner(), tables, full_refresh=full_refresh)
    told = planned_differences("lake", lake.table_maker(), planned, lambda table, row: rows.append(row))
    return told, rows


def one(lake: Lake, declared: TableDeclaration, **options: Any) -> tuple[PlannedDifference, list[RowDifference]]:
    found, rows = compared(lake, declared, **options)
    assert not found.failed, found.failed
    return found.tables[0], rows


def error_of(lake: Lake, declared: TableDeclaration, **options: Any) -> Exception:
    found, rows = compared(lake, declared, **options)
    assert (found.tables, rows) == ((), [])
    return found.failed[0].error


def rows_by_key(lake: Lake, keep: Keep) -> dict[Any, dict[str, Any]]:
    """The table as it is: of a history the row of each key that is valid now."""
    rows = lake.table(TABLE).to_arrow().read_all().to_pylist()
    if keep is Keep.APPEND:
        return {row["_singerlake_offset"]: row for row in rows}
    return {row["id"]: row for row in rows if row.get(CURRENT, True)}


RECORDS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 3), "day": st.integers(1, 3)},
        optional={"n": st.sampled_from(["1", "2", "x", None])},
    ),
    min_size=1,
    max_size=10,
)
RULES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([ColumnRule(drop=True), ColumnRule(cast="integer"), ColumnRule(rename="number")]),
        "day": st.sampled_from([ColumnRule(drop=True), ColumnRule(cast="text")]),
    },
)
DROPS = Check("day", "< 3", condition_of("< 3"), Action.DROP)
DECLARED = st.builds(
    lambda rules, keep, check, metadata, deleted, order: replace(
        LATEST,
        columns=rules,
        keep=keep,
        checks=(DROPS,) if check and "day" not in rules else (),
        metadata=metadata,
        deleted_when=named_condition_of("n = 'x'") if deleted and "n" not in rules else None,
        sort_by=("day",) if order and "day" not in rules else (),
    ),
    RULES,
    st.sampled_from([Keep.LATEST, Keep.HISTORY]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@given(records=RECORDS, before=DECLARED, after=DECLARED, append=st.booleans(), full=st.booleans())
def test_it_is_what_the_run_then_does(
    records: list[Line], before: TableDeclaration, after: TableDeclaration, append: bool, full: bool
) -> None:
    if append:
        before, after = (replace(each, keep=Keep.APPEND, deleted_when=None) for each in (before, after))
    lake = captured(records, schema=SCHEMA)
    run(lake, before)
    old, types = rows_by_key(lake, before.keep), lake.table(TABLE).schema
    was = contents(lake)
    found, rows = one(lake, after, full_refresh=full)
    assert contents(lake) == was
    lake.table_runner().run(after, full_refresh=full)
    new, now = rows_by_key(lake, after.keep), lake.table(TABLE).schema
    assert found.removed.keys() == set(types.names) - set(now.names)
    assert found.added.keys() == set(now.names) - set(types.names)
    same = [name for name in now.names if name in types.names and now.field(name).type == types.field(name).type]
    assert found.retyped.keys() == set(now.names) & set(types.names) - set(same)
    own = {*OWN, *WHEN}
    if Keep.HISTORY in (before.keep, after.keep):
        # A record that changes no column makes no row of a history, and what was rescued stays that of the row before.
        own.add("_rescued_data")
        found = replace(found, changed=None, columns={k: v for k, v in found.columns.items() if k not in own})
    keyed = [name for name in same if name not in own]
    changed = {key: {name for name in keyed if new[key][name] != old[key][name]} for key in new.keys() & old.keys()}
    assert (found.inserted, found.deleted) == (len(new.keys() - old.keys()), len(old.keys() - new.keys()))
    assert found.columns == {name: n for name in keyed if (n := sum(name in each for each in changed.values()))}
    assert found.changed in (None, sum(map(bool, changed.values())))
    whats = [row.what for row in rows]
    assert (whats.count("inserted"), whats.count("deleted")) == (found.inserted, found.deleted)
    assert found.changed in (None, whats.count("changed"))


def test_new_messages_do_not_count_and_new_columns_do() -> None:
    lake = captured()
    run(lake)
    wider = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {}, "age": {"type": "number"}}}
    add(lake, [{"id": 1, "name": 5, "age": 1.5}], schema=wider)
    found, rows = one(lake, LATEST)
    assert (found.fate, found.offset, rows) == ("made_anew", 10, [])
    assert "column 'name' is json now" in found.why
    assert (found.added, found.retyped) == ({"age": "double"}, {"name": ("text", "json")})
    assert (found.inserted, found.changed, found.deleted) == (0, 0, 0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(LATEST, key=("name",)), "its key is name now, and was id"),
        (replace(LATEST, keep=Keep.APPEND), "its key is none now, and was id"),
        (replace(LATEST, columns={"id": ColumnRule(rename="no")}), "its key is no now, and was id"),
        (replace(LATEST, columns={"id": ColumnRule(cast="text")}), "column id of its key has another type now"),
    ],
)
def test_rows_that_are_not_known_by_one_key_are_not_compared(changed: TableDeclaration, said: str) -> None:
    lake = captured()
    run(lake)
    found, rows = one(lake, changed)
    assert (found.why_not_compared, found.inserted, found.changed, found.deleted, rows) == (said, None, None, None, [])


@pytest.mark.parametrize(
    "changed",
    [
        LATEST,
        replace(LATEST, checks=(Check("id", "> 1", condition_of("> 1"), Action.DROP),)),
        replace(LATEST, null_keys=NullKeys.DROP),
    ],
)
def test_what_counts_from_the_next_records_on_keeps_the_rows(changed: TableDeclaration) -> None:
    lake = captured()
    run(lake)
    found, rows = one(lake, changed)
    assert (found.fate, found.why, found.changed, rows) == ("kept", "", 0, [])
    whole, rows = one(lake, changed, full_refresh=True)
    assert (whole.fate, whole.deleted) == ("made_anew", 2 if changed.checks else 0)


@pytest.mark.parametrize(
    "changed",
    [
        replace(LATEST, format=Format.CSV),
        replace(LATEST, sort_by=("name",), partition_by=(partition_of("name"),)),
        replace(LATEST, iceberg=True),
    ],
)
def test_other_files_are_no_difference(changed: TableDeclaration) -> None:
    lake = captured()
    run(lake)
    found, rows = one(lake, changed)
    assert (found.fate, found.added, found.removed, found.changed, rows) == ("made_anew", {}, {}, 0, [])


def test_tables_that_have_no_rows_yet_are_named() -> None:
    lake = captured()
    found, _ = compared(lake, LATEST)
    assert [(each.table, each.fate, each.offset) for each in found.tables] == [(TABLE, "new", None)]
    lake = memory_lake()
    add(lake, [])
    drop = one(lake, LATEST)[0]
    assert (drop.fate, drop.inserted) == ("no_messages", 0)


def test_what_cannot_be_compared_stops_no_other() -> None:
    lake = captured()
    other = replace(LATEST, name="other")
    for each in (LATEST, other):
        run(lake, each)
    fails = replace(LATEST, keep=Keep.HISTORY, checks=(Check("id", "> 5", condition_of("> 5"), Action.FAIL),))
    found, _ = compared(lake, fails, replace(other, metadata=True))
    assert [(each.table, type(each.error)) for each in found.failed] == [(TABLE, CheckFailedError)]
    assert [(each.table, each.fate) for each in found.tables] == [("other", "made_anew")]
    assert isinstance(error_of(lake, replace(LATEST, columns={"nope": ColumnRule(drop=True)})), Exception)


def test_what_was_erased_is_on_neither_side() -> None:
    lake = captured()
    run(lake)
    erase(lake, "id = 1")
    found, rows = one(lake, replace(LATEST, metadata=True))
    assert (found.fate, found.deleted, rows) == ("made_anew", 0, [])


def test_what_expired_and_what_was_dropped_is_an_error() -> None:
    lake = captured()
    run(lake)
    expire(lake, 4)
    assert isinstance(error_of(lake, LATEST, full_refresh=True), ExpiredMessagesError)
    assert isinstance(error_of(lake, replace(LATEST, metadata=True)), ExpiredMessagesError)
    lake = captured()
    run(lake)
    drop_stream(context(lake), dry_run=False)
    add(lake, TEN)
    assert isinstance(error_of(lake, LATEST), LineageChangedError)


def test_statements_are_compared_where_nothing_of_them_changed() -> None:
    lake = captured()
    run(lake)
    engine = Ids(lake.storage)
    over = made_by("over", TABLE)
    run_statements(lake, engine, over)
    assert one(lake, over)[0].fate == "kept"
    assert "a statement makes the table" in str(error_of(lake, made_by("over", f"{TABLE}, {TABLE}")))
    assert isinstance(error_of(lake, replace(LATEST, name="over")), SettingError)
