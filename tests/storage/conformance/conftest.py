"""Each adapter in turn, and what tests put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from singerlake.storage.port import Storage
from tests.storage.adapters import FACTORIES, Opener


@pytest.fixture(scope="module", params=sorted(FACTORIES))
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    factory: Callable[[Path], AbstractContextManager[Opener]] = FACTORIES[request.param]
    with factory(tmp_path_factory.mktemp("conformance")) as opened:
        yield opened


@pytest.fixture
def storage(opener: Opener) -> Storage:
    return opener.fresh()
