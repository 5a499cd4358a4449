"""The suite of all manifest stores once more, on lakes in Azure and Google Cloud: stores that live beside the data, and
stores in databases."""

from __future__ import annotations

import pytest

from tests.manifests import test_any_writer, test_stores, test_stores_upkeep
from tests.manifests.clouds.places import BUCKET, CLOUDS, make_cloud_place
from tests.manifests.stores import IN_A_DATABASE, KINDS, ON_THE_LAKE, Place
from tests.servers.azurite import Azurite
from tests.servers.gcs.server import GcsServer

pytestmark = pytest.mark.thorough

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


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=KINDS)
def place(cloud: str, request: pytest.FixtureRequest) -> Place:
    return make_cloud_place(cloud, request.param, request)


@pytest.fixture(params=IN_A_DATABASE)
def database(cloud: str, request: pytest.FixtureRequest) -> Place:
    return make_cloud_place(cloud, request.param, request)


@pytest.fixture(params=ON_THE_LAKE)
def beside(cloud: str, request: pytest.FixtureRequest) -> Place:
    return make_cloud_place(cloud, request.param, request)
