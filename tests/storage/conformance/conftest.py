"""Each adapter in turn, and what tests put into it."""

from __future__ import annotations

import pytest

from singerlake.storage.port import Storage
from tests.storage.adapters import FACTORIES, Opener


@pytest.fixture(scope="module", params=sorted(FACTORIES))
def opener(request: pytest.FixtureRequest) -> Opener:
    return FACTORIES[request.param](request)


@pytest.fixture
def storage(opener: Opener) -> Storage:
    return opener.fresh()
