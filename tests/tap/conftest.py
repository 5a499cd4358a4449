"""Lakes that several tests of the tap read."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.lakes import build_stream
from tests.tap.runs import V1, V2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where an empty lake may grow."""
    return tmp_path / "lake"


@pytest.fixture
def lake(root: Path) -> Lake:
    return Lake.open(str(root))


@pytest.fixture
def flights(lake: Lake) -> Lake:
    """A stream of two versions: ids 0 to 249 as v1 in three files, 250 to 299 as v2 in one."""
    build_stream(
        lake,
        "tap-a",
        "flights",
        V1,
        [{"id": number} for number in range(250)],
        file_size=100,
        member_size=30,
        key_properties=["id"],
    )
    build_stream(
        lake,
        "tap-a",
        "flights",
        V2,
        [{"id": number, "name": f"n{number}"} for number in range(250, 300)],
        key_properties=["id"],
    )
    return lake
