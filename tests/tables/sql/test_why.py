"""What is said of a row that a statement made: the rows of the tables that it read, and no guess."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from singerlake.arrow.schema.columns import Array, Boolean, Date, Decimal, Double, Field, Integer, Struct, Text
from singerlake.errors import SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.why import origins
from singerlake.tables.why.statement import Origin, UnknownOriginError, origin_of
from tests.lakes import build_stream
from tests.tables.sql.test_origins import HOSTILE, A, Given, Row, made, publish

A_ROWS: list[Row] = [{"id": n, "k": "xy"[n % 2], "n": n % 4} for n in range(6)]
INTEGER, TEXT = Integer(), Text()


def every(table: str, *columns: str) -> Any:
    """Gives these columns of all rows of a table."""
    return lambda tables: [tuple(row[name] for name in columns) for row in tables[table]]


def groups(tables: Mapping[str, list[Row]]) -> list[tuple[Any, ...]]:
    keys = sorted({row["k"] for row in tables["a"]})
    return [(key, sum(row["n"] for row in tables["a"] if row["k"] == key)) for key in keys]


def one(tables: Mapping[str, list[Row]]) -> list[tuple[Any, ...]]:
    return [(1,)]


@pytest.fixture
def lake() -> Lake:
    """``a``, ``by_k`` over it, and ``big`` over that."""
    lake = made(A_ROWS, [{"k": "x", "v": 1}], keep=Keep.LATEST)
    sql = "SELECT k, sum(n) AS total FROM a GROUP BY k"
    publish(lake, "by_k", sql, Given(lake, ["a"], ["k", "total"], [TEXT, INTEGER], groups))
    sql = "SELECT upper(k) AS name, b.total FROM by_k AS b"
    publish(lake, "big", sql, Given(lake, ["by_k"], ["name", "total"], [TEXT, INTEGER], every("by_k", "k", "total")))
    return lake


def test_rows_are_told_by_key_and_offset_and_columns_by_what_made_them(lake: Lake) -> None:
    found = lake.table("by_k").why({"k": "x"}, sample=2)
    assert (found.trouble, found.reads, found.record, found.offset) == (None, ("a",), None, None)
    assert [(cell.column, cell.value, cell.made) for cell in found.cells] == [
        ("k", "x", ("k",)),
        ("total", 2, ("SUM(n)",)),
    ]
    (rows,) = found.made_of
    assert (rows.table, rows.read_by, rows.count) == ("a", "by_k", 3)
    assert rows.rows == ({"id": 0, "_singerlake_offset": 0}, {"id": 2, "_singerlake_offset": 2})
    assert lake.table("by_k").why({"k": "x"}, sample=0).made_of[0].rows == ()
    assert lake.table("a").why(offset=2).cells[0].value == 2


def test_statements_over_statements_are_followed_table_by_table(lake: Lake) -> None:
    found = lake.table("big").why({"name": "x"})
    assert [(each.table, each.read_by, each.count) for each in found.made_of] == [("by_k", "big", 1), ("a", "by_k", 3)]
    assert found.made_of[0].rows == ({"k": "x", "total": 2},)
    assert {row["id"] for row in found.made_of[1].rows} == {0, 2, 4}
    assert (found.cells[0].made, found.trouble) == (("UPPER(k)",), None)


def test_a_row_is_asked_for_as_ever(lake: Lake) -> None:
    with pytest.raises(UnknownNameError, match="no row"):
        lake.table("by_k").why({"k": "z"}, missing=True)
    with pytest.raises(SettingError, match="no offset"):
        lake.table("by_k").why(offset=1)


def test_a_table_that_has_other_rows_by_now_is_not_guessed_at(lake: Lake) -> None:
    build_stream(lake, "t", "s", A, [{"id": 9, "k": "x", "n": 5}], key_properties=("id",))
    lake.table_runner().run(TableDeclaration(name="a", tap="t", stream="s", keep=Keep.LATEST))
    for table, key in (("by_k", {"k": "x"}), ("big", {"name": "x"})):
        found = lake.table(table).why(key)
        assert found.made_of == ()
        assert "table a has other rows now than the statement read; run 'singerlake project run'" in str(found.trouble)
    lake.drop_tables(["a"])
    assert "table a has other rows now" in str(lake.table("by_k").why({"k": "x"}).trouble)


def test_rows_of_records_that_were_erased_are_not_named(lake: Lake) -> None:
    lake.erase("id = 2")
    for table, key in (("by_k", {"k": "x"}), ("big", {"name": "x"})):
        found = lake.table(table).why(key)
        assert found.made_of == ()
        assert "table a is behind: records of its stream were erased" in str(found.trouble)


@pytest.mark.parametrize("module", ["sqlglot", "duckdb"])
def test_what_is_not_installed_is_said(lake: Lake, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    found = lake.table("by_k").why({"k": "x"})
    assert (found.made_of, found.cells[0].value) == ((), "x")
    assert "pip install 'singerlake[sql]'" in str(found.trouble)


def test_names_and_values_are_no_part_of_a_statement() -> None:
    lake = made([{"id": 1, "k": HOSTILE, "n": 1}, {"id": 2, "k": "x", "n": 1}], [{"k": "x", "v": 1}])
    name = 'a"; DROP TABLE t0 --'
    build_stream(lake, "t", "odd", {"properties": {name: {"type": "string"}, "there": {}}}, [{name: HOSTILE}])
    lake.table_runner().run(TableDeclaration(name="o d'd", tap="t", stream="odd", keep=Keep.APPEND))
    sql = f"SELECT a.k, o.`{name}` AS y FROM a JOIN `o d'd` AS o ON a.k = o.`{name}`"
    rows = Given(lake, ["a", "o d'd"], ["k", "y"], [TEXT, TEXT], lambda tables: [(HOSTILE, HOSTILE)])
    publish(lake, "over", sql, rows)
    found = lake.table("over").why({"k": HOSTILE})
    assert found.trouble is None
    assert [(each.table, each.rows) for each in found.made_of] == [
        ("a", ({"_singerlake_offset": 0},)),
        ("o d'd", ({"_singerlake_offset": 0},)),
    ]


def test_rows_that_only_a_part_tells_apart_are_not_guessed_at() -> None:
    lake = made([{"id": n, "k": "x", "n": n} for n in range(3)], [{"k": "x", "v": 1}])
    sql = "SELECT k, n + 0 AS m FROM a WHERE k LIKE 'x%'"
    publish(lake, "over", sql, Given(lake, ["a"], ["k", "m"], [TEXT, INTEGER], every("a", "k", "n")))
    found = lake.table("over").why({"m": 1})
    assert found.made_of == ()
    assert "3 rows may have made it, and which one depends on n + 0 AS m, WHERE k LIKE 'x%'" in str(found.trouble)


@pytest.fixture
def shallow() -> Iterator[None]:
    """Python's own limit, which other tests may have raised."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize("count", [500, 5000])
def test_long_conditions_are_known_or_refused(lake: Lake, count: int) -> None:
    condition = " OR ".join(f"(n = {n} AND id = 1)" for n in range(count))
    publish(lake, "deep", f"SELECT count(*) AS c FROM a WHERE {condition}", Given(lake, ["a"], ["c"], [INTEGER], one))
    found = lake.table("deep").why({"c": 1})
    if count == 500:
        assert [each.rows for each in found.made_of] == [({"id": 1, "_singerlake_offset": 1},)]
    else:
        assert "syntax that is nested too deeply" in str(found.trouble)


def test_what_duckdb_refuses_is_said(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SettingError("DuckDB refuses the statement: it is too deep", hint="correct it")

    monkeypatch.setattr(origins, "_check", refuse)
    found = lake.table("by_k").why({"k": "x"})
    assert found.made_of == ()
    assert "the rows behind this row of by_k cannot be named: DuckDB refuses the statement: it is too deep" in str(
        found.trouble
    )


def test_a_stream_that_was_dropped_is_said(lake: Lake) -> None:
    lake.drop("t", "s")
    found = lake.table("by_k").why({"k": "x"})
    assert (found.made_of, found.cells[0].value) == ((), "x")
    assert "table a is behind: its stream was dropped" in str(found.trouble)


def test_a_table_that_is_read_twice_is_named_twice() -> None:
    lake = made(A_ROWS, [{"k": "x", "v": 1}], keep=Keep.LATEST)
    sql = "SELECT one.id, two.id AS other FROM a one JOIN a two ON one.id = two.n"

    def joined(tables: Mapping[str, list[Row]]) -> list[tuple[Any, ...]]:
        return [(one["id"], two["id"]) for one in tables["a"] for two in tables["a"] if one["id"] == two["n"]]

    publish(lake, "over", sql, Given(lake, ["a"], ["id", "other"], [INTEGER, INTEGER], joined))
    found = lake.table("over").why({"id": 1, "other": 5})
    assert [each.rows[0]["id"] for each in found.made_of] == [1, 5]


COLUMNS = {
    "a": Struct(
        (
            Field("id", INTEGER),
            Field("K", TEXT),
            Field("at", Date()),
            Field("x", Double()),
            Field("ok", Boolean()),
            Field("price", Decimal(10, 2, number=True, text=True)),
            Field("tags", Array(TEXT)),
        )
    ),
    "b": Struct((Field("k", TEXT), Field("v", INTEGER))),
}


def read(sql: str, columns: int = 1) -> Origin:
    return origin_of(sql, COLUMNS, [f"c{place}" for place in range(columns)])


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("SELECT k FROM b UNION ALL SELECT k FROM b", "UNION"),
        ("VALUES (1)", "VALUES"),
        ("SELECT 1", "a SELECT without FROM"),
        ("SELECT (", "syntax that sqlglot does not know"),
        (f"SELECT {'(' * 5000}1{')' * 5000} FROM b", "syntax that is nested too deeply"),
        (f"SELECT k FROM b WHERE {' AND '.join(['v = 1'] * 9000)}", "syntax that is nested too deeply"),
        ("WITH q AS (SELECT k FROM b) SELECT k FROM q", "WITH q AS"),
        ("SELECT k FROM (SELECT k FROM b)", "FROM (SELECT k FROM b)"),
        ("SELECT k FROM nowhere", "FROM nowhere"),
        ("SELECT k FROM other.b", "FROM other.b"),
        ("SELECT k FROM b TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT y FROM b AS c(x, y)", "FROM b AS c"),
        ("SELECT k FROM b FOR SYSTEM_TIME AS OF '2026-01-01'", "FROM b"),
        ("SELECT b.k FROM b, b", "FROM b"),
        ("SELECT y FROM b LATERAL VIEW explode(array(1)) AS y", "LATERAL VIEW"),
        ("SELECT b.k FROM a LEFT SEMI JOIN b ON a.k = b.k", "LEFT SEMI JOIN"),
        ("SELECT b.k FROM a LEFT ANTI JOIN b ON a.k = b.k", "LEFT ANTI JOIN"),
        ("SELECT k FROM a NATURAL JOIN b", "NATURAL JOIN b"),
        ("SELECT b.k FROM a JOIN b ON lower(a.k) = b.k", "JOIN b ON LOWER(a.k) = b.k"),
        ("SELECT b.k FROM a JOIN b ON a.id = b.k", "JOIN b ON a.id = b.k"),
        ("SELECT b.k FROM a FULL JOIN b USING (k)", "FULL JOIN b USING (k)"),
        ("SELECT b.k FROM a RIGHT JOIN b ON a.k = b.k JOIN b AS c ON b.k = c.k", "RIGHT JOIN b"),
        ("SELECT b.k FROM a JOIN b USING (v)", "JOIN b USING (v)"),
        ("SELECT * FROM a JOIN b USING (k)", "*"),
        ("SELECT * EXCEPT (v) FROM b", "EXCEPT"),
        ("SELECT k, v FROM b", "other columns than the table"),
        ("SELECT explode(tags) FROM a", "EXPLODE(tags)"),
        ("SELECT my_function(k) FROM b", "MY_FUNCTION(k)"),
        ("SELECT stack(2, k, k) FROM b", "STACK(2, k, k)"),
        ("SELECT rank() OVER (ORDER BY k) FROM b", "RANK() OVER"),
        ("SELECT (SELECT max(v) FROM b) FROM a", "(SELECT MAX(v) FROM b)"),
        ("SELECT k FROM b QUALIFY row_number() OVER (ORDER BY v) = 1", "ROW_NUMBER()"),
        ("SELECT count(*) FROM b GROUP BY k", "GROUP BY k"),
        ("SELECT year(at) FROM a GROUP BY year(at)", "GROUP BY YEAR("),
        ("SELECT k FROM b GROUP BY ALL", "GROUP BY ALL"),
        ("SELECT k FROM b GROUP BY ROLLUP (k)", "ROLLUP"),
        ("SELECT k FROM b GROUP BY 2", "GROUP BY 2"),
        ("SELECT sum(v) FROM b WHERE k LIKE 'x%'", "WHERE k LIKE 'x%'"),
        ("SELECT sum(v) FROM b WHERE v > 1.5", "WHERE v > 1.5"),
        ("SELECT sum(v) FROM b WHERE v = '1'", "WHERE v = '1'"),
        ("SELECT sum(v) FROM b WHERE k = 1", "WHERE k = 1"),
        ("SELECT sum(v) FROM b WHERE k = 'it\\'s'", "WHERE k = "),
        ("SELECT sum(v) FROM b WHERE k IN (SELECT k FROM a)", "WHERE k IN (SELECT k FROM a)"),
        ("SELECT sum(id) FROM a WHERE price > 1", "WHERE price > 1"),
        ("SELECT sum(id) FROM a WHERE at > '2026'", "WHERE at > '2026'"),
        ("SELECT sum(id) FROM a WHERE at > current_date()", "WHERE at > CURRENT_DATE"),
        ("SELECT sum(id) FROM a WHERE id > 9999999999999999999", "WHERE id > 9999999999999999999"),
        ("SELECT sum(v) FROM b WHERE nowhere = 1", "WHERE nowhere = 1"),
        ("SELECT 1 FROM b HAVING count(*) > 1", "HAVING COUNT(*) > 1"),
        ("SELECT DISTINCT upper(k) FROM b", "DISTINCT"),
        ("SELECT DISTINCT count(*) FROM b", "DISTINCT"),
    ],
)
@pytest.mark.usefixtures("shallow")
def test_the_part_that_prevents_an_answer_is_named(sql: str, part: str) -> None:
    with pytest.raises(UnknownOriginError) as raised:
        read(sql)
    assert str(raised.value).startswith("the statement has ")
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("sql", "where"),
    [
        ("x > 1.5", ("(t0.\"x\" > CAST('1.5' AS DOUBLE))",)),
        ("ok AND NOT ok", ('t0."ok"', '(NOT t0."ok")')),
        ("ok = true", ('(t0."ok" = TRUE)',)),
        (
            "at >= DATE '2026-01-01' AND at < '2026-02-01'",
            ("(t0.\"at\" >= DATE '2026-01-01')", "(t0.\"at\" < DATE '2026-02-01')"),
        ),
        ("id IN (1, -2)", ('((t0."id" = 1) OR (t0."id" = -2))',)),
        ("A.k <=> 'ü'", ("(t0.\"K\" IS NOT DISTINCT FROM 'ü')",)),
    ],
)
def test_conditions_are_those_of_duckdb(sql: str, where: tuple[str, ...]) -> None:
    assert read(f"SELECT count(*) FROM a WHERE {sql}").where == where


def test_groups_are_known_by_names_places_and_other_names() -> None:
    for key in ("k", "1", "B.K", "b.k", "name"):
        found = read(f"SELECT k AS name, count(*) FROM b GROUP BY {key} HAVING count(*) > 1 ORDER BY 1 LIMIT 3", 2)
        assert (found.is_group, found.pins, found.unseen) == (True, {0: 't0."k"'}, ())
    assert read("SELECT DISTINCT k FROM b").is_group
    assert read("SELECT b.* FROM b LIMIT 3", 2).unseen == ("LIMIT 3",)
