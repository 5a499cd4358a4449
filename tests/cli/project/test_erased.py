"""``singerlake project`` with a stream from which records are erased."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from singerlake.lake import Lake
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import MadeFrom
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.site.lakes import put_table

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
ERASE = ("--tap", "t", "--stream", "users", "--where", "id in (1, 2)", "--delete")


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Four users in a table."""
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projections.yml").write_text("lake_root: lake\ntables:\n  users: {from: t.users}\n")
    made = Lake.open(str(root))
    build_stream(made, "t", "users", SCHEMA, [{"id": id} for id in range(4)], key_properties=("id",))
    return made


def test_a_plan_says_why_and_lists_say_how_far_until_the_run(run: Run, root: Path, lake: Lake) -> None:
    assert run("project", "run").exit_code == 0
    assert "2 records erased in 1 of 1 file" in run("erase", root, *ERASE).stdout
    assert "made anew, since records of the stream were erased: 4 messages" in run("project", "plan").stdout
    (listed,) = json.loads(run("project", "ls", "--json").stdout)["tables"]
    assert (listed["rows"], listed["behind"]) == (4, 4)
    compared = run("project", "verify", "--deep")
    assert compared.exit_code == 1
    assert "records of the stream were erased since the table was made; run the table first" in compared.output
    assert "(made anew)" in run("project", "run").stdout
    (listed,) = json.loads(run("project", "ls", "--json").stdout)["tables"]
    assert (listed["rows"], listed["behind"]) == (2, 0)
    assert run("project", "verify", "--deep").exit_code == 0
    assert "users: nothing new" in run("project", "run").stdout
    assert [row["id"] for row in lake.table("users").to_arrow().read_all().to_pylist()] == [0, 3]


def test_the_report_names_tables_that_still_hold_what_was_erased(run: Run, root: Path, tmp_path: Path) -> None:
    assert run("project", "run").exit_code == 0
    assert run("erase", root, *ERASE, "--now", "--report", str(tmp_path / "report.json")).exit_code == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["tables"], report["left_until"]) == (["users"], None)


def test_a_table_that_is_made_after_an_erasure_is_as_any(run: Run, root: Path) -> None:
    run("erase", root, *ERASE)
    assert "to read, for the first time" in run("project", "plan").stdout
    assert "(made anew)" not in run("project", "run").stdout
    assert "users: nothing new" in run("project", "run").stdout


def test_a_check_for_what_was_erased_names_tables_that_may_hold_it(run: Run, root: Path, lake: Lake) -> None:
    def said() -> tuple[int, list[str]]:
        found = run("verify", root, "--erased", "id in (1, 2)")
        *findings, last, looked = found.stdout.splitlines()
        assert looked.startswith("  id in (1, 2): 0 records found, ")
        return found.exit_code, [line.partition(": published/")[2] for line in findings] + [last.split(":")[0]]

    assert run("project", "run").exit_code == 0
    # One of a statement that read it, and one of a statement that read that one.
    stored = load(lake.storage, "users")
    assert stored is not None
    for name, read in (("sums", "users"), ("tops", "sums")):
        made_from = (MadeFrom(table=read, generation=1, number=1, rows=""),)
        of_it = {"table": name, "declaration": {"sql": "SELECT 1"}, "made_from": made_from}
        put_table(lake, replace(stored.state, sources=(), files=(), key=(), order=(), **of_it))
    assert run("erase", root, *ERASE, "--now").exit_code == 0
    way = "run 'singerlake project run', or drop the table"
    assert said() == (
        1,
        [
            f"sums/_table.json: the table was made from rows of 'users' from before records were erased; {way}",
            f"tops/_table.json: the table was made from rows of 'sums' from before records were erased; {way}",
            f"users/_table.json: the table was made before records of its stream were erased; {way}",
            "3 findings",
        ],
    )
    assert run("project", "run").exit_code == 0
    # Tables of statements keep what they read until they are made anew, too.
    assert said()[1][:2] == [
        f"sums/_table.json: the table was made from rows of 'users' from before records were erased; {way}",
        f"tops/_table.json: the table was made from rows of 'sums' from before records were erased; {way}",
    ]
    for name, read in (("sums", "users"), ("tops", "sums")):
        of_it = {"generation": 2, "made_from": (MadeFrom(table=read, generation=2, number=1, rows=""),)}
        found = load(lake.storage, name)
        assert found is not None
        put_table(lake, replace(found.state, **of_it))
    code, lines = said()
    assert (code, lines[-1]) == (1, "1 finding")
    assert lines[0] == "users/_table.json: 1 file that the table replaced may hold such records until " + (
        "'singerlake project gc --delete' has deleted them"
    )
    for _ in range(2):
        assert run("project", "gc", "--delete", "--grace", "0s").exit_code == 0
    assert said() == (0, ["sound"])
    assert run("drop", root, "--tap", "t", "--delete", "--now").exit_code == 0
    assert (said()[0], said()[1][2]) == (
        1,
        "users/_table.json: the table was made before its stream was dropped; run 'singerlake project drop'",
    )
    assert run("verify", root, "--tap", "t", "--erased", "id = 1").exit_code == 1
    (root / "published/users/_table.json").write_text("{")
    assert "users/_table.json: cannot be read, so nobody can tell" in said()[1][0]
    assert run("verify", root).exit_code == 0


def test_a_table_is_named_where_the_condition_can_hold_for_its_stream(run: Run, root: Path, lake: Lake) -> None:
    """Records were erased from orders, too, and by another condition: none of them can be one with an email."""
    people = {"type": "object", "properties": {"id": {"type": "integer"}, "email": {"type": "string"}}}
    build_stream(lake, "t", "people", people, [{"id": 1, "email": "kim@example.com"}], key_properties=("id",))
    assert run("project", "run", root, "--all").exit_code == 0
    assert run("erase", root, *ERASE).exit_code == 0
    assert run("erase", root, "--tap", "t", "--where", "email = 'kim@example.com'", "--delete").exit_code == 0

    def named(*more: str) -> list[str]:
        found = run("verify", root, "--erased", "email = 'kim@example.com'", *more).stdout.splitlines()
        return [line.split("/")[1] for line in found if ": published/" in line]

    assert named() == ["people"]
    assert named("--undeclared") == ["people", "users"]
    # What its versions declared before is not known any more.
    assert run("drop", root, "--tap", "t", "--stream", "users", "--delete").exit_code == 0
    assert named() == ["people", "users"]


def test_a_check_says_the_condition_as_it_was_written_and_how_many_records_it_found(
    run: Run, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "ids.txt").write_text("1\n2\n7\n")
    found = run("verify", root, "--erased", "id in @ids.txt")
    assert found.stdout.splitlines()[-1] == "  id in @ids.txt: 2 records found, 1 object looked into"
    traces = json.loads(run("verify", root, "--erased", "id in @ids.txt", "--json").stdout)["traces"]
    assert traces == {"properties": ["id"], "objects": 1, "records": 2}
    run("erase", root, *ERASE, "--now")
    assert run("verify", root, "--erased", "id in @ids.txt").stdout.splitlines()[1:] == [
        "  id in @ids.txt: 0 records found, 1 object looked into"
    ]
    assert json.loads(run("verify", root, "--json").stdout)["traces"] is None
