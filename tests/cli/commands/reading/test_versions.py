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


def test_the_last_two_versions_are_compared_where_none_is_named(run: Run, lake: Lake) -> None:
    root = lake.storage.url
    assert (
        run("diff", root, "--stream", "flights").stdout == run("diff", root, "v1", "v2", "--stream", "flights").stdout
    )
    alone = run("diff", root, "--tap", "u")
    assert (alone.exit_code, alone.stderr) == (
        2,
        "error: stream 'x' has one version, and nothing to compare; capture more (tap='u')\n",
    )
    assert run("diff", root, "v1", "--stream", "flights").exit_code == 2
