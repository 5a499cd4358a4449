"""Tables without Spark, against the engines that one would make them with: DuckDB, and deltalake for changes.

DuckDB reads the lines of the lake's files as plain text, with the types that the columns have; ours are inflated first.
deltalake is given the changed rows as parquet. Times, processor and memory are of all processes together: the memory is
the sum of what each of them holds alone and its share of the rest (PSS), sampled.
"""

from __future__ import annotations

import gzip
import json
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.measure import Command, Row, paired
from bench.plugins import peers
from bench.tables import data

RUNS = 5
_TYPES = {"integer": "BIGINT", "number": "DOUBLE", "string": "VARCHAR"}
_DUCKDB = """
import sys
import duckdb
database = duckdb.connect()
database.execute("SET threads = 2")
record = "STRUCT(" + ", ".join(f'"{name}" {type}' for name, type in %(types)r.items()) + ")"
lines = f"read_json('%(lines)s', format='newline_delimited', columns={{type: 'VARCHAR', record: '{record}'}})"
rows = f"SELECT record.*, row_number() OVER () AS came FROM {lines} WHERE type = 'RECORD'"
if sys.argv[1] == "append":
    rows = f"SELECT record.* FROM {lines} WHERE type = 'RECORD'"
else:
    number = "row_number() OVER (PARTITION BY id ORDER BY came DESC) AS place"
    rows = f"SELECT * EXCLUDE (came, place) FROM (SELECT *, {number} FROM ({rows})) WHERE place = 1"
database.execute(f"COPY ({rows}) TO '%(out)s' (COMPRESSION zstd)")
"""
_WRITE = "import deltalake, pyarrow.parquet as pq; deltalake.write_deltalake({table!r}, pq.read_table({rows!r}))"
_MERGE = """
import deltalake, pyarrow.parquet as pq
table = deltalake.DeltaTable({table!r})
merge = table.merge(pq.read_table({rows!r}), "old.id = new.id", source_alias="new", target_alias="old")
merge.when_matched_update_all().when_not_matched_insert_all().execute()
"""


@dataclass(frozen=True)
class Spent:
    """Seconds of wall clock and of processor, and the peak of memory in MB, of a command with all below it."""

    wall: float
    cpu: float
    peak: float


def rows(cache: Path) -> Iterator[Row]:
    """First runs against DuckDB, changes against deltalake, and a run with nothing new."""
    lake = data.keyed(cache)
    lines = _as_text(lake, cache / "tables-lines.jsonl")
    out = cache / "tables-engines.parquet"
    duckdb = str(peers.environment("duckdb", cache) / "python")
    program = _DUCKDB % {"types": _types(lines), "lines": lines, "out": out}
    for keep, names in (("append", ("wall", "cpu")), ("latest", ("wall", "peak"))):
        declared = _declared(cache, lake, keep)
        ours = [_cli(), "project", "run", "--file", str(declared), "--full-refresh", "--quiet"]
        pairs = _in_turn(ours, [duckdb, "-c", program, keep])
        yield from _compared(f"{keep}, first run", f"DuckDB, {keep} of read_json", pairs, names, _FIRST[keep])
    yield from _changes(cache, lake, duckdb, out)
    yield paired(
        "Tables: nothing new, whole process, beside pyarrow",
        Command([_cli(), "project", "run", "--file", str(_declared(cache, lake, "latest"))]),
        "import pyarrow.parquet",
        Command([sys.executable, "-c", "import pyarrow.parquet"]),
        bound=2.0,
        aim=1.3,
        runs=9,
    )
    lines.unlink()


_FIRST = {"append": {"wall": (0.9, 0.7), "cpu": (0.9, 0.6)}, "latest": {"wall": (1.0, 0.8), "peak": (0.5, 0.3)}}
"""The bound and the aim of each figure."""


def _changes(cache: Path, lake: Path, python: str, latest: Path) -> Iterator[Row]:
    """``latest`` are the rows of the table, as DuckDB wrote them."""
    import pyarrow.parquet as pq

    table, changed = cache / "tables-delta", cache / "tables-changed.parquet"
    found = pq.read_table(latest)
    some = found.num_rows // 100
    bounds = {"wall": (0.8, 0.5), "peak": (0.6, 0.4)}
    for name, wanted, asked in (
        ("by chance", list(data.spread(found.num_rows, some)), bounds),
        ("newest", list(range(found.num_rows, found.num_rows + some)), {"wall": (0.3, 0.2)}),
    ):
        pq.write_table(found.slice(0, some).set_column(0, "id", [wanted]), changed)
        pairs = []
        for _ in range(RUNS):
            copy = data.more(cache, lake, "engines", wanted)
            ours = spent([_cli(), "project", "run", "--file", str(_declared(cache, copy, "latest")), "--quiet"])
            shutil.rmtree(copy)
            shutil.rmtree(table, ignore_errors=True)
            subprocess.run([python, "-c", _WRITE.format(table=str(table), rows=str(latest))], check=True)
            merge = _MERGE.format(table=str(table), rows=str(changed))
            pairs.append((ours, spent([python, "-c", merge])))
        yield from _compared(f"latest, 1 % of the keys, {name}", "deltalake, MERGE", pairs, asked, asked)
    shutil.rmtree(table)


def _in_turn(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[Spent, Spent]]:
    spent(ours)
    spent(theirs)
    return [(spent(ours), spent(theirs)) for _ in range(RUNS)]


def _compared(
    name: str,
    against: str,
    pairs: Sequence[tuple[Spent, Spent]],
    figures: Sequence[str] | dict[str, tuple[float, float]],
    bounds: dict[str, tuple[float, float]],
) -> Iterator[Row]:
    units = {"wall": ("s", ""), "cpu": ("s", ", processor time"), "peak": ("MB", ", memory")}
    for figure in figures:
        unit, what = units[figure]
        values = [(getattr(mine, figure), getattr(other, figure)) for mine, other in pairs]
        yield Row(
            name=f"Tables: {name}{what}",
            value=statistics.median(mine for mine, _ in values),
            unit=unit,
            against=against,
            against_value=statistics.median(other for _, other in values),
            ratio=statistics.median(mine / other for mine, other in values),
            bound=bounds[figure][0],
            aim=bounds[figure][1],
        )


def spent(command: Sequence[str]) -> Spent:
    """What a command takes. Raises ``subprocess.CalledProcessError`` where it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    highest = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not ended.wait(0.02):
            highest = max(highest, _memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    wall = time.perf_counter() - began
    ended.set()
    watcher.join()
    if code:
        raise subprocess.CalledProcessError(code, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Spent(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, highest / 1e6)


def _memory(pid: int) -> float:
    try:
        own = psutil.Process(pid)
        every = (own, *own.children(recursive=True))
    except psutil.NoSuchProcess:
        return 0
    total = 0.0
    for process in every:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total


def _cli() -> str:
    return str(Path(sys.executable).parent / "singerlake")


def _declared(cache: Path, lake: Path, keep: str) -> Path:
    path = cache / f"tables-{keep}.yml"
    table = {f"engines_{keep}": {"from": f"{data.TAP}.{data.STREAM}", "keep": keep}}
    path.write_text(json.dumps({"lake_root": str(lake), "tables": table}))
    return path


def _as_text(lake: Path, path: Path) -> Path:
    """The lines of a lake's files, one file behind the other."""
    with path.open("wb") as out:
        for file in sorted(lake.glob("raw/*/*/*/*.singer.gz")):
            with gzip.open(file) as stored:
                shutil.copyfileobj(stored, out, 1 << 20)
    return path


def _types(lines: Path) -> dict[str, str]:
    """The type that DuckDB is told of each property, as the tables have it."""
    with lines.open("rb") as messages:
        properties = json.loads(next(messages))["schema"]["properties"]
    plain = {name: next(type for type in _listed(each["type"]) if type != "null") for name, each in properties.items()}
    return {
        name: "TIMESTAMPTZ" if properties[name].get("format") == "date-time" else _TYPES[type]
        for name, type in plain.items()
    }


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types
