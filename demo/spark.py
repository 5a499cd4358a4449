"""The demo's look at the lake with Spark, in a process of its own: prints its answer as JSON lines."""

from __future__ import annotations

import json
import sys

from singerlake.spark.java import ensure_java

QUERY = """
    SELECT origin, count(*) AS flights, round(avg(dep_delay), 1) AS delay, count(airline) AS with_airline
    FROM flights GROUP BY origin ORDER BY origin
"""


def main(lake: str, tap: str, stream: str) -> None:
    """Flights and mean departure delay (minutes) by airport, over all that was captured, schema versions together."""
    ensure_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("singerlake demo")
    spark = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    options = {"path": lake, "tap": tap, "stream": stream}
    spark.read.format("singerlake").options(**options).load().createOrReplaceTempView("flights")
    for row in spark.sql(QUERY).collect():
        print(json.dumps(row.asDict()))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
