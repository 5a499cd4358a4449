"""What ``singerlake doctor`` prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_as_a_command(run: Run, tmp_path: Path) -> None:
    result = run("doctor", tmp_path / "lake")
    assert result.exit_code == 0
    assert "write       " + str(tmp_path) + " can be written" in result.stdout
    (tmp_path / "file").write_text("")
    result = run("doctor", tmp_path / "file")
    assert result.exit_code == 2
    assert "critical  write       a file has the name of a folder" in result.stdout
