"""What an installation from source holds, with a C compiler and without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "shared", "tap-singerlake", "target-singerlake", "tools")
LIBRARIES = (
    "singerlake/arrow/_plain",
    "singerlake/format/_fingerprint",
    "singerlake/format/_lines",
    "singerlake/format/_whole",
    "singerlake/storage/_bodies",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy, since compiling replaces the library that this process has loaded."""
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def wheel(checkout: Path, **environment: str) -> Path:
    """The wheel that hatchling makes there."""
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    ran = subprocess.run(
        [sys.executable, "-c", build, str(checkout / "dist")],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return checkout / "dist" / ran.stdout.split()[-1]


def test_with_a_compiler_one_wheel_of_a_platform_serves_every_python(checkout: Path) -> None:
    made = wheel(checkout)
    assert made.name.startswith("singerlake-0.1.0-cp310-abi3-")
    names = ZipFile(made).namelist()
    for library in LIBRARIES:
        assert [name for name in names if name.startswith(library) and ".abi3." in name]
    assert not list(checkout.glob("build"))


@pytest.mark.parametrize("compiler", ["false", "there-is-no-such-compiler"])
def test_without_one_the_wheel_is_pure(checkout: Path, compiler: str) -> None:
    made = wheel(checkout, CC=compiler)
    assert made.name == "singerlake-0.1.0-py3-none-any.whl"
    assert not [name for name in ZipFile(made).namelist() if name.endswith((".so", ".pyd"))]


def test_without_zlib_the_others_are_made(checkout: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "without-zlib"
    compiler.write_text('#!/bin/sh\ncase "$*" in *_whole*) exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    names = ZipFile(wheel(checkout, CC=str(compiler))).namelist()
    made = [library for library in LIBRARIES if any(name.startswith(library) and ".abi3." in name for name in names)]
    assert made == [library for library in LIBRARIES if not library.endswith("_whole")]
