"""What tests of manifest stores share: one stream at every manifest store."""

from __future__ import annotations

import pytest

from tests.stores.stores import KINDS, Place, make_place


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return make_place(request.param, request)
