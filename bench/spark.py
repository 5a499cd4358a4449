"""The batch reader against Spark's own JSON reader on the very same files, in one session, in turn.

Spark's reader is given the schema, so that it need not infer one, and takes the records out of their envelopes; that
is the best it can do with the files of a lake.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench import data
from bench.measure import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COPIES = 8
RUNS = 5
TAP, STREAM = "nyc", "flights"
_ROWS = 336_776
_TARGET = "from target_singerlake.target import main; main()"


def rows(cache: Path) -> Iterator[Row]:
    """All columns and two of them over 8 files, and all columns over the same bytes in one file."""
    eight = _lake(cache, "eight", {"max_file_records": _ROWS})
    one = _lake(cache, "one", {"max_file_records": 0, "max_file_bytes": 1 << 40, "max_memory_bytes": 64 << 20})
    spark = _session()
    try:
        yield _compare(spark, "all 19 columns, 8 files", eight, None, bound=1.15, aim=1.5)
        yield _compare(spark, "two columns, 8 files", eight, ("dep_delay", "tailnum"), bound=1.8, aim=2.5)
        yield _compare(spark, "all 19 columns, one file of 1 GB", one, None, bound=2.0, aim=3.0)
    finally:
        spark.stop()


def _compare(
    spark: SparkSession, name: str, lake: Path, columns: tuple[str, ...] | None, *, bound: float, aim: float
) -> Row:
    ours = spark.read.format("singerlake").options(path=str(lake), tap=TAP, stream=STREAM)
    everything = ours.load()
    schema = everything.schema
    frame = everything
    if columns:
        schema = type(schema)([schema[column] for column in columns])
        frame = ours.schema(schema).load()
    files = [str(path) for path in sorted(lake.glob("raw/*/*/*/*.singer.gz"))]
    envelope = f"type STRING, record {schema.simpleString()}"
    theirs = spark.read.schema(envelope).json(files).where("type = 'RECORD'").select("record.*")
    count = _aggregate(frame)
    if count != _aggregate(theirs):
        raise AssertionError(f"{name}: the two readers give different aggregates")
    pairs = [(_seconds(lambda: _aggregate(frame)), _seconds(lambda: _aggregate(theirs))) for _ in range(RUNS)]
    return Row(
        name=f"Spark reads {name}",
        value=statistics.median(mine for mine, _ in pairs),
        unit="s",
        against="spark.read.schema(...).json(files)",
        against_value=statistics.median(other for _, other in pairs),
        ratio=statistics.median(other / mine for mine, other in pairs),
        bound=bound,
        aim=aim,
        at_most=False,
    )


def _aggregate(frame: DataFrame) -> tuple[object, ...]:
    """One figure of every column, so that none can be left unread, and the number of rows."""
    figures = [f"max(`{name}`)" if kind == "string" else f"sum(`{name}`)" for name, kind in frame.dtypes]
    (row,) = frame.selectExpr("count(*)", *figures).collect()
    return tuple(row)


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _lake(cache: Path, name: str, settings: dict[str, int]) -> Path:
    """A lake that the target made of the flights, kept between runs."""
    root = cache / f"spark-lake-{name}-{COPIES}"
    finished = root / "finished"
    if not finished.exists():
        config = cache / f"spark-lake-{name}.json"
        config.write_text(json.dumps({"lake_root": str(root), "tap_id": TAP, "max_file_age_seconds": 0, **settings}))
        with data.flights(COPIES).open("rb") as messages:
            subprocess.run(
                [sys.executable, "-c", _TARGET, "--config", str(config)],
                stdin=messages,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
        finished.touch()
    return root


def _session() -> SparkSession:
    from pyspark.sql import SparkSession

    from singerlake.spark.java import ensure_java

    ensure_java()
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
