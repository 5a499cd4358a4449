"""The tap over a lake on S3 with erased records: no request more than without."""

from __future__ import annotations

import pytest

from singerlake.lake import Lake
from tests.everywhere.erasing import erase
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.tap.process.test_s3 import requested
from tests.tap.runs import V1, replay

GONE = [3, *range(40, 80), *range(86, 90)]


@pytest.fixture
def settings(s3: S3Server) -> dict[str, str]:
    s3.create_bucket("lake")
    return {
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_region": REGION,
        "s3_endpoint_url": s3.endpoint_url,
    }


@pytest.fixture
def bucket_lake(s3: S3Server, settings: dict[str, str], request: pytest.FixtureRequest) -> Lake:
    """Ids 0 to 89 in three files, of which the second one and the end of the last are to be holes."""
    lake = Lake.open(f"s3://lake/{request.node.name}", s3.settings())
    records = [{"id": number} for number in range(90)]
    build_stream(lake, "tap-a", "s", V1, records, file_size=40, member_size=4, key_properties=["id"])
    return lake


def test_that_there_is_nothing_new_behind_holes_is_known_as_before(s3, bucket_lake, settings):
    root = bucket_lake.storage.url
    state = replay(root, **settings).state
    s3.requests()
    replay(root, state=state, **settings)
    before = requested(s3)
    erase(bucket_lake, "tap-a", "s", GONE, now=True)
    s3.requests()
    assert replay(root, state=state, **settings).of("RECORD") == []
    assert requested(s3) == before
    out = replay(root, **settings)
    assert [record["id"] for record in out.records()] == [at for at in range(90) if at not in GONE]
    s3.requests()
    assert replay(root, state=out.state, **settings).of("RECORD") == []
    assert requested(s3) == before


def test_a_replay_asks_for_as_much_as_before(s3, bucket_lake, settings):
    root = bucket_lake.storage.url
    s3.requests()
    replay(root, **settings)
    before = requested(s3)
    erase(bucket_lake, "tap-a", "s", GONE, now=True)
    s3.requests()
    replay(root, **settings)
    assert sorted(requested(s3)) == sorted(before)


def test_a_bookmark_behind_holes_seeks(s3, bucket_lake, settings):
    erase(bucket_lake, "tap-a", "s", [*range(80, 85)], now=True)
    root = bucket_lake.storage.url
    state = replay(root, max_records=81, **settings).state
    assert state["bookmarks"]["s"]["offset"] == 86
    s3.requests()
    rest = replay(root, state=state, **settings)
    assert [record["id"] for record in rest.records()] == [86, 87, 88, 89]
    read = {seen.headers.get("range", "") for seen in s3.requests() if seen.path.endswith(".singer.gz")}
    file = bucket_lake.stream("tap-a", "s").snapshot().files[-1]
    (first, _), (second, _) = file.members[:2]
    assert read == {f"bytes=0-{first - 1}", f"bytes={second}-{file.bytes}"}
