"""Tables against what one would write with Spark alone, in one session and in turn.

Spark's own reader is given the schema and takes the records out of their envelopes: the best it can do with the files
of a lake. Processor time is that of the session's Java and of all Python processes below it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.measure import Command, Row, paired
from bench.readers.spark import _session, high_water, peak_of_workers
from bench.tables import data
from singerlake.lake import Lake
from singerlake.spark import read_table
from singerlake.spark.tasks import ALL_AT_ONCE, SparkTasks
from singerlake.tables.declaration.model import Format, Keep, TableDeclaration

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
    yield _driver(lake)


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
    yield _faster(
        "append, first run, processor time",
        "spark.read.schema(...).json(files), written as parquet",
        [(each[0].cpu, each[1].cpu) for each in spent],
        bound=2.0,
        aim=2.9,
    )
    yield _faster(
        "append, first run",
        "spark.read.format('singerlake'), written as parquet",
        [(each[0].wall, each[2].wall) for each in spent],
        bound=1.8,
        aim=2.5,
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
    yield _faster(
        "latest, first run",
        "row_number() over spark.read.json, written as parquet",
        [(each[0].wall, each[1].wall) for each in spent],
        bound=1.5,
        aim=2.0,
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
    return _within("reading, all columns", "spark.read.parquet of the same files", pairs[1:], bound=1.15, aim=1.0)


def _formats(spark: SparkSession, lake: Path) -> Iterator[Row]:
    formats = [format for format in Format if format is not Format.PARQUET]
    spent: dict[Format, list[float]] = {format: [] for format in Format}
    for _ in range(RUNS):
        for format in Format:
            os.sync()  # What another format left to be written would slow this one down.
            spent[format].append(spend(partial(make, spark, lake, declared(Keep.APPEND, format=format))).wall)
    base = spent[Format.PARQUET]
    for format in formats:
        pairs = list(zip(spent[format], base, strict=True))
        yield _within(f"append in {format.value}", "parquet of the same rows", pairs, bound=2.0, aim=1.5)


def _many(cache: Path) -> Row:
    """200 streams of 1,000 records in one run, against one stream of 200,000."""
    many, one = data.many_streams(cache, 200, 1000), data.many_streams(cache, 1, 200_000)
    pairs = []
    for _ in range(RUNS):
        pairs.append((spend(lambda: _all_streams(many)).wall, spend(lambda: _all_streams(one)).wall))
    return _within("200 streams of 1,000 records, one run", "one stream of 200,000", pairs, bound=4.0, aim=2.0)


def _faster(name: str, against: str, pairs: list[tuple[float, float]], *, bound: float, aim: float) -> Row:
    """Seconds of ours and of the other in turn: how many times ours is faster."""
    row = _within(name, against, pairs, bound=bound, aim=aim)
    return replace(row, ratio=statistics.median(other / mine for mine, other in pairs), at_most=False)


def _within(name: str, against: str, pairs: list[tuple[float, float]], *, bound: float, aim: float) -> Row:
    """Seconds of ours and of the other in turn: how many times as long ours takes."""
    return Row(
        name=f"Tables: {name}",
        value=statistics.median(mine for mine, _ in pairs),
        unit="s",
        against=against,
        against_value=statistics.median(other for _, other in pairs),
        ratio=statistics.median(mine / other for mine, other in pairs),
        bound=bound,
        aim=aim,
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


def _driver(lake: Path) -> Row:
    """The process that plans and commits, while Spark makes a table of all records; without Spark's Java."""
    cli = str(Path(sys.executable).parent / "singerlake")
    command = [cli, "project", "run", str(lake), "--all", "--full-refresh", "--engine", "spark"]
    highest = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            highest = max(highest, high_water(process.pid))
            time.sleep(0.05)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Row(name="Tables: memory of the driver", value=highest, unit="MB", bound=700)


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
