"""SQL as of a moment or a commit: tables are those of ``Lake.table``, raw streams have what they had then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import ExpiredMessagesError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import TableDeclaration
from tests.atomic.lakes import commit_together, decide_against, numbers
from tests.tables.compare.lakes import TEN, add, captured, contents, erase, expire, run
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import made_by
from tests.tables.sql.tables import run as run_statements
from tests.tables.tables import STREAM, TABLE, TAP, memory_lake

RAW = f'raw."{TAP}"."{STREAM}"'
MONDAY, TUESDAY = "2026-01-01T00:00:30Z", "2026-01-01T00:01:30Z"


@pytest.fixture
def lake() -> Lake:
    """Four records on one minute, six on the next."""
    made = captured(TEN[:4])
    add(made, TEN[4:])
    run(made)
    return made


@pytest.mark.parametrize(("at", "count"), [(MONDAY, 4), (TUESDAY, 10)])
def test_tables_and_streams_are_those_of_then(lake: Lake, at: str, count: int) -> None:
    before = contents(lake)
    found = lake.sql(f"SELECT id, name FROM {TABLE} ORDER BY id", as_of=at).fetchall()
    assert found == [
        tuple(row.values())
        for row in lake.table(TABLE, as_of=at).to_arrow(columns=["id", "name"]).read_all().to_pylist()
    ]
    both = f"SELECT count(*), max(name) FROM {RAW} JOIN {TABLE} USING (id, name)"
    assert lake.sql(both, as_of=at).fetchall() == [(4, f"n{count - 1}")]
    assert lake.sql(f"SELECT name FROM {RAW}", as_of=at).fetchall() == [(f"n{n}",) for n in range(count)]
    assert contents(lake) == before


def test_a_relation_is_read_when_its_folder_is_gone(lake: Lake, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = lake.sql(f"SELECT id FROM {TABLE}", as_of=MONDAY).filter("id > 1").order("id")
    assert [each.name for each in tmp_path.iterdir() if not each.name.startswith("singerlake-sql")] == []
    assert (found.fetchall(), found.fetchall()) == ([(2,), (3,)], [(2,), (3,)])


def test_columns_are_those_of_then(lake: Lake) -> None:
    wider = {"type": "object", "properties": {"id": {"type": "integer"}, "age": {"type": "number"}}}
    add(lake, [{"id": 1, "age": 1.5}], schema=wider)
    run(lake)
    assert lake.sql(f"SELECT count(age) FROM {TABLE}").fetchall() == [(1,)]
    for name in (TABLE, RAW):
        with pytest.raises(SettingError, match='"age" not found'):
            lake.sql(f"SELECT age FROM {name}", as_of=TUESDAY)


@pytest.mark.parametrize("name", [TABLE, RAW])
def test_a_moment_that_cannot_be_is_refused(lake: Lake, name: str) -> None:
    for point, message in (
        ("2025-12-31T23:59:59Z", "had no message at"),
        ("2027-01-01T00:00:00Z", "is in the future"),
        ("monday", "not a moment"),
        ("../20260101T030410.001000Z-9q2c1m5d0o8s4k7e", "not a moment"),
    ):
        with pytest.raises(SettingError, match=message):
            lake.sql(f"SELECT * FROM {name}", as_of=point)
    with pytest.raises(UnknownNameError, match="this tap has none"):
        lake.sql(f"SELECT * FROM {name}", as_of="20260101T030410.001000Z-9q2c1m5d0o8s4k7e")
    with pytest.raises(SettingError, match="an offset is of one stream"):
        lake.sql(f"SELECT * FROM {name}", as_of=4)  # type: ignore[arg-type]
    expire(lake, 4)
    with pytest.raises(ExpiredMessagesError, match="expired"):
        lake.sql(f"SELECT * FROM {name}", as_of=MONDAY)


def test_what_was_erased_is_in_none_of_it_at_no_moment(lake: Lake) -> None:
    erase(lake, "id = 1")
    for at in (MONDAY, TUESDAY):
        for name in (TABLE, RAW):
            assert lake.sql(f"SELECT count(*) FROM {name} WHERE id = 1 OR name = 'n1'", as_of=at).fetchall() == [(0,)]


def test_names_that_are_not_there_are_refused_as_ever(lake: Lake) -> None:
    for statement in ("SELECT * FROM users", f'SELECT * FROM raw."{TAP}".nope', "SELECT * FROM raw.nope.nope"):
        with pytest.raises(UnknownNameError):
            lake.sql(statement, as_of=MONDAY)
    with pytest.raises(SettingError, match="SHOW TABLES lists the tables that there are now"):
        lake.sql("SHOW TABLES", as_of=MONDAY)
    with pytest.raises(SettingError, match="not one statement that reads"):
        lake.sql(f"DELETE FROM {TABLE}", as_of=MONDAY)
    assert [row[0] for row in lake.sql(f"DESCRIBE {TABLE}", as_of=MONDAY).fetchall()][:2] == ["id", "name"]


def test_a_table_of_a_statement_has_no_past(lake: Lake) -> None:
    run_statements(lake, Ids(lake.storage), made_by("over", TABLE))
    assert lake.sql("SELECT count(*) FROM over").fetchall() == [(4,)]
    with pytest.raises(SettingError, match="made by a statement"):
        lake.sql("SELECT * FROM over", as_of=MONDAY)


def test_a_commit_is_one_view_of_all_its_streams() -> None:
    lake = memory_lake()
    first = commit_together(lake, TAP, {"a": numbers(0, 3), "b": numbers(0, 2)})
    second = commit_together(lake, TAP, {"a": numbers(3, 5), "b": numbers(2, 3)})
    commit_together(lake, TAP, {"b": numbers(3, 9)})
    lake.table_runner().run(TableDeclaration(name="of_b", tap=TAP, stream="b"))
    both = f'SELECT (SELECT count(*) FROM raw."{TAP}".a), (SELECT count(*) FROM of_b)'
    counts = [lake.sql(both, as_of=point).fetchall() for point in (first, second, None)]
    assert counts == [[(3, 2)], [(5, 3)], [(5, 9)]]
    assert [lake.table("of_b", as_of=point).rows for point in (first, second)] == [2, 3]
    assert lake.diff_table("of_b", first, second).inserted == 1
    against = decide_against(lake, TAP)
    with pytest.raises(UnknownNameError, match="was decided against"):
        lake.sql(both, as_of=against)
    commit_together(lake, "another", {"a": numbers(0, 1)})
    with pytest.raises(UnknownNameError, match="there is no commit"):
        lake.sql("SELECT * FROM raw.another.a", as_of=second)
