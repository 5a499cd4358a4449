"""What a shell completes: names of the lake that the line names so far, and nothing where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from singerlake.cli.main import main
from singerlake.lake import Lake
from tests.lakes import build_stream, record_line
from tests.upkeep.shelf import SCHEMA


def completed(arguments: list[str], incomplete: str = "") -> list[str]:
    complete = ShellComplete(main, {}, "singerlake", "_SINGERLAKE_COMPLETE")
    return [item.value for item in complete.get_completions(arguments, incomplete)]


def test_taps_and_streams_complete(lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SINGERLAKE_LAKE_ROOT", raising=False)
    assert completed(["ls", str(root), "--tap"]) == ["t", "u"]
    assert completed(["gc", str(root), "--stream"]) == ["a/b", "flights", "x"]
    assert completed(["gc", str(root), "--tap", "t", "--stream"], "f") == ["flights"]
    assert completed(["diff", str(root), "v1", "v2", "--tap"]) == ["t", "u"]
    assert completed(["ls", str(root / "nowhere"), "--tap"]) == []
    for command in (["drop"], ["annotate"], ["policy", "set"], ["policy", "unset"]):
        assert completed([*command, str(root), "--tap"]) == ["t", "u"]
    monkeypatch.setenv("SINGERLAKE_LAKE_ROOT", str(root))
    assert completed(["tail", "--tap"]) == ["t", "u"]


def test_tables_complete_once_each(lake: Lake, root: Path) -> None:
    assert lake.project(all=True, tables=["flights", "x"])
    assert completed(["project", "drop", str(root)]) == ["flights", "x"]
    assert completed(["project", "drop", str(root), "x"]) == ["flights"]
    assert completed(["project", "as-of", str(root)]) == ["flights", "x"]


def test_no_name_breaks_the_line_of_a_shell(lake: Lake, root: Path) -> None:
    for name in ("line\nbreak", "\x1b[31m"):
        build_stream(lake, "t", name, SCHEMA, [record_line(name, {"n": 1})])
    assert completed(["gc", str(root), "--stream"]) == ["a/b", "flights", "x"]


def test_no_error_of_a_lake_is_shown(root: Path) -> None:
    os.makedirs(root)
    assert completed(["ls", "s3://", "--tap"]) == []
