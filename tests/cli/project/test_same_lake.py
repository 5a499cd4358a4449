"""A lake that the command names as its file of tables does, in other words."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream


def test_nothing_is_noted_where_both_name_one_lake(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projections.yml").write_text("lake_root: lake\ntables:\n  users: {from: t.users}\n")
    for name in ("lake", "other"):
        build_stream(Lake.open(name), "t", "users", {"properties": {"id": {"type": "integer"}}}, [{"id": 1}])
    for root in ("lake", "./lake", "lake/", str(tmp_path / "lake")):
        assert "note" not in run("project", "plan", root).stderr, root
    assert "note: the lake is other, and not that of" in run("project", "plan", "other").stderr
