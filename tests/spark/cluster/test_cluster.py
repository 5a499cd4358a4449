"""Batch reads on a real cluster: tasks in other processes, with other environments, that die, or find files gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.spark.java import Java
from tests.attached.lakes import attach, sha256
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.spark.cluster.cluster import Cluster, Driver, Failed, cluster

# Several Javas have to start, on machines that may be busy with other tests.
pytestmark = [pytest.mark.timeout(900), pytest.mark.thorough]

SCHEMA = {"properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
    "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
    "AWS_DEFAULT_REGION": REGION,
}
ROWS = 12_000
TOTALS = [ROWS, ROWS * (ROWS - 1) // 2, ROWS]


@pytest.fixture(scope="module")
def machines(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster"), java.home) as running:
        yield running


@pytest.fixture(scope="module")
def driver(machines: Cluster) -> Iterator[Driver]:
    """An application whose driver alone has credentials of S3 in its environment."""
    with machines.driver({}, CREDENTIALS) as running:
        yield running


def fill(lake: Lake) -> None:
    """Two files of about 12 MB of text, of 12 members each."""
    records = ({"id": n, "text": f"{n:2000d}"} for n in range(ROWS))
    build_stream(lake, "tap", "big", SCHEMA, records, file_size=ROWS // 2, member_size=500)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    fill(lake)
    return lake


def options(lake: Lake, **more: str) -> dict[str, str]:
    return {"path": lake.storage.url, "tap": "tap", "stream": "big", "partition_bytes": "4000000", **more}


def test_both_workers_read_and_every_record_comes_once(driver: Driver, lake: Lake) -> None:
    assert driver.totals(options(lake)) == [*TOTALS, 2]


@pytest.mark.parametrize("victim", ["executor", "python"])
def test_a_task_that_dies_in_mid_read_is_run_again_and_its_rows_count_once(
    driver: Driver, lake: Lake, tmp_path: Path, victim: str
) -> None:
    struck = tmp_path / "struck"
    assert driver.totals(options(lake), event=f"kill {victim}", path=str(struck))[:3] == TOTALS
    assert struck.exists()


def test_a_file_gone_in_mid_read_fails_the_job_with_its_name(driver: Driver, lake: Lake) -> None:
    last = lake.stream("tap", "big").snapshot().files[-1]
    path = Path(lake.storage.url) / layout.stream_prefix("tap", "big") / last.path
    with pytest.raises(Failed) as raised:
        driver.totals(options(lake), event="remove file", path=str(path))
    assert "MissingFileError: a data file is gone" in str(raised.value)
    assert "load it again" in str(raised.value)
    assert last.path in str(raised.value)


def test_attached_files_are_read_by_both_workers_each_once(driver: Driver, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    bodies = [f"photo {number} ".encode() * 2000 for number in range(1000)]
    for first in range(0, len(bodies), 250):
        photos = [[body] for body in bodies[first : first + 250]]
        attach(lake, "t", "photos", photos, member_size=50, first_id=first)
    options = {"path": lake.storage.url, "tap": "t", "stream": "photos"}
    assert driver.files(options) == [len(bodies), sum(map(len, bodies)), len(bodies), 2]

    gone = f"raw/t/photos/_files/{sha256(bodies[7])[:2]}/{sha256(bodies[7])}"
    lake.storage.delete(gone)
    with pytest.raises(Failed, match=f"MissingFileError: an attached file is gone.*{gone}"):
        driver.files(options)


@pytest.fixture
def s3_lake(s3: S3Server) -> Lake:
    s3.create_bucket("cluster")
    lake = Lake.open("s3://cluster/lake", s3.settings())
    if not lake.exists():
        fill(lake)
    return lake


def test_a_worker_without_credentials_says_which_settings_to_set(driver: Driver, s3: S3Server, s3_lake: Lake) -> None:
    with pytest.raises(Failed) as raised:
        driver.totals(options(s3_lake, s3_endpoint_url=s3.endpoint_url))
    assert "AccessDeniedError: there are no complete credentials; set aws_access_key_id" in str(raised.value)
    assert SECRET_ACCESS_KEY not in str(raised.value)
