"""What ``import singerlake`` offers, and what it does not load before it is asked for."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import singerlake
from singerlake import errors


@pytest.mark.parametrize("name", singerlake.__all__)
def test_each_name_is_there_and_says_what_it_is(name: str) -> None:
    assert inspect.getdoc(getattr(singerlake, name))


def test_every_error_is_offered() -> None:
    raised = {name for name, each in vars(errors).items() if inspect.isclass(each) and issubclass(each, Exception)}
    assert raised <= set(singerlake.__all__)
    assert set(dir(singerlake)) == set(singerlake.__all__)


def test_the_version_is_the_installed_one() -> None:
    assert singerlake.__version__ == importlib.metadata.version("singerlake")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lakes'"):
        singerlake.Lakes  # noqa: B018


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    program = "import sys, singerlake; print([name for name in sys.modules if name.startswith('singerlake.')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_type_checkers_are_told_that_the_packages_are_typed() -> None:
    for name in ("singerlake", "pyspark_singerlake", "tap_singerlake", "target_singerlake"):
        assert (Path(importlib.import_module(name).__file__ or "").parent / "py.typed").is_file()


@pytest.mark.thorough
def test_a_type_checker_knows_what_each_name_is(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(
        "import singerlake\nfrom singerlake import Lake, SingerlakeError\n\n"
        "lake: Lake = Lake.open('lake')\nversion: str = singerlake.__version__\n"
        "try:\n    lake.require()\nexcept SingerlakeError as error:\n    text: str = error.hint\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--no-error-summary",
        str(tmp_path / "use.py"),
    ]
    ran = subprocess.run([*command, f"--cache-dir={tmp_path}"], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "")
