"""A small lake on disk, and the command line run in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from singerlake.cli.main import main
from singerlake.lake import Lake
from tests.lakes import build_stream, record_line
from tests.upkeep.shelf import OTHER, SCHEMA

Run = Callable[..., Result]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tap ``t`` with ``flights`` (two versions, three files) and ``a/b``; tap ``u`` with ``x``."""
    root = tmp_path_factory.mktemp("built") / "lake"
    lake = Lake.open(str(root))
    for schema, count in ((SCHEMA, 20), (OTHER, 5)):
        lines = [record_line("flights", {"n": n}) for n in range(count)]
        build_stream(lake, "t", "flights", schema, lines, file_size=10, member_size=3)
    build_stream(lake, "t", "a/b", SCHEMA, [record_line("a/b", {"n": 1})])
    build_stream(lake, "u", "x", SCHEMA, [record_line("x", {"n": 1})])
    return root


@pytest.fixture
def lake(built: Path, root: Path) -> Lake:
    """A copy of the built lake, to damage."""
    shutil.copytree(built, root)
    return Lake.open(str(root))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``singerlake`` with some arguments; an exception that is no exit fails the test."""
    for name in ("SINGERLAKE_LAKE_ROOT", "SINGERLAKE_S3_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)

    def runner(*arguments: object, **more: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False, **more)  # type: ignore[arg-type]

    return runner
