"""Every rebuild in memory, and once more with nearly everything on the disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.upkeep.rebuild.spooled.sizes import keep_little


@pytest.fixture(scope="module", autouse=True, params=["in memory", "on disk"])
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "on disk":
            keep_little(patched)
        yield request.param
