"""What ``singerlake doctor`` prints, and its exit codes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_as_a_command(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("doctor", tmp_path / "lake")
    assert result.exit_code == 0
    assert "write       " + str(tmp_path) + " can be written" in result.stdout
    (tmp_path / "there").mkdir()
    little = shutil.disk_usage(tmp_path)._replace(free=8000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: little)
    result = run("doctor", tmp_path / "there")
    assert (result.exit_code, "8.0 kB free\n" in result.stdout) == (1, True)
    (tmp_path / "file").write_text("")
    result = run("doctor", tmp_path / "file")
    assert result.exit_code == 2
    assert "critical  write       a file has the name of a folder" in result.stdout
