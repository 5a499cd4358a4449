"""How long Spark takes to plan a read of 100,000 small files: a lake's, by its manifest, and as many in a folder, by
listing it.

Nothing is read on either side. Ours has its files in the manifest alone; theirs are links to one small file.
"""

from __future__ import annotations

import gzip
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.commits.million import put_manifest
from bench.measure import Row
from singerlake.adapters import open_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 100_000
RUNS = 3
_LINKS = 10_000
"""Links to one file, of which some file systems allow no more than 65,000."""


def planning(spark: SparkSession, cache: Path) -> Row:
    """From ``load`` to the tasks of the physical plan; the schema is given to Spark's reader and found by ours."""
    work = cache / "planning"
    lake, folder = work / "lake", work / "files"
    put_manifest(open_storage(str(lake)), "lockfile", FILES)
    _fill(folder)
    ours = spark.read.format("singerlake").options(path=str(lake), tap="bench", stream="orders")
    schema = f"type STRING, record {ours.load().schema.simpleString()}"
    theirs = spark.read.schema(schema)
    pairs = [
        (_seconds(ours.load), _seconds(lambda: theirs.json(str(folder)).where("type = 'RECORD'").select("record.*")))
        for _ in range(RUNS)
    ]
    shutil.rmtree(work)
    return Row(
        name=f"Spark plans a read of {FILES:,} files",
        value=statistics.median(mine for mine, _ in pairs),
        unit="s",
        against="listing and spark.read.json",
        against_value=statistics.median(other for _, other in pairs),
        ratio=statistics.median(other / mine for mine, other in pairs),
        bound=5,
        aim=12,
        at_most=False,
    )


def _seconds(load: Callable[[], DataFrame]) -> float:
    started = time.perf_counter()
    # pyspark has no name for a plan's number of tasks that does not also make a Python RDD of it.
    tasks = load()._jdf.queryExecution().executedPlan().execute().getNumPartitions()
    took = time.perf_counter() - started
    if tasks < 2:
        raise AssertionError("nothing was planned")
    return took


def _fill(folder: Path) -> None:
    folder.mkdir(parents=True)
    line = b'{"type":"RECORD","stream":"orders","record":{"id":1}}\n'
    source = folder / "0.json.gz"
    for number in range(FILES):
        path = folder / f"{number}.json.gz"
        if number % _LINKS == 0:
            source = path
            path.write_bytes(gzip.compress(line))
        else:
            os.link(source, path)
