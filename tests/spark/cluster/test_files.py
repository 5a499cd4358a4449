"""Ten thousand attached files, read as bytes by the tasks of two workers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.spark.java import Java
from singerlake.storage.port import Storage
from tests.attached import lakes
from tests.attached.lakes import attach, sha256
from tests.spark.cluster.cluster import Driver, Failed, cluster

# Several Javas have to start, on machines that may be busy with other tests.
pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

COUNT = 10_000
BYTES = 100_000
"""About as many as a photo for the web has."""
AT_ONCE = 1000
"""Photos of a data file, which are made together."""


def body(number: int) -> bytes:
    text = f"photo {number} "
    return (text * (BYTES // len(text))).encode()


@pytest.fixture(scope="module")
def driver(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with cluster(tmp_path_factory.mktemp("cluster"), java.home) as machines, machines.driver({}, {}) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """It is removed at once: a gigabyte is too much for what pytest leaves behind."""

    def write(storage: Storage, key: str, data: bytes, _: int) -> None:
        # As it is written by a target, but for what makes it outlive a power cut.
        path = Path(storage.url, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    monkeypatch.setattr(lakes, "put_attached", write)
    lake = Lake.open(str(tmp_path / "lake"))
    for first in range(0, COUNT, AT_ONCE):
        photos = [[body(number)] for number in range(first, first + AT_ONCE)]
        attach(lake, "t", "photos", photos, member_size=500, first_id=first)
    yield lake
    shutil.rmtree(lake.storage.url)


def test_both_workers_read_every_file_once(driver: Driver, lake: Lake) -> None:
    sizes = sum(len(body(number)) for number in range(COUNT))
    options = {"path": lake.storage.url, "tap": "t", "stream": "photos"}
    assert driver.files(options) == [COUNT, sizes, COUNT, 2]

    gone = f"raw/t/photos/_files/{sha256(body(7))[:2]}/{sha256(body(7))}"
    lake.storage.delete(gone)
    with pytest.raises(Failed, match=f"MissingFileError: an attached file is gone.*{gone}"):
        driver.files(options)
