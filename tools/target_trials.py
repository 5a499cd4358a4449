"""What targets make of a replay: the rows of the page "Targets behind a lake", each measured with the real target.

python -m tools.target_trials            # all of them: a table in Markdown
python -m tools.target_trials target-csv

Each target is installed at its version into an environment of its own in a temporary folder, and is fed what
tap-singerlake replays from a lake that is made here.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from tools.postgres import Server, postgres_server

LARGE = 2**64 + 1
EXACT = "1234567890123456789.0123456789"
STREAM = "orders"
Row = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """One target as people install it. ``config`` gets a folder and a server, ``rows`` reads what was loaded."""

    packages: Sequence[str]
    command: str
    config: Callable[[Path, Server], dict[str, Any]]
    rows: Callable[[Path, Server], list[Row]]
    no_deps: Sequence[str] = ()
    """Installed without what they require, where that cannot be built any more."""


def _csv_rows(folder: Path, _: Server) -> list[Row]:
    found = []
    for path in folder.rglob("*.csv"):
        with path.open(newline="") as file:
            found += [{**row, "too few cells": True} if None in row.values() else row for row in csv.DictReader(file)]
    return found


def _json_rows(folder: Path, _: Server) -> list[Row]:
    lines = [line for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line, parse_float=Decimal) for line in lines]


def _duckdb_rows(folder: Path, _: Server) -> list[Row]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as connection:
        if STREAM not in {name for (name,) in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()}:
            return []
        return list(connection.sql(f"FROM {STREAM}").to_arrow_table().to_pylist())


def _table(schema: str) -> Callable[[Path, Server], list[Row]]:
    def rows(_: Path, server: Server) -> list[Row]:
        with psycopg.connect(server.dsn) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(f'SELECT * FROM "{schema}"."orders"')
            except psycopg.errors.UndefinedTable:
                return []
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    return rows


def _pipelinewise(_: Path, server: Server) -> dict[str, Any]:
    return {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "password": server.password,
        "dbname": server.database,
        "default_target_schema": "pipelinewise",
        "hard_delete": True,
        "add_metadata_columns": True,
    }


TARGETS = {
    "target-csv (MeltanoLabs)": Target(
        ["meltanolabs-target-csv==0.5.0"], "target-csv", lambda folder, _: {"output_path": str(folder)}, _csv_rows
    ),
    "target-jsonl": Target(
        ["target-jsonl==0.1.4", "setuptools<80"],
        "target-jsonl",
        lambda folder, _: {"destination_path": str(folder), "do_timestamp_file": False},
        _json_rows,
    ),
    "target-duckdb": Target(
        ["target-duckdb==0.8.0", "duckdb==2.0.1"],
        "target-duckdb",
        lambda folder, _: {
            "path": str(folder / "out.duckdb"),
            "default_target_schema": "main",
            "hard_delete": True,
            "add_metadata_columns": True,
        },
        _duckdb_rows,
    ),
    "target-postgres (MeltanoLabs)": Target(
        ["meltanolabs-target-postgres==0.8.1"],
        "target-postgres",
        lambda _, server: {
            "sqlalchemy_url": server.dsn.replace("postgresql://", "postgresql+psycopg://"),
            "default_target_schema": "meltano",
            "hard_delete": True,
            "batch_size_rows": 1,
        },
        _table("meltano"),
    ),
    "target-postgres (PipelineWise)": Target(
        ["pipelinewise-target-postgres==2.1.2"], "target-postgres", _pipelinewise, _table("pipelinewise")
    ),
    "singer-target-postgres (datamill)": Target(
        ["singer-python==5.9.0", "psycopg2-binary==2.9.10", "arrow==0.15.5", "ciso8601"],
        "target-postgres",
        lambda _, server: {
            "postgres_host": server.host,
            "postgres_port": server.port,
            "postgres_username": server.user,
            "postgres_password": server.password,
            "postgres_database": server.database,
            "postgres_schema": "datamill",
            "disable_collection": True,
        },
        _table("datamill"),
        no_deps=["singer-target-postgres==0.2.4"],
    ),
}


def schema(**properties: Any) -> dict[str, Any]:
    return {
        "type": "SCHEMA",
        "stream": STREAM,
        "schema": {"type": "object", "properties": {"id": {"type": "integer"}, **properties}},
        "key_properties": ["id"],
    }


def record(number: int, **values: Any) -> dict[str, Any]:
    return {"type": "RECORD", "stream": STREAM, "record": {"id": number, **values}}


INTEGER, NUMBER, TEXT = ({"type": ["null", name]} for name in ("integer", "number", "string"))
WIDENS = [
    schema(n=INTEGER),
    record(1, n=1),
    record(2, n=2),
    schema(n=NUMBER, name=TEXT),
    record(3, n=2.5, name="Ada"),
]
LARGE_VALUE = [schema(n=INTEGER), record(1, n=LARGE)]
EXACT_VALUE = [schema(d=NUMBER), json.dumps(record(1, d=0)).replace('"d": 0', f'"d": {EXACT}')]
DELETES = [
    schema(n=INTEGER),
    {**record(1, n=1), "version": 1},
    {**record(2, n=2), "version": 1},
    {"type": "ACTIVATE_VERSION", "stream": STREAM, "version": 1},
    {**record(2, n=3), "version": 2},
    {"type": "ACTIVATE_VERSION", "stream": STREAM, "version": 2},
]
ORDER = [schema(v=TEXT), *(record(1, v=value) for value in ("ordered", "paid", "shipped"))]


@dataclass
class Trial:
    """One target in its environment, with a lake for each input."""

    target: Target
    folder: Path
    server: Server
    number: int = 0

    def install(self) -> None:
        venv.create(self.folder / "venv", with_pip=True)
        pip = [str(self.folder / "venv/bin/python"), "-m", "pip", "install", "--quiet"]
        for packages, more in ((self.target.packages, []), (self.target.no_deps, ["--no-deps"])):
            if packages:
                subprocess.run([*pip, *more, *packages], check=True, capture_output=True)

    def loaded(self, messages: Iterable[Any], **config: Any) -> list[Row] | str:
        """The rows that the target has after a replay of ``messages``; text if it failed."""
        self.number += 1
        place = self.folder / str(self.number)
        (place / "out").mkdir(parents=True)
        with psycopg.connect(self.server.dsn) as connection:
            for name in ("meltano", "pipelinewise", "datamill"):
                connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
                connection.execute(f"CREATE SCHEMA {name}")
        lines = "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in messages)
        lake = {"lake_root": str(place / "lake"), "tap_id": "tap"}
        self._run("target-singerlake", {**lake, "close_on_state": True}, lines)
        replayed = self._run("tap-singerlake", {**lake, **config})
        ended = self._run(
            str(self.folder / "venv/bin" / self.target.command),
            self.target.config(place / "out", self.server),
            replayed.stdout,
            check=False,
        )
        if ended.returncode:
            print(ended.stderr[-2000:], file=sys.stderr)
            return "fails"
        return self.target.rows(place / "out", self.server)

    def _run(
        self, command: str, config: dict[str, Any], given: str = "", *, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        path = self.folder / "config.json"
        path.write_text(json.dumps(config))
        return subprocess.run([command, "--config", path], input=given, capture_output=True, text=True, check=check)


def of_changes(rows: list[Row] | str) -> str:
    """What a table holds of ``WIDENS``."""
    if isinstance(rows, str):
        return rows
    if len(rows) < 3:
        return f"{len(rows)} of 3 rows"
    if any(row.get("too few cells") for row in rows):
        return "rows with too few cells"
    values = {int(row["id"]): row["n"] for row in rows}
    wrong = [
        f"{wanted} is `{values[id]}`" for id, wanted in ((1, 1), (2, 2), (3, 2.5)) if not _equal(values[id], wanted)
    ]
    return ", ".join(wrong) or "right"


def _equal(value: Any, wanted: float) -> bool:
    return value not in (None, "") and float(value) == wanted


def of_value(rows: list[Row] | str, name: str, wanted: str) -> str:
    """What became of the one value of a table."""
    if isinstance(rows, str):
        return rows
    found = rows[0].get(name) if rows else None
    if str(found) == wanted:
        return "right, as text" if isinstance(found, str) else "right"
    return f"`{found}`" if rows else "no row"


def of_deletes(rows: list[Row] | str) -> str:
    if isinstance(rows, str):
        return rows
    ids = [int(row["id"]) for row in rows]
    return "deletes" if ids == [2] else "appends all" if len(ids) == 3 else f"keeps rows {ids}"


def of_order(rows: list[Row] | str) -> str:
    if isinstance(rows, str):
        return rows
    values = [row["v"] for row in rows]
    return f"`{values[0]}`" if len(values) == 1 else f"{len(values)} rows"


def trial(target: Target, folder: Path, server: Server) -> list[str]:
    """The cells of a row, in the order of ``HEADS``."""
    one = Trial(target, folder, server)
    one.install()
    batch = {"batch_config": {"storage": {"root": str(folder / "batches")}}}
    return [
        of_changes(one.loaded(WIDENS)),
        of_changes(one.loaded(WIDENS, one_schema=True)),
        of_changes(one.loaded(WIDENS, one_schema=True, **batch)),
        of_value(one.loaded(LARGE_VALUE), "n", str(LARGE)),
        of_value(one.loaded(EXACT_VALUE), "d", EXACT),
        of_deletes(one.loaded(DELETES)),
        of_order(one.loaded(ORDER)),
        of_order(one.loaded(ORDER, sequence=True)),
    ]


HEADS = (
    "Target",
    "Two versions",
    "with `one_schema`",
    "and `batch_config`",
    f"{LARGE}",
    f"{EXACT}",
    "ACTIVATE_VERSION",
    "Three records of a key",
    "with `sequence`",
)


def main(names: Sequence[str]) -> int:
    chosen = {name: target for name, target in TARGETS.items() if not names or any(each in name for each in names)}
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    with postgres_server() as server:
        for name, target in chosen.items():
            with ExitStack() as ends:
                folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
                version = next(each for each in (*target.no_deps, *target.packages) if "==" in each).partition("==")[2]
                print(f"| {' | '.join([f'{name} {version}', *trial(target, folder, server)])} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
