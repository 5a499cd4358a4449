"""The tables that a statement names, told without Spark: never one that it does not read."""

from __future__ import annotations

import pytest

from singerlake.tables.declaration.statement import relations_in

STATEMENTS = {
    "SELECT * FROM a": ["a"],
    "select count(*) from A join b on A.x = b.x, c where d in (select y from e), f": ["A", "b", "c", "e"],
    "FROM a SELECT x, y": ["a"],
    "SELECT x, y FROM a AS one, `b c` two, (SELECT z FROM d, e) three, f GROUP BY g, h": ["a", "b c", "d", "e", "f"],
    "SELECT * FROM (a JOIN (b CROSS JOIN c)) JOIN LATERAL (SELECT * FROM d), e": ["a", "b", "c", "d", "e"],
    "SELECT * FROM (VALUES (1), (2)) AS v, a": ["a"],
    "SELECT * FROM VALUES (1), (2) AS v": [],
    "SELECT 1 FROM a UNION ALL (SELECT 2 FROM b) EXCEPT SELECT 3 FROM a": ["a", "b"],
    "SELECT * FROM a LATERAL VIEW explode(x) t AS c1, c2": ["a"],
    "SELECT * FROM range(5), a WHERE x > (SELECT max(y) FROM b)": ["a", "b"],
    "SELECT extract(year FROM at), trim(BOTH 'x' FROM t), x IS NOT DISTINCT FROM y FROM a": ["a"],
    "SELECT substring((SELECT t FROM b) FROM x) FROM a": ["b", "a"],
    "SELECT 'FROM x, it''s', \"FROM y\", r'\\' AS r, 'a\\'FROM z' FROM a -- FROM c\n/* JOIN d */ JOIN b": ["a", "b"],
    "SELECT * FROM cat.db.a, db.`b`, `c``d`": ["c`d"],
    "WITH a AS (SELECT * FROM b), `C` (x, y) AS (SELECT * FROM d JOIN a) SELECT * FROM A, c, e": ["b", "d", "e"],
    "SELECT * FROM a WINDOW w AS (PARTITION BY x)": ["a"],
    "VALUES (1)": [],
    "SELECT FROM a, b": ["a", "b"],
    ")(FROM": [],
    "SELECT * FROM": [],
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_names_behind_from_and_join_are_told(statement: str) -> None:
    wanted = [f"`{name.replace('`', '``')}`" for name in STATEMENTS[statement]]
    assert relations_in(statement) == wanted
