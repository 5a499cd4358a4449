"""``singerlake why`` about a row of a statement."""

from __future__ import annotations

import json
from pathlib import Path

from singerlake.arrow.schema.columns import Integer, Text
from singerlake.lake import Lake
from singerlake.tables.declaration.model import Keep, TableDeclaration
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.tables.sql.test_origins import A, Given, publish

SQL = "SELECT k, count(*) AS n FROM a GROUP BY k"


def test_the_rows_that_made_it_are_named(run: Run, root: Path) -> None:
    lake = Lake.open(str(root))
    records = [{"id": n, "k": "x\x1b[31m" if n else "y"} for n in range(9)]
    build_stream(lake, "t", "s", A, records, key_properties=("id",))
    lake.table_runner().run(TableDeclaration(name="a", tap="t", stream="s", keep=Keep.LATEST))
    rows = Given(lake, ["a"], ["k", "n"], [Text(), Integer()], lambda tables: [("y", 1), (records[1]["k"], 8)])
    publish(lake, "over", SQL, rows)
    publish(lake, "top", "SELECT n FROM over", Given(lake, ["over"], ["n"], [Integer()], lambda tables: [(1,), (8,)]))
    publish(lake, "odd", "SELECT my(k) AS k FROM a", Given(lake, ["a"], ["k"], [Text()], lambda tables: [("z",)]))
    shown = run("why", root, "top", "--key", "n=8", "--sample", "2")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[2:] == [
        "made from     over",
        "made of       1 row of over",
        '  k "x\\u001b[31m", n 8',
        "made of       8 rows of a, which made those of over",
        "  id 1, _singerlake_offset 1",
        "  id 2, _singerlake_offset 2",
        "  and 6 more",
    ]
    told = json.loads(run("why", root, "top", "--key", "n=1", "--json").stdout)
    assert told["made_of"] == [
        {"table": "over", "read_by": "top", "count": 1, "rows": [{"k": "y", "n": 1}]},
        {"table": "a", "read_by": "over", "count": 1, "rows": [{"id": 0, "_singerlake_offset": 0}]},
    ]
    refused = run("why", root, "odd", "--key", "k=z")
    assert refused.exit_code == 1
    assert "note: the rows behind this row of odd cannot be named: the statement has MY(k)" in refused.stdout
    assert run("why", root, "top", "--key", "n=1", "--sample", "-1").exit_code == 2
