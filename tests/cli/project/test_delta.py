"""``singerlake project`` with a table in the format delta."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projections.yml").write_text("lake_root: lake\ntables:\n  users: {from: t.users, format: delta}\n")
    return tmp_path


def test_a_delta_table_is_made_verified_collected_and_dropped(run: Run, root: Path) -> None:
    lake = Lake.open(str(root))
    log = root / "published/users/_delta_log"
    for id in range(2):
        build_stream(lake, "t", "users", SCHEMA, [{"id": id}], key_properties=("id",))
        assert run("project", "run").exit_code == 0
    assert polars.scan_delta(log.parent).collect().height == 2
    assert run("project", "verify").exit_code == 0
    last = log / f"{1:020}.json"
    kept = last.read_bytes()
    last.unlink()
    verified = run("project", "verify", "--json")
    assert verified.exit_code == 1
    (finding,) = json.loads(verified.stdout)["findings"]
    assert finding["key"] == "published/users/_delta_log/"
    assert finding["what"] == "the Delta log is behind the table; run 'singerlake project run'"
    assert "users: nothing new" in run("project", "run").stdout
    assert run("project", "verify").exit_code == 0
    assert last.read_bytes() != kept
    waits = "users: nothing to delete\n  waiting: 1 file ("
    assert waits in run("project", "gc").stdout
    assert "; the grace time begins with this --delete\n" in run("project", "gc", "--delete").stdout
    assert ", the first until " in run("project", "gc").stdout
    assert run("project", "drop", "users", "--delete").exit_code == 0
    assert not any(each.is_file() for each in log.parent.rglob("*"))


def test_names_that_delta_does_not_take_are_told_with_their_line(run: Run, root: Path) -> None:
    schema = {"properties": {"id": {"type": "integer"}, "a b": {"type": "integer"}}}
    build_stream(Lake.open(str(root)), "t", "users", schema, [{"id": 1}], key_properties=("id",))
    for command in ("plan", "run"):
        refused = run("project", command)
        assert refused.exit_code == 2
        assert "column 'a b' of table 'users' has a name that Delta does not take" in refused.stdout
        assert "line=3" in refused.stdout
