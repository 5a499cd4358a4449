"""PostgreSQL for the tests that need one: a server of its own for each test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.postgres import Server, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A running, empty server; it ends with the session."""
    with postgres_server() as server:
        yield server
