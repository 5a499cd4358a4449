"""Tables of statements over a table whose stream records are erased from."""

from __future__ import annotations

from datetime import timedelta

import pytest

from singerlake.lake import Lake
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.run.plan import SqlPlan
from tests.everywhere.erasing import erase
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import ids, made_by, more, run, source


@pytest.mark.parametrize("row_by_row", [False, True])
def test_it_follows_the_table_that_is_made_anew(lake: Lake, engine: Ids, row_by_row: bool) -> None:
    engine.row_by_row = row_by_row
    tables = source(), made_by("middle", "base"), made_by("last", "middle")
    run(lake, engine, *tables)
    erase(lake, "t", "s", [1, 3])
    assert ids(lake, "last") == [0, 1, 2, 3], "until the next run"
    results = run(lake, engine, *tables)
    assert {name: each.status for name, each in results.items()} == dict.fromkeys(("base", "middle", "last"), "made")
    assert results["base"].outcome.plan.why == "records of the stream were erased"  # type: ignore[union-attr]
    for name in ("middle", "last"):
        plan = results[name].outcome.plan  # type: ignore[union-attr]
        assert isinstance(plan, SqlPlan)
        assert not plan.continues
    assert [ids(lake, name) for name in ("base", "middle", "last")] == [[0, 2]] * 3
    more(lake, 1)
    run(lake, engine, *tables)
    assert ids(lake, "last") == [0, 2, 0]
    assert {each.status for each in run(lake, engine, *tables).values()} == {"nothing_new"}


def test_a_statement_that_runs_alone_says_how_far_its_table_is_behind(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    erase(lake, "t", "s", [1])
    alone = run(lake, engine, made_by("last", "base"), full_refresh=True)["last"]
    assert alone.outcome is not None
    assert alone.outcome.behind == {"base": 4}


def test_a_collector_deletes_the_rows_of_before(lake: Lake, engine: Ids) -> None:
    run(lake, engine, source(), made_by("last", "base"))
    before = [entry.key for entry in lake.storage.list("published/last/") if not entry.key.endswith("_table.json")]
    erase(lake, "t", "s", [1])
    run(lake, engine, source(), made_by("last", "base"))
    for _ in range(2):
        collect_table(
            lake.storage, "last", now=lake.clock.now, grace=timedelta(seconds=-60), clock=lake.clock, ids=lake.ids
        )
    assert before
    assert not any(lake.storage.head(key) for key in before)
    assert ids(lake, "last") == [0, 2, 3]
