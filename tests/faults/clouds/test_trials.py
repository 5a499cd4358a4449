"""Eight writers at every manifest store with its lake in Azure or Google Cloud, behind a network that loses and repeats
what is sent: what one of them was told is committed is there, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from singerlake.clock import random_id
from singerlake.storage.settings import StorageSettings, together
from tests.faults.conftest import HONEST, Hire, through
from tests.faults.support.places import Place
from tests.faults.support.trial import IN_CLOUDS, WRITERS, Road, run
from tests.servers.azurite import azurite
from tests.servers.fault_proxy.proxy import FaultProxy, http_fault_proxy
from tests.servers.gcs.server import gcs_server

pytestmark = pytest.mark.soak
FILES = 2


@contextmanager
def _azure() -> Iterator[tuple[str, StorageSettings]]:
    with azurite() as server:
        server.create_container("faults")
        yield server.url, together(server.settings())


@contextmanager
def _google() -> Iterator[tuple[str, StorageSettings]]:
    with gcs_server() as server:
        server.create_bucket("faults")
        yield server.endpoint_url, together(server.settings())


SERVERS = {"az": _azure, "gs": _google}


@pytest.fixture(scope="module", params=SERVERS)
def cloud(request: pytest.FixtureRequest) -> Iterator[tuple[str, StorageSettings, FaultProxy]]:
    """Its scheme, what reaches it, and a proxy in front of it."""
    with SERVERS[request.param]() as (url, settings), http_fault_proxy(url) as proxy:
        yield request.param, settings, proxy


@pytest.fixture
def road(
    place: Place, cloud: tuple[str, StorageSettings, FaultProxy], hire: Hire, database_proxy: FaultProxy | None
) -> Iterator[Road]:
    scheme, settings, proxy = cloud
    if place.settings is not None:
        settings = replace(settings, s3=place.settings.s3)
    # Time runs as it does: a cloud's clock cannot be made to seem faster.
    own = replace(place, root=f"{scheme}://faults/{random_id()}", settings=settings, haste=None, honoured=HONEST)
    reached = replace(own.by_way_of(proxy.url), honoured=None)
    if database_proxy is not None:
        reached = through(reached, database_proxy)
    yield Road(hire(own), reached, proxy, database_proxy)
    proxy.calm()


def test_nothing_that_was_acknowledged_is_lost_or_there_twice(
    road: Road, cloud: tuple[str, StorageSettings, FaultProxy], request: pytest.FixtureRequest
) -> None:
    outcome = run(road, IN_CLOUDS[cloud[0]], files=FILES)
    print(f"{request.node.name}: {outcome}")
    assert (outcome.lost, outcome.listed_twice) == (0, 0), outcome
    assert outcome.acknowledged == WRITERS * FILES
    assert outcome.failures or not outcome.resent
    road.crew.check(orphans=None)
