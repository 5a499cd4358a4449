"""What capture and replay of 1 GB take of the processor where the lake is in Azure or Google Cloud, against S3, and
whether counting by compare and swap loses a step there. The servers are those of the tests, in processes of their own,
and what they take is not counted."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from bench.measure import Command, Row, paired
from bench.plugins import data
from singerlake.adapters import open_storage
from singerlake.clock import random_id
from singerlake.settings import storage_settings
from singerlake.storage.port import Storage, Written
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, azurite
from tests.servers.gcs.server import gcs_server
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, s3_server

SCRIPTS = Path(sys.executable).parent
NAMES = {"az": "Azure (Azurite)", "gs": "Google Cloud (a server for tests)"}
STEPS, WRITERS = 1000, 4
RUNS = 3


def rows(cache: Path) -> Iterator[Row]:
    """Each cloud against S3 (moto)."""
    work = cache / "clouds"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with ExitStack() as running:
        s3 = running.enter_context(s3_server())
        azure = running.enter_context(azurite())
        google = running.enter_context(gcs_server())
        s3.create_bucket("lake")
        azure.create_container("lake")
        google.create_bucket("lake")
        of_s3 = {
            "lake_root": "s3://lake/flights",
            "s3_endpoint_url": s3.endpoint_url,
            "aws_access_key_id": ACCESS_KEY_ID,
            "aws_secret_access_key": SECRET_ACCESS_KEY,
            "aws_region": REGION,
        }
        of_azure = {
            "lake_root": "az://lake/flights",
            "azure_endpoint_url": f"{azure.url}/{ACCOUNT}",
            "azure_account_key": ACCOUNT_KEY,
        }
        of_google = {"lake_root": "gs://lake/flights", "gcs_endpoint_url": google.endpoint_url}
        first = _Place(work / "s3.json", of_s3)
        for name, config in (("az", of_azure), ("gs", of_google)):
            place = _Place(work / f"{name}.json", config)
            for what, command in (("capture", _Place.capture), ("replay", _Place.replay)):
                yield paired(
                    f"{what} of 1 GB, {NAMES[name]}, processor",
                    command(place),
                    "S3 (moto)",
                    command(first),
                    bound=1.3,
                    processor=True,
                    runs=RUNS,
                )
            lost = STEPS - _counted(open_storage(f"{name}://lake/count", storage_settings(config)))
            yield Row(name=f"{STEPS} steps by {WRITERS} writers, {NAMES[name]}: lost", value=lost, unit="", bound=0)
    shutil.rmtree(work, ignore_errors=True)


class _Place:
    """A lake. Each capture is that of another tap, since it would find the files of the one before."""

    def __init__(self, config: Path, settings: dict[str, str]) -> None:
        self._config = config
        self._settings = settings
        self._taps = itertools.count()

    def capture(self) -> Command:
        return self._command("target-singerlake", data.flights())

    def replay(self) -> Command:
        return self._command("tap-singerlake")

    def _command(self, plugin: str, source: Path | None = None) -> Command:
        argv = [str(SCRIPTS / plugin), "--config", str(self._config)]
        return Command(argv, stdin=source, setup=self._next_tap if source else None)

    def _next_tap(self) -> None:
        self._config.write_text(json.dumps({"tap_id": f"tap-{next(self._taps)}", **self._settings}))


def _counted(storage: Storage) -> int:
    """The number that writers come to who add one to it by compare and swap."""
    storage.put("number", b"0 first")

    def add(times: int) -> None:
        while times:
            stored = storage.get("number")
            assert stored is not None
            body = b"%d %b" % (int(stored.body.split()[0]) + 1, random_id().encode())
            times -= isinstance(storage.put("number", body, if_match=stored.etag), Written)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add, [STEPS // WRITERS] * WRITERS))
    stored = storage.get("number")
    assert stored is not None
    return int(stored.body.split()[0])
