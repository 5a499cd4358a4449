"""What an install shows: one line that changes on a terminal, some lines elsewhere, and why it failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import install

PIP = """#!{python}
import sys
assert sys.argv[1:4] == ["-m", "pip", "install"], sys.argv
print("Collecting one>=1")
print("Collecting two (from one)")
print("Installing collected packages: one, two")
if "bad" in sys.argv:
    print("ERROR: no matching distribution")
    sys.exit(1)
"""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A program in the place of an environment's Python, which says what pip says."""
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(PIP.format(python=sys.executable))
    program.chmod(0o755)
    return program


def test_elsewhere_than_on_a_terminal_a_line_begins_and_a_line_ends_it(
    python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install.pip(python, "good", title="Installing it") == 0
    begun, ended = capsys.readouterr().out.splitlines()
    assert begun == "Installing it ..."
    assert ended.startswith("Installing it: 2 packages in ")


def test_what_takes_long_says_so_now_and_then(
    python: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "SECONDS_BETWEEN_LINES", 0)
    install.pip(python, "good", title="Installing it")
    told = capsys.readouterr().out
    assert "1 packages found, one>=1" in told
    assert "unpacking 2 packages" in told


def test_a_failure_shows_the_end_of_what_pip_said(python: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install.pip(python, "bad", title="Installing it") == 1
    told = capsys.readouterr().out
    assert "Installing it: failed in " in told
    assert told.endswith("ERROR: no matching distribution\n")


def test_it_needs_nothing_but_python_and_says_how_it_is_used() -> None:
    root = Path(install.__file__).parent.parent
    ran = subprocess.run(
        [sys.executable, "-S", "-m", "tools.install"], cwd=root, env={"PATH": os.environ["PATH"]}, capture_output=True
    )
    assert ran.returncode == 1
    assert b"tools.install VENV" in ran.stderr
