"""``singerlake project`` with a stream from which records are erased."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

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


def test_a_table_that_is_made_after_an_erasure_is_as_any(run: Run, root: Path) -> None:
    run("erase", root, *ERASE)
    assert "to read, for the first time" in run("project", "plan").stdout
    assert "(made anew)" not in run("project", "run").stdout
    assert "users: nothing new" in run("project", "run").stdout
