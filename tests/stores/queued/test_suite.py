"""The suite of all manifest stores once more, by writers that send to a queue which a committer empties."""

from __future__ import annotations

import pytest

from tests.stores import test_any_writer, test_stores, test_stores_upkeep
from tests.stores.queued.queues import queued_place
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place

for module in (test_stores, test_stores_upkeep, test_any_writer):
    cases = {name: case for name, case in vars(module).items() if name.startswith("test_")}
    assert not cases.keys() & globals().keys(), "one case would take the place of another"
    # Their fixtures are looked up here.
    globals().update(cases)

DATABASES = [pytest.param(kind, marks=pytest.mark.thorough) for kind in IN_A_DATABASE]


def sent_to(request: pytest.FixtureRequest) -> Place:
    """A place whose writers have a queue."""
    return queued_place(request.param, request).inner


@pytest.fixture(params=[*ON_THE_LAKE, *DATABASES])
def place(request: pytest.FixtureRequest) -> Place:
    return sent_to(request)


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Place:
    return sent_to(request)


@pytest.fixture(params=ON_THE_LAKE)
def beside(request: pytest.FixtureRequest) -> Place:
    queued = queued_place(request.param, request)
    # A stream's state is taken away by hand here: who follows one has to be started again.
    queued.committer.streams = 0
    return queued.inner
