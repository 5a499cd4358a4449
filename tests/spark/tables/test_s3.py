"""Tables of a lake on S3: tasks of Spark write them through the lake's own storage, and no jar is added."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from singerlake.clock import SystemClock, random_id
from singerlake.lake import Lake
from singerlake.spark import read_table, spark_engine
from singerlake.spark.tasks import spark_tasks
from singerlake.tables.declaration.model import Keep, TableDeclaration, partition_of
from singerlake.tables.maintain.collect import collect_table
from singerlake.tables.maintain.drop import drop, plan_drop
from singerlake.tables.maintain.verify import verify_files, verify_rows
from singerlake.work.engine import Threads
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server, s3_server

ROOT = "s3://lakes/with/a prefix"
SCHEMA = {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        server.create_bucket("lakes")
        yield server


def records(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": n % 700, "name": f"é/{n % 3}"} for n in range(first, first + count)]


def test_a_table_on_s3_from_first_run_to_last(spark: SparkSession, server: S3Server) -> None:
    lake = Lake.open(ROOT, server.settings())
    declared = TableDeclaration(
        name="people, newest",
        tap="tap",
        stream="people",
        keep=Keep.LATEST,
        key=("id",),
        partition_by=(partition_of("name"),),
    )
    with spark_tasks(ROOT, server.settings()) as engine:
        runner = lake.table_runner(lambda _: engine)
        for first in (0, 900):
            build_stream(lake, "tap", "people", SCHEMA, records(first, 900), file_size=300, member_size=50)
            assert runner.run(declared).run is not None
        assert runner.run(declared).run is None
    table = lake.table(declared.name)
    assert table.to_arrow().read_all().select(["id", "_singerlake_offset"]).to_pylist() == sorted(
        ({"id": n % 700, "_singerlake_offset": n} for n in range(1100, 1800)),
        key=lambda row: (row["_singerlake_offset"] % 3, row["id"]),
    )
    keys = {
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_region": REGION,
        "s3_endpoint_url": server.endpoint_url,
        "s3_path_style": True,
    }
    frame = read_table(spark, ROOT, declared.name, **keys)
    assert frame.selectExpr("count(*)", "sum(id)").collect() == [(700, 699 * 350)]

    assert not list(verify_files(Threads(lake.storage), table.state))
    assert not list(verify_rows(lake.table_runner(), table.state))
    clock = SystemClock()
    # The first one sees what was replaced, which is when its grace time begins.
    for first in (True, False):
        done = collect_table(
            lake.storage, declared.name, now=clock.now, grace=timedelta(-1), clock=clock, ids=random_id
        )
        assert bool(done.due) is not first
    assert frame.count() == 700
    here = [entry.key for entry in lake.storage.list("published/")]
    assert len(here) == 1 + len(table.state.paths())
    drop(lake.storage, plan_drop(lake.storage, declared.name))
    assert not list(lake.storage.list("published/"))


def test_a_statement_reads_tables_on_s3_and_makes_one(spark: SparkSession, server: S3Server, tmp_path: Path) -> None:
    lake = Lake.open("s3://lakes/statements", server.settings())
    build_stream(lake, "tap", "people", SCHEMA, records(0, 900), file_size=300, member_size=50)
    file = tmp_path / "projections.yml"
    file.write_text("""tables:
  people: {from: tap.people, keep: append}
  names: {sql: "SELECT name, count(*) AS n FROM people GROUP BY name", sort_by: name}
""")
    made = lake.project(file, engine=spark_engine(spark, lake))
    assert [(each.name, each.rows) for each in made] == [("people", 900), ("names", 3)]
    assert lake.table("names").to_arrow().read_all().to_pydict() == {"name": ["é/0", "é/1", "é/2"], "n": [300] * 3}
