"""The proxies do to requests what they say, and no more."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy, http_fault_proxy, postgres_fault_proxy, wait_until
from tests.servers.fault_proxy.quirks import CEPH_16
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tools.postgres import Server

BUCKET = "proxied"
KEY = "a"
WRONG = '"0123"'


@pytest.fixture(scope="module")
def shared(s3_session: S3Server) -> Iterator[FaultProxy]:
    s3_session.create_bucket(BUCKET)
    with http_fault_proxy(s3_session.endpoint_url) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared: FaultProxy, s3: S3Server) -> Iterator[FaultProxy]:
    """In front of a server with an empty bucket."""
    behind = s3.client()
    for each in behind.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        behind.delete_object(Bucket=BUCKET, Key=each["Key"])
    yield shared
    shared.calm()


@pytest.fixture
def behind(s3: S3Server) -> Any:
    """The server as it is."""
    return s3.client()


def once(url: str) -> Any:
    """A client that asks once."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY_ID,
        aws_secret_access_key=SECRET_ACCESS_KEY,
        config=Config(retries={"max_attempts": 0}, max_pool_connections=10),
    )


@pytest.fixture
def client(proxy: FaultProxy) -> Any:
    return once(proxy.url)


def answer(call: Callable[..., Any], **arguments: Any) -> tuple[int, str]:
    """Status and error code of one request."""
    try:
        reply = call(Bucket=BUCKET, **{"Key": KEY, **arguments})
    except ClientError as error:
        reply = error.response
    return reply["ResponseMetadata"]["HTTPStatusCode"], reply.get("Error", {}).get("Code", "")


def body(behind: Any, key: str = KEY) -> bytes:
    return bytes(behind.get_object(Bucket=BUCKET, Key=key)["Body"].read())


OK = (200, "")
REFUSED = (412, "PreconditionFailed")


def test_a_request_sent_twice_is_refused_by_its_own_success(proxy: FaultProxy, client: Any, behind: Any) -> None:
    fault = proxy.twice("^PUT ", times=3)
    assert answer(client.put_object, Body=b"1", IfNoneMatch="*") == REFUSED
    etag = behind.head_object(Bucket=BUCKET, Key=KEY)["ETag"]
    assert answer(client.put_object, Body=b"2", IfMatch=etag) == REFUSED
    assert body(behind) == b"2"
    assert answer(client.put_object, Body=b"3") == OK
    assert (fault.hits, fault.done) == (3, 3)
    assert answer(client.put_object, Key="b", Body=b"4", IfNoneMatch="*") == OK


def test_an_error_after_the_effect_hides_it(proxy: FaultProxy, client: Any, behind: Any) -> None:
    proxy.error("^PUT ", status=503, code="SlowDown", after=True, times=ALWAYS, probability=0.5, seed=1)
    answers = [answer(client.put_object, Key=f"k{number}", Body=b"1", IfNoneMatch="*") for number in range(20)]
    assert 5 <= answers.count((503, "SlowDown")) <= 15
    assert answers.count(OK) == 20 - answers.count((503, "SlowDown"))
    assert behind.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 20


def test_a_server_that_is_gone_refuses_connections_until_it_is_back(proxy: FaultProxy, client: Any) -> None:
    assert answer(client.put_object, Body=b"1") == OK
    proxy.shut()
    # The connection that the client kept is reset; then there are no others to be had.
    with pytest.raises((ConnectionClosedError, EndpointConnectionError)):
        answer(client.get_object)
    with pytest.raises(EndpointConnectionError):
        answer(client.get_object)
    proxy.open()
    assert answer(client.get_object) == OK


def test_a_server_that_is_gone_for_a_time_comes_back_by_itself(proxy: FaultProxy, client: Any) -> None:
    proxy.shut(seconds=0.3)
    with pytest.raises(EndpointConnectionError):
        answer(client.put_object, Body=b"1")

    def is_back() -> bool:
        with socket.socket() as knocking:
            return knocking.connect_ex((proxy.host, proxy.port)) == 0

    wait_until(is_back, "the server to come back")
    assert answer(client.put_object, Body=b"1") == OK


def test_what_a_killed_server_was_at_is_done_and_not_answered(s3: S3Server, proxy: FaultProxy, behind: Any) -> None:
    with http_fault_proxy(s3.endpoint_url) as mortal, ThreadPoolExecutor(1) as pool:
        held = mortal.park("^PUT ", after=True)
        asked = pool.submit(answer, once(mortal.url).put_object, Body=b"done")
        held.wait_for()
        mortal.kill()
        with pytest.raises(ConnectionClosedError):
            asked.result()
        assert body(behind) == b"done"
        with http_fault_proxy(s3.endpoint_url, port=mortal.port) as again:
            assert answer(once(mortal.url).get_object) == OK
            assert again.seen() == [f"GET /{BUCKET}/{KEY}"]


def test_postgres_can_be_gone_too(postgres: Server) -> None:
    with postgres_fault_proxy(postgres.host, postgres.port) as proxy:
        url = f"{postgres.dsn.rpartition(':')[0]}:{proxy.port}/{postgres.database}"
        with psycopg.connect(url) as connection:
            connection.execute("SELECT 1")
            proxy.shut()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
            with pytest.raises(psycopg.OperationalError, match="refused"):
                psycopg.connect(url)
        proxy.open()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_sources_of_parts_are_decoded_twice(proxy: FaultProxy, client: Any, behind: Any) -> None:
    names = ("plain", "3%29v")
    for name in names:
        behind.put_object(Bucket=BUCKET, Key=name, Body=b"1")
    upload = behind.create_multipart_upload(Bucket=BUCKET, Key=KEY)["UploadId"]

    def copied(name: str) -> int:
        source = {"Bucket": BUCKET, "Key": name}
        return answer(client.upload_part_copy, UploadId=upload, PartNumber=1, CopySource=source)[0]

    assert [copied(name) for name in names] == [200, 200]
    proxy.act_as("copy-sources-decoded-twice")
    assert [copied(name) for name in names] == [200, 404]
    # Of whole objects they are not.
    assert answer(client.copy_object, CopySource={"Bucket": BUCKET, "Key": names[1]}) == OK


def test_conditions_of_a_delete_are_ignored(proxy: FaultProxy, client: Any, behind: Any) -> None:
    behind.put_object(Bucket=BUCKET, Key=KEY, Body=b"1")
    assert answer(client.delete_object, IfMatch=WRONG) == REFUSED
    proxy.act_as("delete-conditions-ignored")
    assert answer(client.put_object, Body=b"2", IfMatch=WRONG) == REFUSED
    assert answer(client.delete_object, IfMatch=WRONG) == (204, "")
    assert behind.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_conditions_of_a_completion_are_ignored(proxy: FaultProxy, client: Any, behind: Any) -> None:
    behind.put_object(Bucket=BUCKET, Key=KEY, Body=b"1")
    upload = behind.create_multipart_upload(Bucket=BUCKET, Key=KEY)["UploadId"]
    part = behind.upload_part(Bucket=BUCKET, Key=KEY, UploadId=upload, PartNumber=1, Body=b"2")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}

    def completed() -> tuple[int, str]:
        return answer(client.complete_multipart_upload, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")

    assert completed() == REFUSED
    proxy.act_as("multipart-conditions-ignored")
    assert completed() == OK
    assert body(behind) == b"2"


def test_conditions_of_a_copy_are_ignored(proxy: FaultProxy, client: Any, behind: Any, s3: S3Server) -> None:
    for name in (KEY, "b"):
        behind.put_object(Bucket=BUCKET, Key=name, Body=name.encode())

    def conditions() -> set[str]:
        s3.requests()
        assert answer(client.copy_object, CopySource={"Bucket": BUCKET, "Key": "b"}, IfMatch='"a"') in (OK, REFUSED)
        (request,) = s3.requests()
        return {name for name in request.headers if name.startswith("if-")}

    assert conditions() == {"if-match"}
    proxy.act_as("copy-conditions-ignored")
    assert conditions() == set()


def test_etags_are_honoured_bare_only(proxy: FaultProxy, client: Any, behind: Any) -> None:
    etag = behind.put_object(Bucket=BUCKET, Key=KEY, Body=b"1")["ETag"]
    proxy.act_as("only-bare-etags")
    assert answer(client.put_object, Body=b"2", IfMatch=etag) == REFUSED
    assert body(behind) == b"1"
    assert answer(client.put_object, Body=b"2", IfMatch=etag.strip('"')) == OK
    assert answer(client.put_object, Body=b"3", IfMatch=etag.strip('"')) == REFUSED


def test_losers_of_a_race_get_500(proxy: FaultProxy, client: Any, behind: Any) -> None:
    proxy.act_as("losers-get-500")

    def race(prize: str, **condition: str) -> list[tuple[int, str]]:
        proxy.park("^PUT ", times=8, gather=8)

        def attempt(number: int) -> tuple[int, str]:
            # Another body than any before, or it would have the ETag that is asked for.
            return answer(client.put_object, Body=f"{prize} {number}".encode(), **condition)

        with ThreadPoolExecutor(8) as pool:
            return sorted(pool.map(attempt, range(8)))

    lost = [(500, "UnknownError")] * 7
    assert race("first", IfNoneMatch="*") == [OK, *lost]
    etag = behind.head_object(Bucket=BUCKET, Key=KEY)["ETag"]
    assert race("second", IfMatch=etag) == [OK, *lost]
    # Who comes alone, or among others of whom nobody wins, is told the truth.
    assert answer(client.put_object, Body=b"late", IfMatch=etag) == REFUSED
    assert race("third", IfMatch=etag).count(REFUSED) >= 1


def test_calm_ends_all_of_it(proxy: FaultProxy, client: Any) -> None:
    proxy.act_as(*CEPH_16)
    proxy.twice("^PUT ", times=ALWAYS)
    proxy.shut()
    proxy.calm()
    assert answer(client.put_object, Body=b"1", IfNoneMatch="*") == OK
    assert answer(client.delete_object, IfMatch=WRONG) == REFUSED


def test_a_client_of_azure_is_refused_in_azure_s_form(proxy: FaultProxy) -> None:
    proxy.error("^GET ", status=503, code="ServerBusy", headers={"Retry-After": "7"})
    request = urllib.request.Request(f"{proxy.url}/{BUCKET}/{KEY}", headers={"x-ms-version": "2025-01-05"})
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    assert (told.value.status, told.value.headers["x-ms-error-code"]) == (503, "ServerBusy")
    assert told.value.headers["Retry-After"] == "7"
    assert b"<Code>ServerBusy</Code>" in told.value.read()
