"""The batch reader against Spark's own JSON reader on the very same files, in one session, in turn.

Spark's reader is given the schema, so that it need not infer one, and takes the records out of their envelopes; that
is the best it can do with the files of a lake.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.measure import Row
from bench.plugins import data
from bench.readers.planning import planning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COPIES = 8
RUNS = 5
TAP, STREAM = "nyc", "flights"
_ROWS = 336_776
_ADDED = "added"
_TARGET = "from target_singerlake.target import main; main()"


def rows(cache: Path) -> Iterator[Row]:
    """All columns and two of them over 8 files, all columns over the same bytes in one file, what a task's Python needs
    for that, the last tenth from a version on, and planning."""
    eight = _lake(cache, "eight", {"max_file_records": _ROWS})
    one = _lake(cache, "one", {"max_file_records": 0, "max_file_bytes": 1 << 40, "max_memory_bytes": 64 << 20})
    spark = _session()
    try:
        yield _compare(spark, "all 19 columns, 8 files", eight, None, bound=1.7, aim=2.0)
        yield _compare(spark, "two columns, 8 files", eight, ("dep_delay", "tailnum"), bound=2.3, aim=3.0)
        with peak_of_workers() as peak:
            yield _compare(spark, "all 19 columns, one file of 1 GB", one, None, bound=3.2, aim=4.0)
        yield Row(
            name="Spark: memory, a Python worker on one file of 1 GB", value=peak(), unit="MB", bound=400, aim=250
        )
        yield _from_version(spark, _two_versions(cache))
        yield planning(spark, cache)
    finally:
        spark.stop()


def _compare(
    spark: SparkSession, name: str, lake: Path, columns: tuple[str, ...] | None, *, bound: float, aim: float
) -> Row:
    ours = spark.read.format("singerlake").options(path=str(lake), tap=TAP, stream=STREAM)
    frame = ours.option("columns", ",".join(columns)).load() if columns else ours.load().drop("_rescued_data")
    files = [str(path) for path in sorted(lake.glob("raw/*/*/*/*.singer.gz"))]
    envelope = f"type STRING, record {frame.schema.simpleString()}"
    theirs = spark.read.schema(envelope).json(files).where("type = 'RECORD'").select("record.*")
    return _paired(name, frame, theirs, bound, aim)


def _paired(name: str, frame: DataFrame, theirs: DataFrame, bound: float, aim: float) -> Row:
    if _aggregate(frame) != _aggregate(theirs):
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


@contextmanager
def peak_of_workers() -> Iterator[Callable[[], float]]:
    """The peak resident memory in MB of any Python that runs tasks meanwhile, by the kernel's own high-water mark."""
    highest = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(0.05):
            for process in psutil.process_iter(["cmdline"]):
                if "pyspark.daemon" in (process.info["cmdline"] or ()):
                    highest = max(highest, high_water(process.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield lambda: highest
    finally:
        ended.set()
        watching.join()


def high_water(pid: int) -> float:
    """The peak resident memory of a process in MB; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found.group(1)) / 1024 if found else 0.0


def _from_version(spark: SparkSession, lake: Path) -> Row:
    """The records of v2, a tenth of all: files of v1 are not opened by ours; theirs reads all and filters."""
    frame = (
        spark.read.format("singerlake").options(path=str(lake), tap=TAP, stream=STREAM, from_version="v2").load()
    ).drop("_rescued_data")
    files = [str(path) for path in sorted(lake.glob("raw/*/*/*/*.singer.gz"))]
    envelope = f"type STRING, record {frame.schema.simpleString()}"
    records = spark.read.schema(envelope).json(files).where("type = 'RECORD'").select("record.*")
    return _paired("from a version on, a tenth of the records", frame, records.where(f"{_ADDED} IS NOT NULL"), 6.0, 8.0)


def _aggregate(frame: DataFrame) -> tuple[object, ...]:
    """One figure of every column, so that none can be left unread, and the number of rows."""
    figures = [f"max(`{name}`)" if kind == "string" else f"sum(`{name}`)" for name, kind in frame.dtypes]
    (row,) = frame.selectExpr("count(*)", *figures).collect()
    return tuple(row)


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _lake(cache: Path, name: str, settings: dict[str, int], messages: Path | None = None) -> Path:
    """A lake that the target made of the flights, kept between runs."""
    root = cache / f"spark-lake-{name}-{COPIES}"
    finished = root / "finished"
    if not finished.exists():
        config = cache / f"spark-lake-{name}.json"
        config.write_text(json.dumps({"lake_root": str(root), "tap_id": TAP, "max_file_age_seconds": 0, **settings}))
        with (messages or data.flights(COPIES)).open("rb") as stdin:
            subprocess.run(
                [sys.executable, "-c", _TARGET, "--config", str(config)],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
        finished.touch()
    return root


def _two_versions(cache: Path) -> Path:
    """The same flights, the last tenth of them with one more column."""
    messages = cache / f"spark-two-versions-{COPIES}.jsonl"
    if not messages.exists():
        part = messages.with_suffix(".part")
        with data.flights(COPIES).open("rb") as lines, part.open("wb") as out:
            schema = json.loads(next(lines))
            out.write(json.dumps(schema).encode() + b"\n")
            out.writelines(islice(lines, COPIES * _ROWS * 9 // 10))
            schema["schema"]["properties"][_ADDED] = {"type": "integer"}
            out.write(json.dumps(schema).encode() + b"\n")
            out.writelines(line.replace(b'"record":{', b'"record":{"%s":1,' % _ADDED.encode(), 1) for line in lines)
        part.rename(messages)
    return _lake(cache, "versions", {"max_file_records": _ROWS // 2}, messages)


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
