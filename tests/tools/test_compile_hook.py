"""What an installation from source holds, with a C compiler and without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "shared", "tap-singerlake", "target-singerlake", "tools")
LIBRARIES = (
    "singerlake/arrow/decode/_plain",
    "singerlake/format/_newlines",
    "singerlake/format/lines/_lines",
    "singerlake/format/lines/_records",
    "singerlake/format/lines/_scanner",
    "singerlake/tables/formats/encode/_rows",
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


def built(checkout: Path, folder: Path, kind: str = "build_wheel", **environment: str) -> subprocess.Popen[str]:
    """Hatchling at work there."""
    build = f"import sys; from hatchling.build import {kind}; print({kind}(sys.argv[1]))"
    return subprocess.Popen(
        [sys.executable, "-B", "-c", build, str(folder)],
        cwd=checkout,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wheel(checkout: Path, folder: Path | None = None, **environment: str) -> Path:
    """The wheel that hatchling makes there."""
    folder = folder or checkout / "dist"
    running = built(checkout, folder, **environment)
    out, err = running.communicate()
    assert running.returncode == 0, err
    return folder / out.split()[-1]


@pytest.mark.thorough
def test_a_checkout_that_cannot_be_written_gives_the_same_wheels_many_at_once(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folders = [tmp_path_factory.mktemp("dist") for _ in range(2)]
    with read_only(checkout):
        running = [built(checkout, folder) for folder in folders]
        results = [each.communicate() for each in running]
    assert [each.returncode for each in running] == [0, 0], results
    made = [next(folder.glob("*.whl")) for folder in folders]
    assert made[0].name.startswith("singerlake-0.1.0-cp311-abi3-"), "one of a platform serves every Python"
    names = [sorted(ZipFile(each).namelist()) for each in made]
    assert names[0] == names[1]
    assert len([name for name in names[0] if ".abi3." in name]) == len(LIBRARIES)


@contextmanager
def read_only(checkout: Path) -> Iterator[None]:
    """Nobody may write there; what root writes all the same is seen afterwards."""
    paths = [checkout, *(path for path in checkout.rglob("*") if path.is_dir())]
    before = sorted(checkout.rglob("*"))
    for path in paths:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in paths:
            path.chmod(0o755)
    assert sorted(checkout.rglob("*")) == before


def test_a_release_without_a_compiled_module_is_an_error(checkout: Path) -> None:
    running = built(checkout, checkout / "dist", CC="false", SINGERLAKE_REQUIRE_COMPILED="1")
    _, err = running.communicate()
    assert running.returncode != 0
    assert "no C compiler or headers for singerlake.arrow.decode._plain; install them" in err
    assert not list((checkout / "dist").glob("*.whl"))


@pytest.mark.sampled(compiler=1)
@pytest.mark.parametrize("compiler", ["false", "there-is-no-such-compiler"])
def test_without_one_the_wheel_is_pure(checkout: Path, compiler: str) -> None:
    made = wheel(checkout, CC=compiler)
    assert made.name == "singerlake-0.1.0-py3-none-any.whl"
    assert not [name for name in ZipFile(made).namelist() if name.endswith((".so", ".pyd"))]


@pytest.mark.thorough
def test_where_one_module_cannot_be_compiled_the_others_are(checkout: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "all-but-one"
    compiler.write_text('#!/bin/sh\ncase "$*" in *_lines*) exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    before = sorted(checkout.rglob("*"))
    names = ZipFile(wheel(checkout, CC=str(compiler))).namelist()
    left = {path.relative_to(checkout).parts[0] for path in set(checkout.rglob("*")) - set(before)}
    assert left == {"dist"}
    made = [library for library in LIBRARIES if any(name.startswith(library) and ".abi3." in name for name in names)]
    assert made == [library for library in LIBRARIES if not library.endswith("_lines")]
