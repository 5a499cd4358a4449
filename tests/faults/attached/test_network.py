"""A network in front of S3 that loses, repeats, delays and shortens what carries attached files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.errors import CorruptObjectError, SingerlakeError
from tests.servers.fault_proxy.proxy import FaultProxy
from tests.servers.s3 import S3Server
from tests.target.attached.files import START, is_sound, objects, person, photo, row, rows, settings
from tests.target.support import ingest, state

OBJECT = r"^PUT .*/_files/"
SOURCE = r"^GET .*/photos/"
SIZES = (10, 2 << 20, 70 << 20)
"""One is kept in memory until it is in the lake, the others in the spool; the last one goes up in parts."""


@pytest.fixture
def proxy(s3_proxy: FaultProxy, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    yield s3_proxy
    s3_proxy.calm()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.create_bucket(f"attached-{random_id()}")


def reach(s3: S3Server, proxy: FaultProxy) -> dict[str, Any]:
    return s3.config(s3_endpoint_url=proxy.url, patience_seconds=20)


FAULTS: dict[str, Any] = {
    "lost": lambda proxy, what: proxy.drop(what, after=True),
    "not sent": lambda proxy, what: proxy.drop(what, after=False),
    "busy": lambda proxy, what: proxy.error(what, status=503, code="SlowDown"),
    "busy after": lambda proxy, what: proxy.error(what, status=503, code="SlowDown", after=True),
    "twice": lambda proxy, what: proxy.twice(what),
    "cut request": lambda proxy, what: proxy.cut_request(what),
    "cut reply": lambda proxy, what: proxy.cut_reply(what),
}


@pytest.mark.crossed("fault", "size")
@pytest.mark.parametrize("size", SIZES[:2])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_object_is_there_whole_whatever_happens_to_its_request(
    tmp_path: Path, s3: S3Server, proxy: FaultProxy, bucket: str, fault: str, size: int
) -> None:
    root = f"s3://{bucket}/lake"
    people = [person(at, photo=photo(tmp_path, f"{at}.jpg", bytes([at]) * size)[0]) for at in range(3)]
    made = FAULTS[fault](proxy, OBJECT)
    emitted = ingest(root, [START, *people, state({"at": 3})], **settings(tmp_path), **reach(s3, proxy))
    assert emitted == ['{"at": 3}']
    assert made.hits == 1
    assert len(rows(root)) == len(objects(root)) == 3
    is_sound(root)


@pytest.mark.parametrize("size", SIZES[:2])
def test_an_object_that_was_cut_on_its_way_is_not_listed(
    tmp_path: Path, s3: S3Server, proxy: FaultProxy, bucket: str, size: int
) -> None:
    root = f"s3://{bucket}/lake"
    path, _ = photo(tmp_path, "a.jpg", bytes(size))
    proxy.truncate(OBJECT)
    with pytest.raises(SingerlakeError) as caught:
        ingest(root, [START, person(1, photo=path), state({"at": 1})], **settings(tmp_path), **reach(s3, proxy))
    assert "bytes" in str(caught.value) or "another size" in str(caught.value)
    # A half that nobody lists stays in the way, under a name that says what it is not.
    with pytest.raises(CorruptObjectError, match="move it away"):
        ingest(root, [START, person(1, photo=path)], **settings(tmp_path), **reach(s3, proxy))


@pytest.mark.crossed("fault", "size")
@pytest.mark.parametrize("size", SIZES[:2])
@pytest.mark.parametrize("fault", ["not sent", "busy", "cut reply"])
def test_a_source_in_a_bucket_is_read_whole_over_such_a_network(
    tmp_path: Path, s3: S3Server, proxy: FaultProxy, bucket: str, fault: str, size: int
) -> None:
    source, body = f"s3://{bucket}/photos/a.jpg", bytes(range(250)) * (size // 250 + 1)
    s3.client().put_object(Bucket=bucket, Key="photos/a.jpg", Body=body)
    made = FAULTS[fault](proxy, SOURCE)
    lines = [START, person(1, photo=source)]
    ingest(tmp_path, lines, **settings(f"s3://{bucket}/photos"), **reach(s3, proxy))
    assert made.hits == 1
    assert rows(tmp_path) == [row(0, source, body, "image/jpeg")]
    is_sound(tmp_path)


@pytest.mark.thorough
def test_a_file_that_goes_up_in_parts_survives_lost_replies_of_them(
    tmp_path: Path, s3: S3Server, proxy: FaultProxy, bucket: str
) -> None:
    root = f"s3://{bucket}/lake"
    path, _ = photo(tmp_path, "a.bin", bytes(SIZES[2]))
    proxy.drop(OBJECT, after=True, times=2)
    ingest(root, [START, person(1, photo=path)], **settings(tmp_path), **reach(s3, proxy))
    is_sound(root)
