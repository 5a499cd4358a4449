"""Engines that are installed for these tests alone find the rows that the lake's own reader finds."""

from __future__ import annotations

import json
import operator
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.tables.declaration.model import NULL_PARTITION, Partition
from singerlake.tables.read import LakeTable
from tests.tables.delta.test_readers import PROPERTIES, capture, lake_in, record
from tests.tables.iceberg.test_readers import TABLES, metadata_of
from tests.tables.tables import runner_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

DUCKDB = [f"-ext-{name}==1.4.4.20260205" for name in ("avro", "httpfs", "iceberg")] + ["==1.4.4"]
# Each defines ask(condition), which gives an Arrow table, of "folder" and "metadata".
ENGINES = {
    "chdb": (
        ["chdb==4.4.0", "pyarrow==25.0.1"],
        """
import chdb
def ask(condition):
    return chdb.query(f"SELECT * FROM icebergLocal('{folder}') WHERE {condition}", "ArrowTable")
""",
    ),
    "daft": (
        ["daft==0.7.26", "pyiceberg==0.11.1", "pyarrow==25.0.1"],
        """
import daft
from pyiceberg.table import StaticTable
def ask(condition):
    frame = daft.read_iceberg(StaticTable.from_metadata(metadata))
    return frame.where(daft.sql_expr(condition)).to_arrow()
""",
    ),
    "duckdb": (
        [*(f"duckdb{each}" for each in DUCKDB), "pyarrow==25.0.1", "pytz"],
        """
import duckdb, glob, site
connection = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    (path,) = glob.glob(f"{site.getsitepackages()[0]}/**/{name}.duckdb_extension", recursive=True)
    connection.execute(f"LOAD '{path}'")
def ask(condition):
    found = connection.execute(f"SELECT * FROM iceberg_scan('{metadata}') WHERE {condition}")
    return found.fetch_arrow_table()
""",
    ),
    "pysail": (
        ["pysail==0.7.2", "pyspark[connect]==4.0.1"],
        """
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.read.format("iceberg").load(folder).createOrReplaceTempView("t")
def ask(condition):
    return spark.sql(f"SELECT * FROM t WHERE {condition}").toArrow()
""",
    ),
}
PROGRAM = """
import json, os, sys
folder, metadata, columns, *conditions = sys.argv[1:]
{ask}
def plain(value):
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
for condition in conditions:
    rows = ask(condition).select(json.loads(columns)).to_pylist()
    print(json.dumps([{{name: plain(value) for name, value in row.items()}} for row in rows]), flush=True)
# Servers in threads would be waited for.
os._exit(0)
"""


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The name of an engine, and the command that asks it."""
    packages, ask = ENGINES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = str(folder / "venv/bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    (folder / "ask.py").write_text(PROGRAM.format(ask=ask))
    return request.param, [python, str(folder / "ask.py")]


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value)
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({**row, "at": str(row["at"]).removesuffix("+00:00")} for row in found), key=repr)


@pytest.mark.parametrize("kind", TABLES)
def test_an_engine_finds_the_rows(tmp_path: Path, engine: tuple[str, list[str]], kind: str) -> None:
    name, command = engine
    lake = lake_in(tmp_path)
    for turn in range(2):
        capture(lake, PROPERTIES, [record(id, turn) for id in range(turn * 3, 8)])
        runner_of(lake).run(TABLES[kind])
    columns = ["id", "name", "flag", "size", "price", "a.b" if kind == "local" else "day", "at"]
    made = LakeTable.load(lake.storage, "t").to_arrow(columns=columns).read_all().to_pylist()
    wanted = [{column: plain(value) for column, value in row.items()} for row in made]
    conditions = {
        "id >= 0": wanted,
        "id = 6": [row for row in wanted if row["id"] == 6],
        "size > 1.5": [row for row in wanted if row["size"] is not None and row["size"] > 1.5],
        "name = 'plain'": [row for row in wanted if row["name"] == "plain"],
    }
    if kind == "parted":
        if name == "pysail":
            pytest.skip("it does not find files whose paths have a space")
        if name == "daft":
            # It gives rows of files without a partition whatever a condition on its column says.
            del conditions["name = 'plain'"]
    answers = asked(command, tmp_path, columns, conditions)
    assert [rows(answer) for answer in answers] == [rows(each) for each in conditions.values()]


def asked(command: list[str], folder: Path, columns: list[str], conditions: Iterable[str]) -> list[Any]:
    """The rows that an engine finds by each condition."""
    told = subprocess.run(
        [*command, str(folder / "published/t"), metadata_of(folder), json.dumps(columns), *conditions],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("[")]


UNITS: dict[str, tuple[str | None, ...]] = {
    "flag": (None,),
    "size": (None,),
    "name": (None,),
    "day": (None, "year", "month", "day"),
    "at": ("year", "month", "day", "hour"),
}
PARTITIONS = [Partition(column, unit) for column, units in UNITS.items() for unit in units]
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}


def some_value(chance: random.Random, column: str) -> Any:
    if chance.random() < 0.15:
        return None
    moment = datetime(chance.choice([1904, 1969, 1970, 1999, 2023, 2024, 2024]), chance.randint(1, 12), 1)
    moment += timedelta(days=chance.randint(0, 27), hours=chance.randint(0, 23), microseconds=chance.choice([0, 1]))
    return {
        "flag": chance.random() < 0.5,
        "size": chance.choice([0, 1, -1, 5, -(2**31), 2**31, 2**62]),
        "name": chance.choice(["a", "A", "b", "", "é", "a/b", NULL_PARTITION, "null", "%41", "10", "9"]),
        "day": moment.date().isoformat(),
        "at": moment.isoformat(timespec="microseconds") + "Z",
    }[column]


def literal(engine: str, value: Any) -> str:
    """A value in the language of an engine."""
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f")
        return {"chdb": f"toDateTime64('{text}', 6, 'UTC')", "duckdb": f"TIMESTAMPTZ '{text}+00'"}.get(
            engine, f"TIMESTAMP '{text}'"
        )
    if isinstance(value, date):
        return f"toDate32('{value}')" if engine == "chdb" else f"DATE '{value}'"
    return str(value).lower() if isinstance(value, bool | int) else f"'{value}'"


def conditions_on(
    chance: random.Random, engine: str, declared: Sequence[Partition], made: list[dict[str, Any]]
) -> Iterator[tuple[str, list[int]]]:
    """Conditions on columns of partitions, and the ids of the rows for which each holds."""
    for column in [each.column for each in declared for _ in range(6)]:
        values = [row[column] for row in made if row[column] is not None]
        name = f'"{column}"' if engine == "duckdb" else column
        null = [row["id"] for row in made if row[column] is None]
        yield f"{name} IS NULL", sorted(null)
        yield f"{name} IS NOT NULL", sorted({row["id"] for row in made} - {*null})
        if values:
            value, sign = chance.choice(values), chance.choice(["=", "!="] if column == "flag" else [*OPERATORS])
            holds = [row["id"] for row in made if row["id"] not in null and OPERATORS[sign](row[column], value)]
            yield f"{name} {sign} {literal(engine, value)}", sorted(holds)


@pytest.mark.parametrize("seed", range(12))
def test_conditions_on_partitions_give_all_rows(tmp_path: Path, engine: tuple[str, list[str]], seed: int) -> None:
    name, command = engine
    if name == "daft":
        pytest.skip("it gives rows of files without a partition whatever a condition on its column says")
    chance = random.Random(seed)
    declared = tuple(chance.sample(PARTITIONS, chance.choice([1, 1, 2])))
    lake, properties = lake_in(tmp_path), {**PROPERTIES, "size": {"type": ["null", "integer"]}}
    table = replace(TABLES[chance.choice(["append", "latest"])], partition_by=declared)
    for first in (0, 10):
        found = [{"id": first + each, **{name: some_value(chance, name) for name in UNITS}} for each in range(10)]
        capture(lake, properties, found)
        runner_of(lake).run(table)
    made = LakeTable.load(lake.storage, "t").to_arrow().read_all().to_pylist()
    wanted = dict(conditions_on(chance, name, declared, made))
    answers = asked(command, tmp_path, ["id"], wanted)
    assert dict(zip(wanted, (sorted(row["id"] for row in each) for each in answers), strict=True)) == wanted
