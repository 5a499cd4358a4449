"""How the conformance suite opens each storage, and how it races workers on one.

A real object store joins when ``SINGERLAKE_TEST_S3_BUCKET`` is set, with ``SINGERLAKE_TEST_S3_ENDPOINT``,
``SINGERLAKE_TEST_S3_REGION``, ``SINGERLAKE_TEST_S3_ACCESS_KEY_ID`` and ``SINGERLAKE_TEST_S3_SECRET_ACCESS_KEY`` where
it needs them; everything is written below a new prefix of that bucket. Likewise Azure with
``SINGERLAKE_TEST_AZURE_CONTAINER`` and ``..._ACCOUNT_NAME``, ``..._ACCOUNT_KEY``, ``..._SAS_TOKEN`` or
``..._CONNECTION_STRING``, and Google Cloud Storage with ``SINGERLAKE_TEST_GCS_BUCKET``, and
``SINGERLAKE_TEST_GCS_ENDPOINT`` where the server is another one, and the credentials that google-auth finds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pytest

from singerlake.adapters import s3_storage
from singerlake.aws.settings import S3Settings
from singerlake.clock import SystemClock, random_id
from singerlake.storage.cloud.driver import Driver
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.drivers.azure.settings import AzureSettings
from singerlake.storage.drivers.gcs.driver import GcsDriver, GcsSettings
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.patience import Patience
from singerlake.storage.port import Storage, Written
from tests.processes.forked import FORKED
from tests.servers.azurite import Azurite
from tests.servers.gcs.server import GcsServer
from tests.servers.s3 import S3Server
from tests.storage.cloud.driver import DriverInMemory
from tests.storage.memory import MemoryStorage

Reopen = Callable[[], Storage]
Result = TypeVar("Result")


def increment(reopen: Reopen, key: str, times: int) -> None:
    """Add one to the number in an object, that often, by compare and swap. Each body has a nonce behind the number, as
    the port asks of a conditional write: a store may answer a loser so that only reading back tells."""
    storage = reopen()
    done = 0
    while done < times:
        stored = storage.get(key)
        assert stored is not None
        body = b"%d %b" % (int(stored.body.split()[0]) + 1, random_id().encode())
        if isinstance(storage.put(key, body, if_match=stored.etag), Written):
            done += 1


def create(reopen: Reopen, keys: Sequence[str]) -> list[str]:
    """The keys that this worker was the first to create."""
    storage = reopen()
    return [key for key in keys if isinstance(storage.put(key, random_id().encode(), if_absent=True), Written)]


@dataclass
class Opener:
    """One adapter under test. ``fresh`` gives an empty storage, ``reopener`` what opens the same one in a worker;
    ``processes`` is False only for a storage that lives in one process, whose workers are threads. ``page`` is how many
    keys one answer to a listing has, where there are pages."""

    fresh: Callable[[], Storage]
    reopener: Callable[[Storage], Reopen]
    processes: bool
    page: int = 100

    def race(self, storage: Storage, key: str, *, workers: int, increments: int) -> None:
        self._run(partial(increment, self.reopener(storage), key, increments), workers)

    def race_to_create(self, storage: Storage, keys: Sequence[str], *, workers: int) -> list[str]:
        won = self._run(partial(create, self.reopener(storage), keys), workers)
        return [key for each in won for key in each]

    def fill(self, storage: Storage, keys: Sequence[str]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda key: storage.put(key, b""), keys))

    def _run(self, work: Callable[[], Result], workers: int) -> list[Result]:
        pool = ProcessPoolExecutor(workers, mp_context=FORKED) if self.processes else ThreadPoolExecutor(workers)
        with pool:
            futures = [pool.submit(work) for _ in range(workers)]
            return [future.result() for future in futures]


def open_local(root: str) -> Storage:
    return LocalStorage(root, clock=SystemClock(), ids=random_id)


def local(request: pytest.FixtureRequest) -> Opener:
    folder = request.getfixturevalue("tmp_path_factory").mktemp("conformance")
    return Opener(
        fresh=lambda: open_local(str(folder / random_id())),
        reopener=lambda storage: partial(open_local, storage.url),
        processes=True,
    )


def memory(request: pytest.FixtureRequest) -> Opener:
    return Opener(
        fresh=lambda: MemoryStorage(clock=SystemClock(), ids=random_id),
        reopener=lambda storage: lambda: storage,
        processes=False,
    )


def open_azure(container: str, prefix: str, settings: AzureSettings) -> Storage:
    driver = AzureDriver(container, prefix, settings)
    return CloudStorage(driver, Patience(60, SystemClock(), place=driver.place), probe_max_wait=60, ids=random_id)


def _azure_opener(container: str, folder: str, settings: AzureSettings) -> Opener:
    return Opener(
        fresh=lambda: open_azure(container, f"{folder}/{random_id()}", settings),
        reopener=lambda storage: partial(
            open_azure, container, storage.url.removeprefix(f"az://{container}/"), settings
        ),
        processes=True,
    )


def azure(request: pytest.FixtureRequest) -> Opener:
    server: Azurite = request.getfixturevalue("azurite_session")
    container = server.create_container(f"conformance-{random_id()}")
    return _azure_opener(container, "a lake/%41", server.settings())


def real_azure(request: pytest.FixtureRequest) -> Opener:
    settings = AzureSettings(
        account_name=os.environ.get("SINGERLAKE_TEST_AZURE_ACCOUNT_NAME"),
        account_key=os.environ.get("SINGERLAKE_TEST_AZURE_ACCOUNT_KEY"),
        sas_token=os.environ.get("SINGERLAKE_TEST_AZURE_SAS_TOKEN"),
        connection_string=os.environ.get("SINGERLAKE_TEST_AZURE_CONNECTION_STRING"),
    )
    container, folder = os.environ["SINGERLAKE_TEST_AZURE_CONTAINER"], f"singerlake-test/{random_id()}"
    return replace(_azure_opener(container, folder, settings), page=5000)


def clouds(request: pytest.FixtureRequest) -> Opener:
    return _driven(DriverInMemory)


def clouds_unordered(request: pytest.FixtureRequest) -> Opener:
    return _driven(partial(DriverInMemory, lists_in_order=False))


def _driven(driver: Callable[[], Driver]) -> Opener:
    return Opener(
        fresh=lambda: CloudStorage(
            driver(), Patience(0, SystemClock(), place="memory"), probe_max_wait=0, ids=random_id
        ),
        reopener=lambda storage: lambda: storage,
        processes=False,
    )


def open_s3(bucket: str, prefix: str, settings: S3Settings) -> Storage:
    return s3_storage(bucket, prefix, settings, clock=SystemClock(), ids=random_id)


def _s3_opener(bucket: str, folder: str, settings: S3Settings) -> Opener:
    return Opener(
        fresh=lambda: open_s3(bucket, f"{folder}/{random_id()}", settings),
        reopener=lambda storage: partial(open_s3, bucket, storage.url.removeprefix(f"s3://{bucket}/"), settings),
        processes=True,
    )


def s3(request: pytest.FixtureRequest) -> Opener:
    server: S3Server = request.getfixturevalue("s3_session")
    bucket = server.create_bucket(f"conformance-{random_id()}")
    return _s3_opener(bucket, "a lake/%41", server.settings())


def real_s3(request: pytest.FixtureRequest) -> Opener:
    given = {name: os.environ.get(f"SINGERLAKE_TEST_S3_{name}") for name in REAL_S3_VARIABLES}
    settings = S3Settings(
        endpoint_url=given["ENDPOINT"],
        region=given["REGION"],
        access_key_id=given["ACCESS_KEY_ID"],
        secret_access_key=given["SECRET_ACCESS_KEY"],
    )
    bucket, folder = os.environ["SINGERLAKE_TEST_S3_BUCKET"], f"singerlake-test/{random_id()}"
    return replace(_s3_opener(bucket, folder, settings), page=1000)


def open_gcs(bucket: str, prefix: str, settings: GcsSettings) -> Storage:
    driver = GcsDriver(bucket, prefix, settings)
    patience = Patience(settings.patience_seconds, SystemClock(), place=driver.place)
    return CloudStorage(driver, patience, probe_max_wait=60.0, ids=random_id)


def _gcs_opener(bucket: str, folder: str, settings: GcsSettings) -> Opener:
    return Opener(
        fresh=lambda: open_gcs(bucket, f"{folder}/{random_id()}", settings),
        reopener=lambda storage: partial(open_gcs, bucket, storage.url.removeprefix(f"gs://{bucket}/"), settings),
        processes=True,
    )


def gcs(request: pytest.FixtureRequest) -> Opener:
    server: GcsServer = request.getfixturevalue("gcs_session")
    bucket = server.create_bucket(f"conformance-{random_id()}")
    return _gcs_opener(bucket, "a lake/%41", server.settings())


def real_gcs(request: pytest.FixtureRequest) -> Opener:
    settings = GcsSettings(endpoint_url=os.environ.get("SINGERLAKE_TEST_GCS_ENDPOINT"))
    bucket, folder = os.environ["SINGERLAKE_TEST_GCS_BUCKET"], f"singerlake-test/{random_id()}"
    return replace(_gcs_opener(bucket, folder, settings), page=1000)


REAL_S3_VARIABLES = ("ENDPOINT", "REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
FACTORIES: dict[str, Callable[[pytest.FixtureRequest], Opener]] = {
    "azure": azure,
    "clouds": clouds,
    "clouds_unordered": clouds_unordered,
    "local": local,
    "memory": memory,
    "s3": s3,
    "gcs": gcs,
}
if "SINGERLAKE_TEST_S3_BUCKET" in os.environ:
    FACTORIES["real_s3"] = real_s3
if "SINGERLAKE_TEST_AZURE_CONTAINER" in os.environ:
    FACTORIES["real_azure"] = real_azure
if "SINGERLAKE_TEST_GCS_BUCKET" in os.environ:
    FACTORIES["real_gcs"] = real_gcs
