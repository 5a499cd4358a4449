"""The suite of all manifest stores once more, on streams whose file entries are items, too."""

from __future__ import annotations

import inspect

import pytest

from tests.stores import test_any_writer, test_stores, test_stores_upkeep
from tests.stores.dynamodb.items.places import place_with_items
from tests.stores.stores import Place

pytestmark = pytest.mark.thorough

for module in (test_stores, test_stores_upkeep, test_any_writer):
    cases = {name: case for name, case in vars(module).items() if name.startswith("test_")}
    # Those of stores that need no database are of another store.
    cases = {name: case for name, case in cases.items() if "beside" not in inspect.signature(case).parameters}
    assert not cases.keys() & globals().keys(), "one case would take the place of another"
    # Their fixtures are looked up here.
    globals().update(cases)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Place:
    return place_with_items(request)
