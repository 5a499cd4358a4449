"""Google Cloud Storage behind a network that cuts, delays and repeats what passes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from singerlake import errors
from singerlake.clock import SystemClock
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.port import Refused
from tests.servers.fault_proxy.proxy import FaultProxy, http_fault_proxy
from tests.servers.gcs.server import GcsServer
from tests.storage.buckets import body, written
from tests.storage.drivers.gcs.conftest import on


@pytest.fixture(scope="module")
def proxy(gcs_session: GcsServer) -> Iterator[FaultProxy]:
    with http_fault_proxy(gcs_session.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def storage(gcs: GcsServer, bucket: str, proxy: FaultProxy) -> Iterator[CloudStorage]:
    yield on(bucket, gcs.settings(endpoint_url=proxy.url), SystemClock())
    proxy.calm()


@pytest.mark.parametrize("fault", ["cut_reply", "cut_request", "truncate", "lost", "reset"])
def test_a_create_is_done_once(proxy: FaultProxy, storage: CloudStorage, fault: str) -> None:
    met = {
        "cut_reply": lambda: proxy.cut_reply("POST .*upload"),
        "cut_request": lambda: proxy.cut_request("POST .*upload"),
        "truncate": lambda: proxy.truncate("POST .*upload"),
        "lost": lambda: proxy.drop("POST .*upload", after=True),
        "reset": lambda: proxy.drop("POST .*upload", after=False),
    }[fault]()
    if fault == "truncate":
        # Half of the body is no upload at all.
        with pytest.raises(errors.SingerlakeError):
            storage.put("a", b"mine" * 1000, if_absent=True)
        assert storage.get("a") is None
    else:
        written(storage.put("a", b"mine" * 1000, if_absent=True))
        assert body(storage, "a") == b"mine" * 1000
        assert isinstance(storage.put("a", b"again", if_absent=True), Refused)
    assert met.hits == 1


def test_a_body_without_its_last_byte_is_asked_for_again(proxy: FaultProxy, storage: CloudStorage) -> None:
    storage.put("a", b"1234567890" * 1000)
    for match, read in (
        ("GET .*alt=media", lambda: body(storage, "a")),
        ("GET .*alt=media", lambda: storage.read_range("a", 0, 10_000)),
        ("GET .*list|GET .*/o\\?", lambda: [entry.size for entry in storage.list("")]),
        ("GET .*/o/", lambda: storage.head("a")),
    ):
        met = proxy.cut_reply(match)
        assert read() in (b"1234567890" * 1000, [10_000], storage.head("a"))
        assert met.hits == 1


def test_a_write_that_is_late_does_not_undo_a_later_one(proxy: FaultProxy, storage: CloudStorage) -> None:
    etag = written(storage.put("a", b"0"))
    late = proxy.late("POST .*upload")
    written(storage.put("a", b"1", if_match=etag))
    late.release()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(late.wait_for, 0).result()
    assert body(storage, "a") == b"1"


def test_a_reply_that_is_late_is_waited_for(proxy: FaultProxy, storage: CloudStorage) -> None:
    held = proxy.park("POST .*upload", after=True)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(storage.put, "a", b"1", if_absent=True)
        held.wait_for()
        assert body(storage, "a") == b"1"
        held.release()
        written(writing.result())


def test_a_request_that_a_balancer_sent_twice_is_not_taken_for_a_foreign_one(
    proxy: FaultProxy, storage: CloudStorage
) -> None:
    etag = written(storage.put("a", b"1"))
    proxy.twice("DELETE ")
    assert storage.delete("a", if_match=etag) is True
