"""``singerlake versions`` and ``singerlake diff``."""

from __future__ import annotations

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run


def test_the_lake_may_be_left_out_where_the_environment_names_it(
    run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SINGERLAKE_LAKE_ROOT", lake.storage.url)
    assert run("diff", "v1", "v2", "--tap", "t", "--stream", "flights").exit_code == 0
