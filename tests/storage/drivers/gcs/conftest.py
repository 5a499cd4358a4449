"""A bucket of the test's own on a server that speaks the API of Google Cloud Storage, and storages on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from singerlake.clock import Clock, random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.gcs.driver import GcsDriver, GcsSettings
from singerlake.storage.patience import Patience
from tests.servers.gcs.server import GcsServer
from tests.storage.buckets import PatientlessClock

MakeGcs = Callable[..., CloudStorage]


def on(
    bucket: str, settings: GcsSettings, clock: Clock, *, prefix: str = "lake", probe_max_wait: float = 60.0
) -> CloudStorage:
    """A storage in a bucket."""
    driver = GcsDriver(bucket, prefix, settings)
    patience = Patience(settings.patience_seconds, clock, place=driver.place)
    return CloudStorage(driver, patience, probe_max_wait=probe_max_wait, ids=random_id)


@pytest.fixture
def bucket(gcs: GcsServer) -> str:
    """A bucket that nothing was learned of."""
    return gcs.create_bucket(f"bucket-{random_id()}")


@pytest.fixture
def make(gcs: GcsServer, bucket: str, clock: PatientlessClock) -> MakeGcs:
    """Storages on the test's bucket."""

    def build(probe_max_wait: float = 60.0, **settings: object) -> CloudStorage:
        return on(bucket, gcs.settings(**settings), clock, probe_max_wait=probe_max_wait)

    return build


@pytest.fixture
def storage(make: MakeGcs) -> CloudStorage:
    return make()
