"""The suite of all manifest stores once more, on lakes in Azure and Google Cloud: stores that live beside the data, and
stores in databases."""

from __future__ import annotations

from itertools import product

import pytest

from tests.servers.azurite import Azurite
from tests.servers.gcs.server import GcsServer
from tests.stores import test_any_writer, test_stores, test_stores_upkeep
from tests.stores.clouds.places import BUCKET, CLOUDS, make_cloud_place
from tests.stores.stores import IN_A_DATABASE, ON_THE_LAKE, Place

# Each cloud's driver passes the suite of all storages, so one place after the other has a part of the stores' suite.
pytestmark = [pytest.mark.thorough, pytest.mark.in_turn("place")]

BESIDE = tuple(product(CLOUDS, ON_THE_LAKE))
DATABASES = tuple(zip(CLOUDS, IN_A_DATABASE, strict=True))
"""Each database with one cloud: of the lake they ask no request that the stores beside it do not ask of both."""

for module in (test_stores, test_stores_upkeep, test_any_writer):
    cases = {name: case for name, case in vars(module).items() if name.startswith("test_")}
    assert not cases.keys() & globals().keys(), "one case would take the place of another"
    # Their fixtures are looked up here.
    globals().update(cases)


@pytest.fixture(scope="session")
def stores_in_azure(azurite_session: Azurite) -> Azurite:
    azurite_session.create_container(BUCKET)
    return azurite_session


@pytest.fixture(scope="session")
def stores_in_gcs(gcs_session: GcsServer) -> GcsServer:
    gcs_session.create_bucket(BUCKET)
    return gcs_session


@pytest.fixture(params=[*BESIDE, *DATABASES], ids="-".join)
def place(request: pytest.FixtureRequest) -> Place:
    return make_cloud_place(*request.param, request)


@pytest.fixture(params=DATABASES, ids="-".join)
def database(request: pytest.FixtureRequest) -> Place:
    return make_cloud_place(*request.param, request)


@pytest.fixture(params=BESIDE, ids="-".join)
def beside(request: pytest.FixtureRequest) -> Place:
    return make_cloud_place(*request.param, request)
