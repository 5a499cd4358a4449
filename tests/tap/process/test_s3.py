"""The tap over a lake on S3, by HTTP."""

from __future__ import annotations

import json

import pytest

from singerlake.errors import AccessDeniedError, NoSuchBucketError
from singerlake.lake import Lake
from tests.lakes import build_stream
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.tap.runs import V1, discover, replay, run_process


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
def bucket_lake(s3: S3Server, settings: dict[str, str], request: pytest.FixtureRequest) -> str:
    root = f"s3://lake/{request.node.name}"
    lake = Lake.open(root, s3.settings())
    records = [{"id": number} for number in range(90)]
    build_stream(lake, "tap-a", "a stream", V1, records, file_size=40, member_size=4, key_properties=["id"])
    return root


def test_a_lake_on_s3_is_discovered_and_replayed(bucket_lake, settings):
    out = replay(bucket_lake, catalog=discover(bucket_lake, **settings), **settings)
    assert [record["id"] for record in out.records()] == list(range(90))


def test_a_bookmark_seeks_instead_of_reading_what_was_read(s3, bucket_lake, settings):
    state = replay(bucket_lake, max_records=85, **settings).state
    s3.requests()
    rest = replay(bucket_lake, state=state, **settings)
    assert [record["id"] for record in rest.records()] == list(range(85, 90))
    read = {seen.headers.get("range", "") for seen in s3.requests() if seen.path.endswith(".singer.gz")}
    file = Lake.open(bucket_lake, s3.settings()).stream("tap-a", "a stream").snapshot().files[-1]
    (first, _), (second, _) = file.members[:2]
    assert read == {f"bytes=0-{first - 1}", f"bytes={second}-{file.bytes}"}, "the SCHEMA message, then on from there"


@pytest.mark.parametrize(
    ("store", "wanted"),
    [
        ("lockfile", ["GET ?list", "GET manifest.json"]),
        ("log", ["GET ?list", "GET manifest.json", "GET ?list"]),
    ],
)
def test_that_there_is_nothing_new_is_known_after_at_most_three_requests(s3, settings, store, wanted):
    s3.create_bucket("one")
    lake = Lake.open(f"s3://one/{store}", s3.settings())
    lake.lake_id(store)
    build_stream(lake, "tap-a", "a stream", V1, [{"id": number} for number in range(9)], key_properties=["id"])
    writer = lake.stream("tap-a", "a stream").writer(writer_id="a-test")
    writer.open()
    writer.finish()
    state = replay(lake.storage.url, **settings).state
    s3.requests()
    assert replay(lake.storage.url, state=state, **settings).of("RECORD") == []
    assert requested(s3) == wanted
    build_stream(lake, "tap-a", "another", V1, [{"id": 1}], key_properties=["id"])
    replay(lake.storage.url, state=state, **settings)
    s3.requests()
    replay(lake.storage.url, state=state, streams=["a stream"], **settings)
    assert requested(s3) == ["GET ?list", "GET catalogue.json", *wanted[1:]]


def test_small_files_are_read_in_one_request_each(s3, bucket_lake, settings):
    replay(bucket_lake, **settings)
    assert sorted(requested(s3)[-3:]) == ["GET .singer.gz"] * 3


def requested(s3: S3Server) -> list[str]:
    """The requests since the last call: what was done, to which kind of object."""
    return [f"{seen.method} {'?list' if 'list-type' in seen.query else kind(seen.path)}" for seen in s3.requests()]


def kind(path: str) -> str:
    name = path.rpartition("/")[2]
    return ".singer.gz" if name.endswith(".singer.gz") else name


def test_a_process_replays_from_s3(bucket_lake, settings, tmp_path):
    result = run_process(tmp_path, {"lake_root": bucket_lake, "tap_id": "tap-a", **settings})
    assert result.returncode == 0
    assert [json.loads(line)["type"] for line in result.stdout.splitlines()].count("RECORD") == 90
    assert SECRET_ACCESS_KEY.encode() not in result.stderr


def test_a_bucket_that_is_not_there_is_an_error(settings):
    with pytest.raises(NoSuchBucketError):
        replay("s3://no-such-bucket-here/lake", **settings)


def test_a_refusal_is_an_error_that_holds_no_secret(s3, bucket_lake, settings):
    s3.fail("GET", status=403, code="AccessDenied", times=-1)
    with pytest.raises(AccessDeniedError) as raised:
        replay(bucket_lake, **settings)
    assert SECRET_ACCESS_KEY not in str(raised.value)


def test_a_connection_that_breaks_in_the_middle_of_a_file_costs_no_message(s3, bucket_lake, settings):
    s3.truncate(times=2, key_contains=".singer.gz")
    out = replay(bucket_lake, **settings)
    assert [record["id"] for record in out.records()] == list(range(90))
