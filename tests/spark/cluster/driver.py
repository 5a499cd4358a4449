"""The driver of ``tests.spark.cluster.cluster``: one application, jobs as JSON lines on standard input, answers on
standard output. Run as a script, so that Spark sends its functions by value: the workers do not know the tests.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import psutil
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterator["pa.RecordBatch"]


def main() -> None:
    builder = SparkSession.builder.appName("tests")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for line in sys.stdin:
        try:
            job = json.loads(line)
            do = JOBS[job.pop("job")]
            answer: dict[str, Any] = {"result": do(spark, **job)}
        except PySparkException as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    spark.stop()


def totals(spark: SparkSession, options: dict[str, str], event: str = "nothing", path: str = "") -> list[int]:
    """What is read: rows, their ids added up, distinct offsets, and by how many executors. Once, when a first task has
    its first rows and more of its own to come, ``event`` happens."""
    happen = EVENTS[event]

    def pass_on(batches: Batches) -> Batches:
        import pyarrow as pa

        jvm = executor()
        for number, batch in enumerate(batches):
            if number == 0:
                happen(path)
            pids = pa.array([jvm.pid] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, pids], names=[*batch.schema.names, "pid"])

    found = spark.read.format("singerlake").options(**options, metadata="true").load()
    seen = found.select("id", "_singerlake_offset").mapInArrow(
        pass_on, "id BIGINT, _singerlake_offset BIGINT, pid BIGINT"
    )
    (row,) = seen.selectExpr(
        "count(*)", "sum(id)", "count(DISTINCT _singerlake_offset)", "count(DISTINCT pid)"
    ).collect()
    return list(row)


def files(spark: SparkSession, options: dict[str, str]) -> list[int]:
    """What is read of attached files: how many, their bytes, how many have the SHA-256 of their row, and by how many
    executors."""
    from singerlake.spark import file_bytes

    def by_whom(batches: Batches) -> Batches:
        import pyarrow as pa

        jvm = executor()
        for batch in batches:
            pids = pa.array([jvm.pid] * batch.num_rows, pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, pids], names=[*batch.schema.names, "pid"])

    found = spark.read.format("singerlake").options(**options, files="true").load()
    spread = found.selectExpr("explode(_singerlake_files) AS file").repartition(16)
    read = spread.withColumn("content", file_bytes("file.path", options["path"]))
    seen = read.selectExpr("length(content) AS size", "sha2(content, 256) = file.sha256 AS same").mapInArrow(
        by_whom, "size INT, same BOOLEAN, pid BIGINT"
    )
    (row,) = seen.selectExpr("count(*)", "sum(size)", "count_if(same)", "count(DISTINCT pid)").collect()
    return list(row)


def executor() -> psutil.Process:
    """The Java that this Python works for."""
    return next(each for each in psutil.Process().parents() if "java" in each.name())


def kill_executor(once: str) -> None:
    if first(once):
        executor().kill()


def kill_python(once: str) -> None:
    """All workers but this one of the executor, among them the one that reads the lake for this task."""
    if first(once):
        spared = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
        for each in executor().children(recursive=True):
            if each.pid not in spared and not each.children():
                os.kill(each.pid, signal.SIGKILL)


def remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def first(once: str) -> bool:
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


EVENTS: dict[str, Callable[[str], None]] = {
    "nothing": lambda path: None,
    "kill executor": kill_executor,
    "kill python": kill_python,
    "remove file": remove,
}

JOBS: dict[str, Callable[..., list[int]]] = {"totals": totals, "files": files}

if __name__ == "__main__":
    main()
