"""A bucket of the test's own on a real S3 server, and storages on it."""

from __future__ import annotations

import pytest

from singerlake.adapters import s3_storage
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from tests.servers.s3 import S3Server
from tests.storage.buckets import Make, PatientlessClock


@pytest.fixture
def clock() -> PatientlessClock:
    return PatientlessClock()


@pytest.fixture
def make(s3: S3Server, clock: PatientlessClock) -> Make:
    """Storages on a bucket of the test's own, so that nothing learned of another bucket matters."""
    bucket = s3.create_bucket(f"bucket-{random_id()}")

    def build(**settings: object) -> CloudStorage:
        return s3_storage(bucket, "lake", s3.settings(**settings), clock=clock, ids=random_id)

    return build


@pytest.fixture
def storage(make: Make) -> CloudStorage:
    return make()
