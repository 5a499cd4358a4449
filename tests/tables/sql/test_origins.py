"""Which rows made a row of a statement, against statements that plain Python runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.schema.columns import Field, Integer, Struct, Text
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Keep, TableDeclaration
from singerlake.tables.project import run_tables
from singerlake.tables.run.sql_engine import Find, RowsTask
from singerlake.tables.why.why import WhyResult
from tests.lakes import build_stream
from tests.tables.sql.tables import resolved
from tests.tables.tables import memory_lake, runner_of

INTEGER = Integer()
OFFSET = "_singerlake_offset"
Row = Mapping[str, Any]
A = {"properties": {"id": {"type": "integer"}, "k": {"type": ["null", "string"]}, "n": {"type": ["null", "integer"]}}}
B = {"properties": {"k": {"type": ["null", "string"]}, "v": {"type": ["null", "integer"]}}}
HOSTILE = 'it\'s "a" `b`; DROP'


@dataclass
class Given:
    """An engine whose statements give what ``rows`` says of the rows of the tables that are read, ``tables``."""

    lake: Lake
    tables: Sequence[str]
    names: Sequence[str]
    types: Sequence[Any]
    rows: Callable[[Mapping[str, list[Row]]], list[tuple[Any, ...]]]

    @property
    def columns(self) -> Struct:
        return Struct(tuple(map(Field, self.names, self.types)))

    row_by_row = None

    def __call__(self) -> Given:
        return self

    def query(self, statement: str, names: Sequence[str], find: Find) -> Given:
        self.read = {name: find(f"`{name.replace('`', '``')}`").table for name in self.tables}
        return self

    def write(self, task: RowsTask) -> list[Any]:
        rows = self.rows({name: table.to_arrow().read_all().to_pylist() for name, table in self.read.items()})
        arrays = [
            pa.array([row[place] for row in rows], pa.int64() if isinstance(type, Integer) else pa.string())
            for place, type in enumerate(self.types)
        ]
        return [task(self.lake.storage, iter([pa.record_batch(arrays, names=list(self.names))]))]

    def close(self) -> None:
        pass


def publish(lake: Lake, name: str, sql: str, engine: Given) -> None:
    declared = TableDeclaration(name=name, tap="", stream="", keep=Keep.APPEND, sql=sql)
    (result,) = run_tables(lake.table_runner(sql=engine), resolved(declared))
    assert result.error is None, result.error


def made(a: Sequence[Row], b: Sequence[Row], *, keep: Keep = Keep.APPEND) -> Lake:
    """A lake with tables ``a`` and ``b`` of these rows."""
    lake = memory_lake()
    for name, schema, rows in (("s", A, a), ("other", B, b)):
        build_stream(lake, "t", name, schema, rows, file_size=3, key_properties=("id",) if name == "s" else ())
    for name, stream in (("a", "s"), ("b", "other")):
        kept = keep if name == "a" else Keep.APPEND
        runner_of(lake).run(TableDeclaration(name=name, tap="t", stream=stream, keep=kept))
    return lake


def offsets(found: WhyResult, table: str) -> set[int]:
    return {row[OFFSET] for each in found.made_of if each.table == table for row in each.rows}


@dataclass(frozen=True)
class Part:
    """A condition or a column: its SQL, what it is of a combination of rows, and whether it can be looked at."""

    sql: str
    of: Callable[[Row], Any]
    seen: bool = True
    type: Any = INTEGER


def _more(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one > other


def _same(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one == other


def _not(one: Any) -> Any:
    return None if one is None else not one


def _or(one: Any, other: Any) -> Any:
    if one or other:
        return True
    return None if one is None or other is None else False


def _among(one: Any, *others: Any) -> Any:
    return None if one is None else one in others


CONDITIONS = [
    Part("n > 1", lambda row: _more(row["a.n"], 1)),
    Part("1 >= a.n", lambda row: _not(_more(row["a.n"], 1))),
    Part("N IS NULL", lambda row: row["a.n"] is None),
    Part("a.k IS NOT NULL", lambda row: row["a.k"] is not None),
    Part("a.k = 'x'", lambda row: _same(row["a.k"], "x")),
    Part("NOT (a.k IN ('x', 'y') OR n = 2)", lambda row: _not(_or(_among(row["a.k"], "x", "y"), _same(row["a.n"], 2)))),
    Part(
        "(n BETWEEN 0 AND 1 OR NOT a.k <> 'y')",
        lambda row: _or(_among(row["a.n"], 0, 1), _same(row["a.k"], "y")),
    ),
    Part("n <> 1", lambda row: _not(_same(row["a.n"], 1))),
    Part("id <=> n", lambda row: row["a.id"] == row["a.n"]),
    Part("length(a.k) = 1", lambda row: _same(None if row["a.k"] is None else len(row["a.k"]), 1), seen=False),
    Part("n + 1 > 2", lambda row: _more(row["a.n"], 1), seen=False),
    Part("TRUE", lambda row: True),
]
PLAIN = [
    Part("id", lambda row: row["a.id"]),
    Part("a.k", lambda row: row["a.k"], type=Text()),
    Part("(A.N)", lambda row: row["a.n"]),
]
OF_B = [Part("b.v", lambda row: row["b.v"]), Part("b.k", lambda row: row["b.k"], type=Text())]
COMPUTED = [
    Part("id + 1", lambda row: row["a.id"] + 1, seen=False),
    Part("coalesce(n, 0)", lambda row: row["a.n"] or 0, seen=False),
    Part("7", lambda row: 7, seen=False),
]
JOINS = {"": None, "JOIN b ON a.k = b.k": "inner", "LEFT JOIN b ON b.k = a.k AND v > 0": "left", ", b": "cross"}


def combinations(rows: Mapping[str, list[Row]], join: str | None) -> Iterator[Row]:
    """Rows of both tables beside each other, with their offsets."""
    empty = {"b.k": None, "b.v": None, "b": None}
    for a in rows["a"]:
        left = {"a.id": a["id"], "a.k": a["k"], "a.n": a["n"], "a": a[OFFSET]}
        if join is None:
            yield {**left, **empty}
            continue
        met = False
        for b in rows["b"]:
            meets = _same(a["k"], b["k"]) if join != "cross" else True
            if join == "left":
                meets = meets and _more(b["v"], 0)
            if meets:
                met = True
                yield {**left, "b.k": b["k"], "b.v": b["v"], "b": b[OFFSET]}
        if join == "left" and not met:
            yield {**left, **empty}


TEXTS = st.sampled_from(["x", "y", "", HOSTILE, None])
NUMBERS = st.one_of(st.none(), st.integers(-1, 3))
ROWS_A = st.lists(st.fixed_dictionaries({"id": st.integers(0, 4), "k": TEXTS, "n": NUMBERS}), min_size=1, max_size=8)
ROWS_B = st.lists(st.fixed_dictionaries({"k": TEXTS, "v": NUMBERS}), min_size=1, max_size=4)


def check(
    a: Sequence[Row], b: Sequence[Row], join: str, where: Sequence[Part], shown: Sequence[Part], kind: str
) -> Counter[str]:
    """Publish what a statement gives, and ask for each row that is there once; how many of four were known, and not."""
    joined, names = JOINS[join], [f"c{place}" for place in range(len(shown) + (kind == "group"))]
    groups: dict[tuple[Any, ...], list[Row]] = {}

    def given(tables: Mapping[str, list[Row]]) -> list[tuple[Any, ...]]:
        for row in combinations(tables, joined):
            if all(part.of(row) for part in where):
                groups.setdefault(tuple(part.of(row) for part in shown), []).append(row)
        if kind == "rows":
            return [key for key, each in groups.items() for _ in each]
        return [(*key, len(each)) if kind == "group" else key for key, each in groups.items()]

    columns = [f"{part.sql} AS {name}" for part, name in zip(shown, names, strict=False)]
    columns += ["count(*) AS " + names[-1]] if kind == "group" else []
    sql = f"SELECT {'DISTINCT ' * (kind == 'distinct')}{', '.join(columns)} FROM a {join}"
    sql += f" WHERE {' AND '.join(part.sql for part in where)}" if where else ""
    sql += f" GROUP BY {', '.join(part.sql for part in shown)}" if kind == "group" and shown else ""
    lake = made(a, b)
    read = ["a", "b"] if joined else ["a"]
    types = [*(part.type for part in shown), Integer()][: len(names)]
    publish(lake, "over", sql, Given(lake, read, names, types, given))
    told: Counter[str] = Counter()
    for key, each in list(groups.items())[:4]:
        row = dict(zip(names, (*key, len(each)) if kind == "group" else key, strict=True))
        if kind == "rows" and len(each) > 1:
            continue
        found = lake.table("over").why(row, sample=100)
        unseen = [part for part in (*where, *shown) if not part.seen]
        if found.trouble is not None:
            assert unseen, (sql, found.trouble)
            assert found.made_of == ()
            told["unknown"] += 1
            continue
        told["known"] += 1
        for table in read:
            wanted = {row[table] for row in each} - {None}
            assert offsets(found, table) == wanted, (sql, row)
            assert sum(each.count for each in found.made_of if each.table == table) == len(wanted)
    return told


WHERE = st.lists(st.sampled_from(CONDITIONS), max_size=3)


@given(a=ROWS_A, b=ROWS_B, join=st.sampled_from(list(JOINS)), where=WHERE, data=st.data())
def test_rows_of_a_statement_that_goes_row_by_row(a: Any, b: Any, join: str, where: Any, data: st.DataObject) -> None:
    able = [*PLAIN, *COMPUTED, *(OF_B if join else [])]
    check(a, b, join, where, data.draw(st.lists(st.sampled_from(able), min_size=1, max_size=5)), "rows")


@given(
    a=ROWS_A,
    b=ROWS_B,
    join=st.sampled_from(list(JOINS)),
    where=WHERE,
    kind=st.sampled_from(["group", "distinct"]),
    data=st.data(),
)
def test_groups_of_rows(a: Any, b: Any, join: str, where: Any, kind: str, data: st.DataObject) -> None:
    able = [*PLAIN, *(OF_B if join else [])]
    shown = data.draw(st.lists(st.sampled_from(able), min_size=1, max_size=2, unique_by=lambda part: part.sql))
    check(a, b, join, where, shown, kind)


def test_most_are_known() -> None:
    a = [{"id": n, "k": "xy"[n % 2], "n": n % 3} for n in range(6)]
    b = [{"k": "x", "v": 1}, {"k": "z", "v": 2}]
    told: Counter[str] = Counter()
    for join, where, kind in product(list(JOINS)[:2], CONDITIONS[::3], ("rows", "group")):
        told += check(a, b, join, [where], PLAIN[1:] if kind == "group" else PLAIN, kind)
    assert told["known"] > 2 * told["unknown"] > 0
    for where in CONDITIONS[:3]:
        assert check(a, b, "", [where], PLAIN[1:2], "group")["unknown"] == 0
    assert check(a, b, "", [CONDITIONS[0]], [], "group") == {"known": 1}
