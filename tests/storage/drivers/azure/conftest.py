"""A container of the test's own on Azurite, storages on it, and a bad network in front of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure.driver import AzureDriver
from tests.servers.azurite import ACCOUNT, Azurite
from tests.servers.fault_proxy.proxy import FaultProxy, http_fault_proxy
from tests.storage.buckets import PatientlessClock
from tests.storage.drivers.azure.opening import Make, opened


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have an account of their own in the environment."""
    for name in ("CONNECTION_STRING", "ACCOUNT", "ACCOUNT_NAME", "KEY", "ACCOUNT_KEY", "SAS_TOKEN"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


@pytest.fixture(scope="module")
def proxied(azurite_session: Azurite) -> Iterator[FaultProxy]:
    with http_fault_proxy(azurite_session.url) as running:
        yield running


@pytest.fixture
def proxy(proxied: FaultProxy) -> Iterator[FaultProxy]:
    """In front of the shared server, free of faults before and after the test."""
    proxied.calm()
    yield proxied
    proxied.calm()


@pytest.fixture
def clock() -> PatientlessClock:
    return PatientlessClock()


@pytest.fixture
def container(azurite_session: Azurite) -> str:
    return azurite_session.create_container(f"c-{random_id()}")


@pytest.fixture
def make(azurite_session: Azurite, container: str, proxy: FaultProxy, clock: PatientlessClock) -> Make:
    """Storages on the container, behind the proxy."""

    def build(**settings: object) -> CloudStorage:
        given = azurite_session.settings(**{"endpoint_url": f"{proxy.url}/{ACCOUNT}", **settings})
        return opened(AzureDriver(container, "lake", given), clock)

    return build


@pytest.fixture
def storage(make: Make) -> CloudStorage:
    return make()
