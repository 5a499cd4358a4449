"""Ten thousand attached files, read as bytes by the tasks of two workers."""

from __future__ import annotations

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
LARGE = 1 << 20
"""Bytes of every hundredth file, as of a photo; the others hold little more than their number."""


def body(number: int) -> bytes:
    text = f"photo {number} "
    return (text * (LARGE // len(text)) if number % 100 == 0 else text).encode()


@pytest.fixture(scope="module")
def driver(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with cluster(tmp_path_factory.mktemp("cluster"), java.home) as machines, machines.driver({}, {}) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    def write(storage: Storage, key: str, data: bytes, _: int) -> None:
        # As it is written by a target, but for what makes it outlive a power cut.
        path = Path(storage.url, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    monkeypatch.setattr(lakes, "put_attached", write)
    lake = Lake.open(str(tmp_path / "lake"))
    attach(lake, "t", "photos", [[body(number)] for number in range(COUNT)], file_size=4000, member_size=500)
    return lake


def test_both_workers_read_every_file_once(driver: Driver, lake: Lake) -> None:
    sizes = sum(len(body(number)) for number in range(COUNT))
    options = {"path": lake.storage.url, "tap": "t", "stream": "photos"}
    assert driver.files(options) == [COUNT, sizes, COUNT, 2]

    gone = f"raw/t/photos/_files/{sha256(body(7))[:2]}/{sha256(body(7))}"
    lake.storage.delete(gone)
    with pytest.raises(Failed, match=f"MissingFileError: an attached file is gone.*{gone}"):
        driver.files(options)
