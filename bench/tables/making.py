"""Tables against what one would write with Spark alone, in one session and in turn.

Spark's own reader is given the schema and takes the records out of their envelopes: the best it can do with the files
of a lake. Processor time is that of the session's Java and of all Python processes below it.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.measure import Command, Row, paired
from bench.readers.spark import _session, peak_of_workers
from bench.tables import data
from singerlake.lake import Lake
from singerlake.projections.declaration.model import Format, Keep, TableDeclaration
from singerlake.spark import read_table
from singerlake.spark.tasks import ALL_AT_ONCE, SparkTasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS = 3


@dataclass(frozen=True)
class Spent:
    """Seconds of wall clock and of processor."""

    wall: float
    cpu: float


def rows(cache: Path) -> Iterator[Row]:
    """Making tables, keeping them fresh, reading them, and many at once."""
    spark = _session()
    lake = data.keyed(cache)
    try:
        with peak_of_workers() as peak:
            yield from _appending(spark, lake, cache)
            yield from _latest(spark, lake, cache)
        yield Row(name="Tables: memory of a worker", value=peak(), unit="MB", bound=500)
        yield _reading(spark, lake)
        yield from _formats(spark, lake)
        yield _many(cache)
    finally:
        spark.stop()
    yield _nothing_new(lake)


def declared(keep: Keep, **more: object) -> TableDeclaration:
    return TableDeclaration(name=keep.value, tap=data.TAP, stream=data.STREAM, keep=keep, **more)  # type: ignore[arg-type]


def make(spark: SparkSession, lake: Path, declaration: TableDeclaration, *, full_refresh: bool = True) -> None:
    opened = Lake.open(str(lake))
    runner = opened.table_runner(lambda _: SparkTasks(spark, str(lake), None, ALL_AT_ONCE))
    outcome = runner.run(declaration, full_refresh=full_refresh)
    if outcome.run is None:
        raise AssertionError("there was nothing to do")


def _appending(spark: SparkSession, lake: Path, cache: Path) -> Iterator[Row]:
    out = cache / "tables-out"
    whole = declared(Keep.APPEND)
    theirs = _parsed(spark, lake)
    ours = spark.read.format("singerlake").options(path=str(lake), tap=data.TAP, stream=data.STREAM).load()
    writes: list[Callable[[], None]] = [
        lambda: make(spark, lake, whole),
        lambda: _written(theirs, out),
        lambda: _written(ours, out),
    ]
    for write in writes:
        write()
    spent = [[spend(write) for write in writes] for _ in range(RUNS)]
    yield Row(
        name="Tables: append, first run, processor time",
        value=statistics.median(each[0].cpu for each in spent),
        unit="s",
        against="spark.read.schema(...).json(files), written as parquet",
        against_value=statistics.median(each[1].cpu for each in spent),
        ratio=statistics.median(each[1].cpu / each[0].cpu for each in spent),
        bound=2.0,
        aim=2.9,
        at_most=False,
    )
    yield Row(
        name="Tables: append, first run",
        value=statistics.median(each[0].wall for each in spent),
        unit="s",
        against="spark.read.format('singerlake'), written as parquet",
        against_value=statistics.median(each[2].wall for each in spent),
        ratio=statistics.median(each[2].wall / each[0].wall for each in spent),
        bound=1.8,
        aim=2.5,
        at_most=False,
    )
    _written(theirs, out)
    stored = sum(path.stat().st_size for path in out.glob("*.parquet"))
    size = Lake.open(str(lake)).table(whole.name).state.bytes
    yield Row(
        name="Tables: size of the files",
        value=size / 1e6,
        unit="MB",
        against="Spark's own parquet",
        against_value=stored / 1e6,
        ratio=size / stored,
        bound=1.15,
        aim=1.0,
    )
    shutil.rmtree(out)


def _latest(spark: SparkSession, lake: Path, cache: Path) -> Iterator[Row]:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    out = cache / "tables-out"
    newest = declared(Keep.LATEST)
    numbered = _parsed(spark, lake, "_metadata.file_path AS path").withColumn("at", sql.monotonically_increasing_id())
    last = sql.row_number().over(Window.partitionBy("id").orderBy(sql.desc("at")))
    theirs = numbered.withColumn("place", last).where("place = 1").drop("place", "at", "path")
    writes: list[Callable[[], None]] = [lambda: make(spark, lake, newest), lambda: _written(theirs, out)]
    for write in writes:
        write()
    spent = [[spend(write) for write in writes] for _ in range(RUNS)]
    full = statistics.median(each[0].wall for each in spent)
    yield Row(
        name="Tables: latest, first run",
        value=full,
        unit="s",
        against="row_number() over spark.read.json, written as parquet",
        against_value=statistics.median(each[1].wall for each in spent),
        ratio=statistics.median(each[1].wall / each[0].wall for each in spent),
        bound=1.5,
        aim=2.0,
        at_most=False,
    )
    there = Lake.open(str(lake)).table(newest.name).rows
    some = there // 100
    for name, wanted, bound, aim in (
        ("random", list(data.spread(there, some)), 0.45, 0.3),
        ("newest", list(range(there, there + some)), 0.15, 0.08),
    ):
        took = []
        for _ in range(RUNS):
            copy = data.more(cache, lake, name, wanted)
            took.append(spend(partial(make, spark, copy, newest, full_refresh=False)).wall)
            shutil.rmtree(copy)
        yield Row(
            name=f"Tables: latest, 1 % of the keys new, {name}",
            value=statistics.median(took),
            unit="s",
            against="a full run",
            against_value=full,
            ratio=statistics.median(took) / full,
            bound=bound,
            aim=aim,
        )


def _reading(spark: SparkSession, lake: Path) -> Row:
    table = Lake.open(str(lake)).table("append")
    ours, theirs = read_table(spark, str(lake), "append"), spark.read.parquet(*table.files())
    pairs = []
    for _ in range(RUNS + 1):
        pairs.append((spend(lambda: _all_columns(ours)).wall, spend(lambda: _all_columns(theirs)).wall))
    return Row(
        name="Tables: reading, all columns",
        value=statistics.median(mine for mine, _ in pairs[1:]),
        unit="s",
        against="spark.read.parquet of the same files",
        against_value=statistics.median(other for _, other in pairs[1:]),
        ratio=statistics.median(mine / other for mine, other in pairs[1:]),
        bound=1.15,
        aim=1.0,
    )


def _formats(spark: SparkSession, lake: Path) -> Iterator[Row]:
    formats = [format for format in Format if format is not Format.PARQUET]
    spent: dict[Format, list[float]] = {format: [] for format in Format}
    for _ in range(RUNS):
        for format in Format:
            spent[format].append(spend(partial(make, spark, lake, declared(Keep.APPEND, format=format))).wall)
    base = spent[Format.PARQUET]
    for format in formats:
        yield Row(
            name=f"Tables: append in {format.value}",
            value=statistics.median(spent[format]),
            unit="s",
            against="parquet of the same rows",
            against_value=statistics.median(base),
            ratio=statistics.median(a / b for a, b in zip(spent[format], base, strict=True)),
            bound=2.0,
            aim=1.5,
        )


def _many(cache: Path) -> Row:
    """200 streams of 1,000 records in one run, against one stream of 200,000."""
    many, one = data.many_streams(cache, 200, 1000), data.many_streams(cache, 1, 200_000)
    pairs = []
    for _ in range(RUNS):
        pairs.append((spend(lambda: _all_streams(many)).wall, spend(lambda: _all_streams(one)).wall))
    return Row(
        name="Tables: 200 streams of 1,000 records, one run",
        value=statistics.median(mine for mine, _ in pairs),
        unit="s",
        against="one stream of 200,000",
        against_value=statistics.median(other for _, other in pairs),
        ratio=statistics.median(mine / other for mine, other in pairs),
        bound=4.0,
        aim=2.0,
    )


def _all_streams(root: Path) -> None:
    shutil.rmtree(root / "published", ignore_errors=True)
    cli = str(Path(sys.executable).parent / "singerlake")
    subprocess.run([cli, "project", "run", str(root), "--all", "--quiet"], check=True)


def _nothing_new(lake: Path) -> Row:
    cli = str(Path(sys.executable).parent / "singerlake")
    ours = Command([cli, "project", "run", str(lake), "--all"])
    return paired(
        "Tables: a run with nothing new, whole process",
        ours,
        "import singer_sdk",
        Command([sys.executable, "-c", "import singer_sdk"]),
        bound=2.0,
        aim=1.3,
        runs=9,
    )


def _parsed(spark: SparkSession, lake: Path, *more: str) -> DataFrame:
    schema = spark.read.format("singerlake").options(path=str(lake), tap=data.TAP, stream=data.STREAM).load().schema
    fields = ", ".join(f"`{each.name}`: {each.dataType.simpleString()}" for each in schema if each.name[0] != "_")
    files = [str(path) for path in sorted(lake.glob("raw/*/*/*/*.singer.gz"))]
    read = spark.read.schema(f"type STRING, record struct<{fields}>").json(files).where("type = 'RECORD'")
    return read.selectExpr("record.*", *more)


def _written(frame: DataFrame, out: Path) -> None:
    frame.write.mode("overwrite").parquet(str(out))


def _all_columns(frame: DataFrame) -> None:
    frame.selectExpr(*(f"max(`{name}`)" for name in frame.columns)).collect()


def spend(action: Callable[[], object]) -> Spent:
    """What ``action`` took, in this process and in all below it."""
    began, ran = time.perf_counter(), _processor()
    action()
    return Spent(time.perf_counter() - began, _processor() - ran)


def _processor() -> float:
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
