"""The demo's look at the table with Spark and with DuckDB, in a process of its own: prints JSON lines."""

from __future__ import annotations

import json
import sys
from typing import Any

from singerlake.lake import Lake
from singerlake.spark.java import ensure_java

QUERY = """
    SELECT origin, count(*) AS flights, count(airline) AS with_airline FROM flights GROUP BY origin ORDER BY origin
"""


def main(root: str, table: str) -> None:
    """Flights by airport, each of them once, by both engines; ends with an error where they differ."""
    answers = (by_spark(root, table), by_duckdb(root, table))
    if answers[0] != answers[1]:
        raise SystemExit(f"the engines differ: {answers}")
    for row in answers[0]:
        print(json.dumps(row))


def by_spark(root: str, table: str) -> list[dict[str, object]]:
    ensure_java()
    from pyspark.sql import SparkSession

    from singerlake.spark import read_table

    builder = SparkSession.builder.master("local[2]").appName("singerlake demo")
    spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    read_table(spark, root, table).createOrReplaceTempView("flights")
    rows = [row.asDict() for row in spark.sql(QUERY).collect()]
    spark.stop()
    return rows


def by_duckdb(root: str, table: str) -> list[dict[str, object]]:
    import duckdb

    flights = Lake.open(root).table(table).to_arrow()  # noqa: F841 - DuckDB finds it by its name
    found: Any = duckdb.execute(QUERY).to_arrow_table()
    return list(found.to_pylist())


if __name__ == "__main__":
    main(*sys.argv[1:])
