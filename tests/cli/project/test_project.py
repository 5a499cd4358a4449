"""``singerlake project``: what it makes, what it says, and what it leaves alone."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from singerlake.cli.commands.project import options
from singerlake.errors import SettingError
from singerlake.lake import Lake
from singerlake.tables.formats.parquet import Parquet
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}, "age": {"type": "integer"}},
}


@pytest.fixture
def shop(root: Path) -> Lake:
    """Tap ``t`` with ``users``, which has a key, ``events``, which has none, and ``empty``, without messages."""
    lake = Lake.open(str(root))
    build_stream(lake, "t", "users", SCHEMA, [user(n % 4, age=n) for n in range(10)], key_properties=("id",))
    build_stream(lake, "t", "events", SCHEMA, [user(n) for n in range(5)])
    build_stream(lake, "t", "empty", SCHEMA, [])
    return lake


def user(id: int, **more: object) -> dict[str, object]:
    return {"id": id, "name": f"user {id}", "age": 7, **more}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder is the test's own, and nothing of a Meltano project around it counts."""
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(folder: Path, tables: str, lake_root: str | None = "lake") -> Path:
    path = folder / "projections.yml"
    head = f"lake_root: {lake_root}\n" if lake_root else ""
    path.write_text(f"{head}tables:\n{tables}")
    return path


def rows(lake: Lake, table: str) -> list[dict[str, Any]]:
    wanted = ["id", "age"]
    found: list[dict[str, Any]] = lake.table(table).to_arrow(columns=wanted).read_all().to_pylist()
    return found


def test_rescued_values_are_told_by_property_and_kind_and_never_shown(run: Run, root: Path) -> None:
    """A column that is always null does not look like one bad row."""
    lake = Lake.open(str(root))
    inner = {"type": "object", "properties": {"zip": {"type": "string"}}}
    born = {"type": ["null", "string"], "format": "date"}
    schema = {"properties": {**SCHEMA["properties"], "born": born, "address": inner, "x\n": {"type": "integer"}}}
    records: list[dict[str, Any]] = [user(n, born="19700131", address={"zip": "1"}) for n in range(3)]
    records[1] |= {"age": [31337], "address": {"zip": 31337, "door": True}, "extra": None}
    records[2] |= {"age": "31337", "x\n": 0.5, "name": math.nan}
    build_stream(lake, "t", "s", schema, records, key_properties=("id",))
    told = run("project", "run", root, "--all").stdout
    assert (
        "3 new, 3 rows with rescued values (born: 3, the first a string; age: 2, the first an array; "
        "address.zip: 1, the first a number; address.door: 1, the first a boolean, in no schema; "
        "extra: 1, the first null, in no schema; and others); 3 rows in 1 file"
    ) in told
    assert "31337" not in told
    report = run("project", "run", root, "--all", "--full-refresh", "--json").stdout
    misfits = json.loads(report)["tables"][0]["misfits"]
    assert misfits["name"] == {"rows": 1, "first": "a number", "declared": True}
    assert list(misfits) == ["born", "age", "address.zip", "address.door", "extra", "name", "x\n"]
    assert "31337" not in report


def test_a_file_declares_tables(run: Run, shop: Lake, folder: Path) -> None:
    declare(folder, "  people: {from: t.users, columns: {age: {rename: years}}}\n  '*_log': {from: 't.e*ts'}\n")
    result = run("project", "run")
    assert result.exit_code == 0, result.output
    assert shop.tables() == ["people", "ven_log"]
    assert "years" in shop.table("people").schema.names


def test_a_table_that_fails_stops_no_other(run: Run, shop: Lake, folder: Path) -> None:
    declare(
        folder,
        "  a_unknown: {from: t.userz}\n"
        "  b_checked: {from: t.users, checks: {age: '< 5'}}\n"
        "  c_fine: {from: t.users}\n"
        "  d_wrong: {from: t.users, columns: {nmae: {drop: true}}}\n",
    )
    result = run("project", "run")
    assert result.exit_code == 2
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert lines["a_unknown"].startswith("failed (unknown_name)")
    assert "did you mean 't.users'?" in lines["a_unknown"]
    assert lines["b_checked"].startswith("failed (check_failed): nothing was published")
    assert "age < 5: 5 rows, as at offset 5, 6, 7, 8, 9" in lines["b_checked"]
    assert "did you mean 'name'?" in lines["d_wrong"]
    assert "line=6" in lines["d_wrong"]
    assert lines["c_fine"].startswith("10 records read")
    told = json.loads(run("project", "run", "--json").stdout)["tables"]
    assert [(each["table"], each["status"]) for each in told] == [
        ("a_unknown", "failed"),
        ("b_checked", "failed"),
        ("c_fine", "nothing_new"),
        ("d_wrong", "failed"),
    ]
    assert [each["error"]["kind"] for each in told if each["error"]] == ["unknown_name", "check_failed", "unknown_name"]
    assert run("project", "run", "b_checked").exit_code == 1
    assert run("project", "run", "c_fine").exit_code == 0


def test_rows_that_a_check_warns_of_are_told_with_their_offsets(run: Run, shop: Lake, folder: Path) -> None:
    declare(folder, "  people: {from: t.users, checks: {age: {'< 8': warn, '< 9': drop}}}\n")
    result = run("project", "run")
    assert "  check age < 8: 2 rows, as at offset 8, 9\n" in result.stdout
    assert "  check age < 9: 1 row, as at offset 9\n" in result.stdout
    assert [row["age"] for row in rows(shop, "people")] == [8, 5, 6, 7]
    assert "3 rows failed" in run("project", "ls").stdout


def test_a_lake_without_a_stream_is_no_error(run: Run, root: Path, folder: Path) -> None:
    Lake.open(str(root)).lake_id()
    said = "no table is declared, or the lake has no stream yet\n"
    for words in (("plan",), ("run",)):
        result = run("project", *words, root, "--all")
        assert (result.exit_code, result.stdout) == (0, said)
    declare(folder, "  {}\n")
    assert run("project", "run").stdout == said
    assert json.loads(run("project", "run", "--json").stdout)["tables"] == []


def test_a_plan_says_why_a_table_is_made_anew(run: Run, shop: Lake, folder: Path) -> None:
    declare(folder, "  people: {from: t.users}\n")
    run("project", "run")
    assert run("project", "plan").stdout == "people: nothing new\n"
    declare(folder, "  people: {from: t.users, order_by: age}\n")
    assert "people: made anew, since its declaration changed: order_by: 10 messages" in run("project", "plan").stdout
    assert "(made anew)" in run("project", "run").stdout
    assert "people: made anew: 10 messages" in run("project", "plan", "--full-refresh").stdout
    told = json.loads(run("project", "run", "--full-refresh", "--json").stdout)
    assert told["tables"][0]["plan"]["generation"] == 3


def test_the_file_is_looked_for_here_and_beside_meltano_yml(
    run: Run, shop: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(folder, "  people: {from: t.users}\n")
    (folder / "a/b").mkdir(parents=True)
    monkeypatch.chdir(folder / "a/b")
    refused = run("project", "plan")
    assert (refused.exit_code, "no lake is named; give LAKE" in refused.stderr) == (2, True)
    assert run("project", "plan", "--file", "../../projections.yml").exit_code == 0
    assert run("project", "plan", env={"MELTANO_PROJECT_ROOT": str(folder)}).exit_code == 0
    (folder / "meltano.yml").write_text("{}")
    assert run("project", "plan").stdout.startswith("people: 10 messages")


def test_the_lake_may_come_from_the_environment(run: Run, shop: Lake, folder: Path, root: Path) -> None:
    declare(folder, "  people: {from: t.users}\n", lake_root=None)
    refused = run("project", "plan")
    assert (refused.exit_code, "set $SINGERLAKE_LAKE_ROOT, or write lake_root into" in refused.stderr) == (2, True)
    environment = {"SINGERLAKE_LAKE_ROOT": str(root)}
    assert run("project", "plan", env=environment).exit_code == 0
    assert "users" in run("project", "plan", "--all", env=environment).stdout
    refused = run("project", "plan", "--all")
    assert (refused.exit_code, "no lake is named" in refused.stderr) == (2, True)


def test_without_pyarrow_it_says_what_to_install(
    run: Run, shop: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    result = run("project", "run", root, "--all")
    assert (result.exit_code, "pip install 'singerlake[tables]'" in result.stderr) == (2, True)


REFUSES_SPARK = """
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] not in ("pyspark", "py4j"), "imports pyspark"

sys.meta_path.insert(0, Refuses())
from singerlake.cli.main import main
main(prog_name="singerlake")
"""


def test_neither_a_plan_nor_a_run_of_little_or_nothing_imports_pyspark(shop: Lake, root: Path) -> None:
    def refusing(*words: str) -> subprocess.CompletedProcess[str]:
        environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", REFUSES_SPARK, "--debug", "project", *words, str(root), "--all"]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)

    for words, said in (
        (("plan",), "to read"),
        (("run",), "10 records read"),
        (("run", "--master", "local"), "nothing"),
    ):
        done = refusing(*words)
        assert (done.returncode, said in done.stdout) == (0, True), done.stderr
    assert "imports pyspark" in refusing("run", "--engine", "spark", "--full-refresh").stderr


def test_a_full_disk_stops_the_table_that_meets_it_alone(
    run: Run, shop: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Parquet.write

    def full(self: Parquet, rows: Any, path: Path) -> None:
        if rows.num_rows == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, rows, path)

    monkeypatch.setattr(Parquet, "write", full)
    result = run("project", "run", root, "--all")
    assert (result.exit_code, "events: failed (storage_full): no space is left" in result.stdout) == (1, True)
    assert "users: 10 records read" in result.stdout
    monkeypatch.undo()
    assert run("project", "run", root, "--all").exit_code == 0
    assert len(rows(shop, "events")) == 5


def test_a_setting_that_spark_needs_is_said(run: Run, shop: Lake, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from singerlake.cli.commands.project import engines

    def refuse(kind: str, *_: object, **__: object) -> None:
        raise SettingError(f"no Java for {kind}", hint="install one")

    monkeypatch.setattr(engines, "reader", refuse)
    result = run("project", "run", root, "--all", "--engine", "spark")
    assert (result.exit_code, "users: failed (setting): no Java for spark" in result.stdout) == (2, True)


def names_of(text: str) -> list[str]:
    return [each["table"] for each in json.loads(text)["tables"]]


def test_tables_are_meant_by_the_tap_and_the_stream_that_they_are_made_from(
    run: Run, shop: Lake, root: Path, folder: Path
) -> None:
    build_stream(shop, "pg_2", "users", SCHEMA, [user(1)], key_properties=("id",))
    made = run("project", "run", root, "--all", "--tap", "pg_*", "--json").stdout
    assert names_of(made) == ["pg_2.users"]
    assert names_of(run("project", "plan", root, "--all", "--stream", "e*", "--json").stdout) == ["empty", "events"]
    assert run("project", "run", root, "--all").exit_code == 0
    for command in ("ls", "verify", "gc"):
        assert names_of(run("project", command, root, "--stream", "users", "--json").stdout) == [
            "pg_2.users",
            "t.users",
        ]
    assert names_of(run("project", "ls", root, "events", "t.users", "--stream", "users", "--json").stdout) == [
        "t.users"
    ]
    declare(folder, "  sums: {sql: 'SELECT count(*) AS n FROM events'}\n")
    assert names_of(run("project", "ls", root, "--tap", "*", "--json").stdout).count("sums") == 0
    dropped = run("project", "drop", root, "--tap", "t", "--stream", "users", "--delete", "--json")
    assert names_of(dropped.stdout) == ["t.users"]
    assert names_of(run("project", "ls", root, "--tap", "t", "--json").stdout) == ["events"]
    nothing = run("project", "ls", root, "--tap", "x", "--stream", "u*")
    assert (nothing.exit_code, nothing.stderr) == (
        2,
        "error: no table is made from 'x.u*'; singerlake project ls has all\n",
    )
    assert run("project", "verify", root, "nobody", "--tap", "t").exit_code == 2


@pytest.mark.parametrize("option", ["--tap", "--stream"])
def test_an_empty_name_means_no_table(run: Run, shop: Lake, root: Path, option: str) -> None:
    """As of a variable of a shell that is not set."""
    assert run("project", "run", root, "--all").exit_code == 0
    dropped = run("project", "drop", root, option, "", "--delete")
    assert (dropped.exit_code, "no table is made from" in dropped.stderr) == (2, True)
    assert len(names_of(run("project", "ls", root, "--json").stdout)) == 2


def test_tables_of_a_tap_that_are_declared_and_not_made_are_listed_and_in_the_way_of_nothing(
    run: Run, shop: Lake, root: Path, folder: Path
) -> None:
    declare(folder, "  users: {from: t.users}\n  events: {from: t.events}\n  gone: {from: {tap: t, stream: nothere}}\n")
    assert run("project", "run", "users").exit_code == 0
    assert names_of(run("project", "ls", "--tap", "t", "--json").stdout) == ["events", "users"]
    for command in ("verify", "gc"):
        assert names_of(run("project", command, "--tap", "t", "--json").stdout) == ["users"]
    missing = run("project", "run", "--tap", "t")
    assert (missing.exit_code, "no stream of this lake is" in missing.output) == (2, True)
    build_stream(shop, "u", "x", SCHEMA, [user(1)], key_properties=("id",))
    declare(folder, "  x: {from: u.x}\n  gone: {from: {tap: t, stream: nothere}}\n")
    alone = run("project", "run", "--tap", "u")
    assert alone.exit_code == 0, alone.output
