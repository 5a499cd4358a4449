"""Every rebuild with nearly everything on the disk. That it is the same in memory is a test of ``test_plans``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.upkeep.rebuild.sizes import keep_little


@pytest.fixture(scope="module", autouse=True)
def little() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        keep_little(patched)
        yield
