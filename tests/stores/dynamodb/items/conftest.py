"""One stream in ``dynamodb`` whose file entries are items, too, and the server that has them."""

from __future__ import annotations

import pytest

from tests.servers.dynamodb import DynamoServer
from tests.stores.dynamodb.items.places import few_files_make_items, place_with_items, server_of  # noqa: F401
from tests.stores.stores import Place


@pytest.fixture
def server(request: pytest.FixtureRequest) -> DynamoServer:
    return server_of(request)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return place_with_items(request)
