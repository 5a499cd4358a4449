"""Vacuuming a lake in S3: what the server copies by itself, what is fetched, and what goes wrong on the way."""

from __future__ import annotations

import gzip
import os
import uuid

import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.vacuum.vacuum import Vacuumed, vacuum_stream
from singerlake.upkeep.verify import verify_stream
from tests.lakes import build_stream, record_line
from tests.servers.s3 import ALWAYS, S3Server
from tests.upkeep.shelf import SCHEMA

MIB = 1 << 20


@pytest.fixture
def lake(s3: S3Server) -> Lake:
    bucket = s3.create_bucket(f"vacuum-{uuid.uuid4().hex[:12]}")
    return Lake.open(f"s3://{bucket}/a lake/%41", s3.settings())


def fill(lake: Lake, *sizes: int) -> list[bytes]:
    """A file of one record for each size, about so many stored bytes; the messages."""
    lines = [record_line("s", {"n": n, "text": os.urandom(size).hex()}) for n, size in enumerate(sizes)]
    build_stream(lake, "t", "s", SCHEMA, lines, file_size=1)
    return lines


def vacuum(lake: Lake) -> Vacuumed:
    store = lake.stream("t", "s").store()
    return vacuum_stream(
        StreamContext(lake.storage, "t", "s", lake.clock, lake.ids, store), target_bytes=64 * MIB, threads=2
    )


def check(lake: Lake, lines: list[bytes]) -> None:
    stream = lake.stream("t", "s")
    (file,) = stream.snapshot().files
    stored = lake.storage.get(stream.prefix + file.path)
    assert stored is not None
    assert [line for line in gzip.decompress(stored.body).splitlines() if b'"SCHEMA"' not in line] == lines
    found = verify_stream(lake.storage, "t", "s", stream.state).findings
    assert [finding for finding in found if finding.kind != "unlisted"] == []


def test_a_server_that_looks_for_sources_under_other_names_is_sent_them(s3: S3Server, lake: Lake) -> None:
    lines = fill(lake, 6 * MIB, 6 * MIB)
    assert "%" in lake.storage.url
    s3.decode_copy_sources_twice()
    assert vacuum(lake).into.files == 1
    check(lake, lines)


def test_the_server_copies_what_is_large_enough_by_itself(s3: S3Server, lake: Lake) -> None:
    lines = fill(lake, 12 * MIB, 6 * MIB, 1000, 2000, 11 * MIB)
    s3.requests()
    assert vacuum(lake).into.files == 1
    copies = [request for request in s3.requests() if "x-amz-copy-source" in request.headers]
    # The first file gives up 5 MiB to fill the part that begins with what the joined file says of itself.
    assert [int(end) - int(start) + 1 > 5 * MIB for start, end in map(span, copies)] == [True] * 3
    check(lake, lines)


def span(request: object) -> list[str]:
    headers = request.headers  # type: ignore[attr-defined]
    return str(headers["x-amz-copy-source-range"]).removeprefix("bytes=").split("-")


def test_small_files_are_fetched_and_sent(s3: S3Server, lake: Lake) -> None:
    lines = fill(lake, *[3000] * 12)
    s3.requests()
    assert vacuum(lake).into.files == 1
    requests = s3.requests()
    assert not any("x-amz-copy-source" in request.headers for request in requests)
    assert sum(request.method == "PUT" and request.path.endswith(".gz") for request in requests) == 1
    check(lake, lines)


def test_a_joined_file_whose_reply_is_lost_is_made_once(s3: S3Server, lake: Lake) -> None:
    lines = fill(lake, *[3000] * 3)
    s3.drop_reply("PUT", key_contains=".singer.gz")
    assert vacuum(lake).into.files == 1
    check(lake, lines)


def test_storms_are_weathered(s3: S3Server, lake: Lake) -> None:
    lines = fill(lake, 6 * MIB, 7 * MIB, 8 * MIB)
    s3.fail("PUT,GET,POST", status=503, code="SlowDown", times=3, key_contains=".singer.gz")
    assert vacuum(lake).into.files == 1
    check(lake, lines)


def test_a_server_that_takes_nothing_is_named_and_nothing_is_replaced(s3: S3Server, lake: Lake) -> None:
    lines = fill(lake, *[3000] * 3)
    lake = Lake.open(lake.storage.url, s3.settings(patience_seconds=0))
    s3.fail("PUT", status=503, code="SlowDown", times=ALWAYS, key_contains=".singer.gz")
    with pytest.raises(StorageUnavailableError):
        vacuum(lake)
    s3.calm()
    assert len(lake.stream("t", "s").snapshot().files) == 3
    assert vacuum(lake).into.files == 1
    check(lake, lines)
