"""A lake with a stream, and an engine of statements without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.lake import Lake
from tests.tables.sql.engine import Ids
from tests.tables.sql.tables import more


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    more(lake, 4)
    return lake


@pytest.fixture
def engine(lake: Lake) -> Iterator[Ids]:
    """Each of its statements has to be closed in the end, however its table ended."""
    engine = Ids(lake.storage)
    yield engine
    assert engine.open == []
