"""``singerlake project`` with a table that Iceberg metadata describes."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
DECLARED = "lake_root: lake\ntables:\n  users: {from: t.users, also: [delta, iceberg]}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MELTANO_PROJECT_ROOT", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projections.yml").write_text(DECLARED)
    build_stream(Lake.open(str(root)), "t", "users", SCHEMA, [{"id": 1}], key_properties=("id",))
    return tmp_path


def test_a_table_is_made_verified_collected_and_dropped(run: Run, root: Path) -> None:
    metadata = root / "published/users/metadata"
    assert run("project", "run").exit_code == 0
    build_stream(Lake.open(str(root)), "t", "users", SCHEMA, [{"id": 2}], key_properties=("id",))
    assert run("project", "run").exit_code == 0
    assert StaticTable.from_metadata(str(metadata / "v2.metadata.json")).scan().to_arrow().num_rows == 2
    assert len(list((root / "published/users/_delta_log").iterdir())) == 2
    assert run("project", "verify", "--deep").exit_code == 0
    (metadata / "v2.metadata.json").unlink()
    found = run("project", "verify")
    assert (found.exit_code, "the Iceberg metadata is behind the table" in found.stdout) == (1, True)
    assert "users: nothing new" in run("project", "run").stdout
    assert run("project", "verify").exit_code == 0
    assert run("project", "gc", "--delete").exit_code == 0
    assert run("project", "verify").exit_code == 0
    assert run("project", "drop", "users", "--delete").exit_code == 0
    assert not any(each.is_file() for each in metadata.parent.rglob("*"))


@pytest.mark.parametrize("name", ["metadata", "my table", "ü"])
def test_a_name_by_which_engines_do_not_find_it_is_refused_with_its_line(run: Run, folder: Path, name: str) -> None:
    (folder / "projections.yml").write_text(f"lake_root: lake\ntables:\n  {name}: {{from: t.users, also: iceberg}}\n")
    refused = run("project", "plan")
    assert refused.exit_code == 2
    assert "has a name by which readers of Iceberg do not find it" in refused.stdout
    assert "line=3" in refused.stdout


def test_without_fastavro_nothing_is_begun(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *more: Any, **named: Any) -> Any:
        if name == "fastavro":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.delitem(sys.modules, "fastavro", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    refused = run("project", "run")
    assert refused.exit_code == 2
    assert "Iceberg metadata needs fastavro; run: pip install 'singerlake[iceberg]'" in refused.stdout
    assert not (root / "published").exists()
