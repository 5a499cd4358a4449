"""Real flights end to end, by the commands a user would type; ``meltano.yml`` has the pipelines.

A throwaway PostgreSQL is the source, a third-party tap reads it and a third-party target takes the replay. Between
two captures the table gets a new column, so the lake holds two schema versions. A table of each flight as it is now is
made of them. Everything is left in ``output/``.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo import flights
from demo.display import Commands, Display, StepFailedError, failure
from tools.postgres import postgres_server

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "output"
MARK = OUTPUT / ".made-by-demo"
LAKE = OUTPUT / "lake"
TAP, STREAM = "tap-postgres", "public-flights"
TABLES = OUTPUT / "projections.yml"
DECLARED = f"""\
lake_root: {json.dumps(str(LAKE))}
tables:
  "*":
    from: {TAP}.*
    also: iceberg
"""
STEPS = 15
WHAT_TO_LOOK_AT = """
Look at
    output/lake/raw          the lake: gzip files of the very lines the tap wrote, and a manifest for each stream
    output/lake/published    a table with each flight as it is now, in parquet files, found as Iceberg
    output/projections.yml   what declares it
    output/csv               what the third-party target made of the replay
    output/logs              the log of every command
    meltano.yml              the project that just ran, to copy
and try
    zcat output/lake/raw/tap-postgres/public-flights/*/*.singer.gz | head -2
    .venv/bin/singerlake ls output/lake --json
    make demo      again: it begins anew
"""


def main() -> int:
    """Run all steps; 0, or another exit code with the reason on the screen."""
    console = Console()
    try:
        fresh_output()
        with Display(STEPS, console) as display:
            run(display, Commands(environment(), OUTPUT / "logs"))
    except StepFailedError as error:
        console.print(failure(error), soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("stopped; make demo begins anew")
        return 130
    console.print(WHAT_TO_LOOK_AT, soft_wrap=True, highlight=False)
    return 0


def run(display: Display, commands: Commands) -> None:
    """The steps, in the order of a real project's life."""
    with ThreadPoolExecutor(1) as beside, postgres_server() as server:
        installed = beside.submit(commands.run, "meltano", "install")
        with display.step("Load the flights of January to November 2013 into a throwaway PostgreSQL") as say:
            say(f"{flights.load(server.dsn):,} rows")
        with display.step("Install a third-party tap and a third-party target, begun beside that: meltano install"):
            installed.result()
        with display.step("Capture: meltano run tap-postgres target-singerlake"):
            commands.run("meltano", "run", "capture", TAP_POSTGRES_SQLALCHEMY_URL=server.dsn)
        with display.step("Make a table of each flight as it is now, also for Iceberg: singerlake project run") as say:
            TABLES.write_text(DECLARED)
            say(commands.run("singerlake", "project", "run", "--file", str(TABLES)).rstrip())
        with display.step("Time passes: December arrives, and a new column, filled in from November on") as say:
            say(f"{flights.change(server.dsn):,} rows new or changed")
        with display.step("Capture again, incrementally: the new column makes schema version v2"):
            commands.run("meltano", "run", "capture", TAP_POSTGRES_SQLALCHEMY_URL=server.dsn)
    with display.step("Look: singerlake ls output/lake") as say:
        say(commands.run("singerlake", "ls", str(LAKE)).rstrip())
    with display.step("Check every file's bytes, checksum and counts: singerlake verify output/lake") as say:
        say(commands.run("singerlake", "verify", str(LAKE)).rstrip())
    with display.step("Replay from v2 onward into CSV: meltano run tap-singerlake target-csv") as say:
        commands.run("meltano", "run", "replay", TAP_SINGERLAKE_FROM_VERSION="v2")
        say(f"{rows_in(OUTPUT / 'csv'):,} rows in output/csv")
    with display.step("Replay again: the bookmark knows that nothing is new") as say:
        commands.run("meltano", "run", "replay", TARGET_CSV_OUTPUT_PATH=str(OUTPUT / "csv-second-run"))
        say(f"{rows_in(OUTPUT / 'csv-second-run'):,} rows")
    with display.step("Install Spark and a Java, which nothing needed so far"):
        commands.run("python", "-m", "pip", "install", "--group", f"{ROOT / 'pyproject.toml'}:demo-spark")
    with display.step("Read both versions with Spark: spark.read.format('singerlake')") as say:
        lines = commands.run("python", "-m", "demo.spark", str(LAKE), TAP, STREAM).splitlines()
        say(by_airport([json.loads(line) for line in lines]))
    with display.step("Bring the table up to the lake: only what is new is read") as say:
        say(commands.run("singerlake", "project", "run", "--file", str(TABLES)).rstrip())
    with display.step("Read the table, each flight once, with Spark and with DuckDB") as say:
        lines = commands.run("python", "-m", "demo.tables", str(LAKE), STREAM).splitlines()
        say(each_once([json.loads(line) for line in lines]))
    with display.step("Ask for the table by its name: singerlake catalog serve, and pyiceberg") as say:
        commands.run("python", "-m", "pip", "install", "--group", f"{ROOT / 'pyproject.toml'}:demo-catalog")
        say(commands.run("python", "-m", "demo.by_name", str(LAKE), STREAM).rstrip())


def fresh_output() -> None:
    """An empty ``output/``. A folder of that name which the demo did not make is left alone: StepFailedError."""
    if OUTPUT.exists() and any(OUTPUT.iterdir()):
        if not MARK.exists():
            raise StepFailedError(f"{OUTPUT} holds something that the demo did not make; move it away and run again")
        shutil.rmtree(OUTPUT)
    OUTPUT.mkdir(exist_ok=True)
    MARK.touch()
    for folder in ("logs", "csv", "csv-second-run"):
        (OUTPUT / folder).mkdir()


def environment() -> dict[str, str]:
    """The environment of every command: this Python's commands first on PATH, Meltano's state in ``output/``.

    Plugins are installed by pip, as the project was: uv, Meltano's default, reads neither pip's configuration nor the
    system's certificates, so that it can fail where pip has just succeeded.
    """
    return {
        "MELTANO_VENV_BACKEND": "virtualenv",
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MELTANO_PROJECT_ROOT": str(ROOT),
        "MELTANO_DATABASE_URI": f"sqlite:///{OUTPUT / 'meltano.db'}",
        "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false",
        "MELTANO_CLI_DISABLE_VERSION_CHECK": "1",
        "NO_COLOR": "1",
    }


def rows_in(folder: Path) -> int:
    """Rows of all CSV files of a folder, without their headers."""
    count = 0
    for path in folder.glob("*.csv"):
        with path.open(newline="") as file:
            count += sum(1 for _ in csv.reader(file)) - 1
    return count


def by_airport(rows: list[dict[str, object]]) -> Table:
    """Spark's answer as a table."""
    shown = Table("airport", "records", "mean departure delay, minutes", "with the new column")
    for column in shown.columns[1:]:
        column.justify = "right"
    for row in rows:
        shown.add_row(str(row["origin"]), f"{row['flights']:,}", str(row["delay"]), f"{row['with_airline']:,}")
    return shown


def each_once(rows: list[dict[str, object]]) -> Table:
    """What both engines said of the table."""
    shown = Table("airport", "flights", "with the new column")
    for column in shown.columns[1:]:
        column.justify = "right"
    for row in rows:
        shown.add_row(str(row["origin"]), f"{row['flights']:,}", f"{row['with_airline']:,}")
    return shown


if __name__ == "__main__":
    sys.exit(main())
