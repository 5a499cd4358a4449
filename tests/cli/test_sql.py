"""``singerlake sql``: what it prints, writes and asks."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars
import pytest

from singerlake.lake import Lake
from tests.atomic.lakes import commit_together
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}}
RECORDS = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]
STATEMENT = "SELECT id, name, [id] AS l, id / 4 AS q FROM users ORDER BY id"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    lake = Lake.open(str(tmp_path / "lake"))
    build_stream(lake, "t", "users", SCHEMA, RECORDS, key_properties=("id",))
    lake.project(all=True)
    return tmp_path


def test_rows_are_a_table_or_text_for_programs(run: Run) -> None:
    shown = run("sql", "lake", STATEMENT).stdout.splitlines()
    assert [line.split() for line in shown] == [
        ["id", "name", "l", "q"],
        ["1", "Ada", "[1]", "0.25"],
        ["2", "NULL", "[2]", "0.5"],
        ["2", "rows"],
    ]
    told = json.loads(run("sql", "lake", STATEMENT, "--json").stdout)
    assert told == [{"id": 1, "name": "Ada", "l": [1], "q": 0.25}, {"id": 2, "name": None, "l": [2], "q": 0.5}]
    written = list(csv.reader(run("sql", "lake", STATEMENT, "--csv").stdout.splitlines()))
    assert written == [["id", "name", "l", "q"], ["1", "Ada", "[1]", "0.25"], ["2", "", "[2]", "0.5"]]
    assert run("sql", "lake", "SELECT 1 WHERE false", "--json").stdout == "[]\n"
    assert "NaN" not in run("sql", "lake", "SELECT 'nan'::double AS x", "--json").stdout


def test_every_column_is_there_and_every_value_has_a_text(run: Run) -> None:
    statement = (
        "SELECT 1 AS id, 2 AS id, 3 AS ID, sum(4) AS s, date '20000-01-01' AS d, 'infinity'::timestamp AS t, "
        "interval 3 day AS i, '\\xAA'::blob AS b, [{'x': 1.50::decimal(5, 2), 'd': date '2020-01-01'}] AS l, "
        "'2026-01-01 08:00:00+02'::timestamptz AS z, NULL AS n"
    )
    (row,) = json.loads(run("sql", "lake", statement, "--json").stdout)
    assert row == {
        "id": 1,
        "id_1": 2,
        "ID_2": 3,
        "s": 4,
        "d": "20000-01-01",
        "t": "infinity",
        "i": "3 days",
        "b": "\\xAA",
        "l": [{"x": "1.50", "d": "2020-01-01"}],
        "z": "2026-01-01 06:00:00+00",
        "n": None,
    }
    names, values = csv.reader(run("sql", "lake", statement, "--csv").stdout.splitlines())
    texts = ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in row.values()]
    assert (names, values) == ([*row], texts)
    shown = run("sql", "lake", statement).stdout
    assert all(text in shown for text in ("20000-01-01", "infinity", "3 days"))


def test_rows_go_into_a_new_file(run: Run, folder: Path) -> None:
    assert run("sql", "lake", STATEMENT, "--parquet", "out.parquet").stdout == ""
    assert polars.read_parquet(folder / "out.parquet").select("id").to_series().to_list() == [1, 2]
    refused = run("sql", "lake", STATEMENT, "--parquet", "out.parquet")
    assert (refused.exit_code, "is there already" in refused.stderr) == (2, True)
    assert run("sql", "lake", STATEMENT, "--csv", "--json").exit_code == 2


def test_a_statement_comes_from_standard_input_where_none_is_given(run: Run) -> None:
    assert "Ada" in run("sql", "lake", input=STATEMENT).stdout
    env = {"SINGERLAKE_LAKE_ROOT": "lake"}
    assert "Ada" in run("sql", STATEMENT, env=env).stdout


def test_what_cannot_be_is_one_line(run: Run) -> None:
    for statement, says in (
        ("SELECT * FROM user", "no table 'user' in this lake; did you mean 'users'?"),
        ("DROP TABLE users", "that is not one statement that reads; write one SELECT"),
        ("SELECT name::int FROM users", "DuckDB refuses the statement: Conversion Error"),
    ):
        refused = run("sql", "lake", statement)
        assert refused.exit_code == 2
        assert says in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert run("sql", "lake", STATEMENT, "--memory", "1MB").exit_code == 2


def test_a_statement_is_asked_about_then(run: Run, folder: Path) -> None:
    lake = Lake.open(str(folder / "atomic"))
    first = commit_together(lake, "t", {"users": [{"id": 1}]})
    commit_together(lake, "t", {"users": [{"id": 2}, {"id": 3}]})
    lake.project(all=True)
    statement = "SELECT count(*) AS n FROM users JOIN raw.t.users USING (id)"
    counted = [
        json.loads(run("sql", "atomic", statement, "--json", *more).stdout)
        for more in ((), ("--commit", first), ("--at", str(datetime.now(UTC))))
    ]
    assert counted == [[{"n": 3}], [{"n": 1}], [{"n": 3}]]
    told = json.loads(run("project", "as-of", "atomic", "users", "--commit", first, "--json").stdout)
    assert (told["offset"], told["rows"]) == (1, 1)
    for more, says in (
        (("--commit", "20260101T030410.001000Z-9q2c1m5d0o8s4k7e"), "there is no commit"),
        (("--commit", "../x"), "'../x' is not the name of a commit"),
        (("--commit", first, "--at", "2026-01-01"), "exclude each other"),
        (("--at", ""), "'' is not a moment"),
        (("--at", "2999-01-01T00:00Z"), "is in the future"),
        (("--at", "1999-01-01T00:00Z"), "had no message"),
    ):
        refused = run("sql", "atomic", statement, *more)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert says in refused.stderr
    assert run("project", "as-of", "atomic", "users", "--commit", first, "--offset", "1").exit_code == 2


def test_a_person_is_asked_until_the_end_of_input(folder: Path) -> None:
    program = "from singerlake.cli.main import main; main(['sql', 'lake'], prog_name='singerlake')"
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TERM": "dumb"},
    ) as asked:
        os.close(theirs)
        os.write(mine, b"SELECT count(*)\n  FROM users;\nSELECT nope;\nSELECT 6 * 7 AS x;\n\x04")
        told, _ = asked.communicate(timeout=60)
    os.close(mine)
    assert asked.returncode == 0
    for words in ("2", "DuckDB refuses the statement", "42"):
        assert words in told, told
