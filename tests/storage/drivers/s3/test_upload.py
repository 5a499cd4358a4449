"""Files on their way to S3: in one request or in parts, what proves that they are whole, and what a failure leaves."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.s3 import client as s3_client
from singerlake.storage.drivers.s3 import upload as s3_upload
from singerlake.storage.drivers.s3.upload import Target
from singerlake.storage.streams import AT_ONCE, FilePart
from target_singerlake.files.publishing import SENDERS, WORKERS
from tests.servers.s3 import ALWAYS, S3Server
from tests.storage.buckets import Make, body


def test_each_connection_by_which_the_target_sends_files_is_kept() -> None:
    """Others are opened anew for each part, and urllib3 warns of each."""
    assert s3_client._CONNECTIONS >= SENDERS * s3_upload.CONNECTIONS + WORKERS


def test_a_large_file_goes_up_in_parts_and_a_small_one_in_one_request(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 6 << 20)
    monkeypatch.setattr(s3_upload, "PART_SIZE", 5 << 20)
    data = bytes(range(256)) * (12 << 12)
    (tmp_path / "big").write_bytes(data)
    (tmp_path / "small").write_bytes(data[:1000])
    s3.requests()
    assert storage.upload("big", tmp_path / "big") == len(data)
    asked = [request.method for request in s3.requests()]
    assert asked == ["POST", "PUT", "PUT", "PUT", "POST", "HEAD"], "without checksums, its ETag proves no part"
    assert body(storage, "big") == data
    s3.requests()
    assert storage.upload("small", tmp_path / "small") == 1000
    assert [request.method for request in s3.requests()] == ["PUT"], "its ETag says that it is whole"


def test_a_part_does_not_wait_for_the_server_s_consent(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 6 << 20)
    (tmp_path / "big").write_bytes(bytes(6 << 20))
    s3.requests()
    storage.upload("big", tmp_path / "big")
    parts = [request for request in s3.requests() if "partNumber" in request.query]
    assert ["expect" in request.headers for request in parts] == [False, False]


@pytest.mark.parametrize(
    ("mebibytes", "parts"), [(64, 8), (100, 8), (128.3, 8), (191, 8), (193, 16), (1024, 64), (1 << 20, 10_000)]
)
def test_all_connections_send_as_many_parts(mebibytes: float, parts: int) -> None:
    size = int(mebibytes * (1 << 20))
    part = s3_upload.part_size(size)
    assert -(-size // part) == parts
    assert part >= 5 << 20


@pytest.mark.parametrize("reason", ["an ETag that is no MD5", "a size that takes long to digest"])
def test_what_an_answer_does_not_prove_is_asked_for(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if "MD5" in reason:
        monkeypatch.setattr(s3_upload.hashlib, "md5", hashlib.sha1)
    else:
        monkeypatch.setattr(s3_upload, "_SMALL", 1)
        monkeypatch.setattr(s3_upload, "_DIGESTED", 2)
    (tmp_path / "small").write_bytes(b"123")
    s3.requests()
    assert storage.upload("small", tmp_path / "small") == 3
    assert [request.method for request in s3.requests()] == ["PUT", "HEAD"]


@pytest.mark.parametrize(("small", "stored_as"), [(1 << 20, "itself"), (2, "itself"), (2, "another file")])
def test_what_an_answer_proves_is_not_asked_for(
    s3: S3Server,
    storage: CloudStorage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small: int,
    stored_as: str,
) -> None:
    """Whether the file is sent from memory, or read a second time beside its request."""
    monkeypatch.setattr(s3_upload, "_SMALL", small)
    (tmp_path / "file").write_bytes(b"123")
    if stored_as == "another file":
        (tmp_path / "other").write_bytes(b"321")
        md5 = s3_upload._md5
        monkeypatch.setattr(s3_upload, "_md5", lambda path: md5(tmp_path / "other"))
    s3.requests()
    assert storage.upload("file", tmp_path / "file") == 3
    assert [request.method for request in s3.requests()] == (["PUT"] if stored_as == "itself" else ["PUT", "HEAD"])


def test_metadata_is_one_put_however_large(
    s3: S3Server, storage: CloudStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 1)
    s3.requests()
    storage.put("manifest.json", b"1" * (6 << 20))
    assert [(request.method, request.query) for request in s3.requests()] == [("PUT", "")]


@pytest.mark.parametrize("may", [True, False])
def test_an_upload_in_parts_is_begun_before_its_bytes_may_be_sent(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may: bool
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 1)
    (tmp_path / "big").write_bytes(b"1234")
    begun: list[str] = []

    def ready() -> None:
        begun.extend(request.method for request in s3.requests())
        if not may:
            raise errors.LockTimeoutError("writer slow has held the lock")

    s3.requests()
    if may:
        assert storage.upload("big", tmp_path / "big", ready) == 4
    else:
        with pytest.raises(errors.LockTimeoutError, match="slow"):
            storage.upload("big", tmp_path / "big", ready)
    assert begun == ["POST"]
    assert [request.method for request in s3.requests()] == (["PUT", "POST", "HEAD"] if may else ["DELETE"])
    assert (storage.head("big") is not None) == may


@pytest.mark.parametrize("times", [1, ALWAYS])
def test_a_failed_upload_in_parts_leaves_nothing(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 5 << 20)
    monkeypatch.setattr(s3_upload, "PART_SIZE", 5 << 20)
    (tmp_path / "big").write_bytes(b"1" * (6 << 20))
    s3.fail("PUT", status=403, code="AccessDenied", times=times)
    with pytest.raises(errors.AccessDeniedError, match="s3:PutObject"):
        storage.upload("big", tmp_path / "big")
    s3.calm()
    assert storage.head("big") is None
    left = s3.client().list_multipart_uploads(Bucket=storage.url.split("/")[2])
    assert "Uploads" not in left


@pytest.mark.parametrize("size", [1, 1000, AT_ONCE, 3 * AT_ONCE + 5])
def test_a_part_is_read_and_read_again_as_a_file_of_its_own(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (4 * AT_ONCE // 251)
    (tmp_path / "big").write_bytes(data)
    expected = data[700 : 700 + size]
    with FilePart(tmp_path / "big", 700, 700 + size) as part:
        assert part.read() == expected
        assert part.seek(0) == 0
        assert b"".join(iter(lambda: part.read(16_384), b"")) == expected
        assert (part.tell(), part.read(1)) == (size, b"")
        assert (part.seek(0, 2), part.seek(-1, 1), part.read()) == (size, size - 1, expected[-1:])
        part.seek(0)
        assert len(part.read(2 * AT_ONCE)) == min(size, AT_ONCE)
        part.seek(size + 5)
        assert part.read() == part.read(5) == b""


def test_a_part_whose_checksum_follows_it_is_sent_whole(tmp_path: Path) -> None:
    """As Amazon S3 gets it over HTTPS."""
    data = bytes(range(251)) * 3000
    (tmp_path / "big").write_bytes(data)
    with FilePart(tmp_path / "big", 10, len(data) - 10) as part:
        framed = AwsChunkedWrapper(part, checksum_cls=Crc32Checksum, checksum_name="x-amz-checksum-crc32")
        sent = b"".join(iter(lambda: framed.read(16_384), b""))
    body, at = b"", 0
    while size := int(sent[at : (end := sent.index(b"\r\n", at))], 16):
        body += sent[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
    assert body == data[10:-10]
    crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big"))
    assert sent[end + 2 :] == b"x-amz-checksum-crc32:" + crc + b"\r\n\r\n"


class Parts:
    """A client of S3 that knows uploads in parts. ``send`` gets the number of each part, and ``whole`` is the answer
    at the end."""

    def __init__(self, send: Callable[[int], dict[str, Any]], whole: dict[str, Any] | None = None) -> None:
        self._whole = whole or {}
        self.meta = SimpleNamespace(config=SimpleNamespace(request_checksum_calculation="when_supported"))
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._send = send

    def create_multipart_upload(self, **arguments: Any) -> dict[str, Any]:
        self.calls.append(("create", arguments))
        return {"UploadId": "1"}

    def upload_part(self, **arguments: Any) -> dict[str, Any]:
        self.calls.append(("part", arguments))
        return self._send(arguments["PartNumber"])

    def complete_multipart_upload(self, **arguments: Any) -> dict[str, Any]:
        self.calls.append(("complete", arguments))
        return self._whole

    def abort_multipart_upload(self, **arguments: Any) -> None:
        self.calls.append(("abort", arguments))

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def sent(client: Parts, path: Path, encryption: dict[str, str] | None = None) -> bool:
    """Send a file of 30 MiB; whether the answers prove it."""
    target = Target(client, {"Bucket": "bucket", "Key": "big"}, encryption or {}, lambda request: request())
    return s3_upload.upload(target, path, 30 << 20, lambda: None)


@pytest.fixture
def big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of six parts, two of which go at once."""
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 5 << 20)
    monkeypatch.setattr(s3_upload, "part_size", lambda size: 5 << 20)
    monkeypatch.setattr(s3_upload, "CONNECTIONS", 2)
    (tmp_path / "big").write_bytes(bytes(30 << 20))
    return tmp_path / "big"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_a_part_that_failed_no_other_is_begun(big: Path, error: type[BaseException]) -> None:
    """Though the one before it is still under way; all is removed after that has ended."""
    failed = threading.Event()

    def send(number: int) -> dict[str, Any]:
        if number == 2:
            failed.set()
            raise error
        assert failed.wait(30)
        time.sleep(0.2)
        client.calls.append(("sent", {}))
        return {"ETag": str(number)}

    client = Parts(send)
    with pytest.raises(error):
        sent(client, big)
    assert client.names() == ["create", "part", "part", "sent", "abort"]


def test_an_interruption_ends_an_upload(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def interrupted(*_: object, **__: object) -> None:
        released.set()
        raise KeyboardInterrupt

    def send(number: int) -> dict[str, Any]:
        assert released.wait(30)
        time.sleep(0.1)
        return {"ETag": str(number)}

    monkeypatch.setattr(s3_upload, "wait", interrupted)
    client = Parts(send)
    with pytest.raises(KeyboardInterrupt):
        sent(client, big)
    assert client.names() == ["create", "part", "part", "abort"]


def test_parts_have_the_checksum_that_their_upload_announced_to_amazon(big: Path) -> None:
    """https://github.com/apache/arrow-rs/issues/6793"""
    client = Parts(lambda number: {"ETag": f"tag {number}", "ChecksumCRC32": f"sum {number}", "ResponseMetadata": {}})
    assert not sent(client, big, {"SSEKMSKeyId": "k"})
    (_, begun), *parts, (_, completed) = client.calls
    assert begun == {"Bucket": "bucket", "Key": "big", "SSEKMSKeyId": "k", "ChecksumAlgorithm": "CRC32"}
    assert [arguments["ChecksumAlgorithm"] for _, arguments in parts] == ["CRC32"] * 6
    assert completed["MultipartUpload"]["Parts"] == [
        {"PartNumber": number, "ETag": f"tag {number}", "ChecksumCRC32": f"sum {number}"} for number in range(1, 7)
    ]


def test_parts_that_storage_took_with_checksums_are_not_asked_for(
    s3: S3Server, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Amazon S3, which the environment names here."""
    monkeypatch.setattr("singerlake.storage.drivers.s3.client.is_amazon", lambda endpoint_url: True)
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 6 << 20)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint_url)
    (tmp_path / "big").write_bytes(bytes(range(256)) * (6 << 12))
    storage = make(endpoint_url=None, path_style=True)
    s3.requests()
    assert storage.upload("big", tmp_path / "big") == 6 << 20
    asked = s3.requests()
    assert [request.method for request in asked] == ["POST", "PUT", "PUT", "POST"]
    assert ["x-amz-checksum-crc32" in request.headers for request in asked[1:3]] == [True, True]
    assert body(storage, "big") == (tmp_path / "big").read_bytes()


def etag(number: int) -> str:
    return hashlib.md5(bytes([number])).hexdigest()


def whole(numbers: Iterable[int], count: int = 6) -> str:
    return f'"{hashlib.md5(b"".join(bytes.fromhex(etag(number)) for number in numbers)).hexdigest()}-{count}"'


@pytest.mark.parametrize(
    ("answer", "proves"),
    [
        ({"ETag": whole(range(1, 7))}, True),
        ({"ETag": whole(range(1, 6))}, False),
        ({"ETag": whole(range(1, 6), count=5)}, False),
        ({"ETag": whole([2, 1, 3, 4, 5, 6])}, False),
        ({"ETag": whole([1, 2, 3, 4, 5, 5])}, False),
        ({"ETag": whole(range(1, 7), count=7)}, False),
        ({"ETag": f'"{etag(1)}"'}, False),
        ({"ETag": '"0x8D1C2A3B4D5E6F7"'}, False),
        ({"ETag": '""'}, False),
        ({}, False),
    ],
    ids=["all", "but one", "too few", "order", "twice", "number", "no parts", "no MD5", "empty", "none"],
)
def test_only_the_etag_of_all_parts_in_their_order_proves_them(big: Path, answer: dict[str, Any], proves: bool) -> None:
    client = Parts(lambda number: {"ETag": f'"{etag(number)}"', "ChecksumCRC32": "any"}, answer)
    assert sent(client, big) is proves


@pytest.mark.parametrize("odd", ["", "x" * 32, "0x8D1C2A3B4D5E6F7", "d41d8cd98f00b204e9800998ecf8427e-2", None])
def test_parts_whose_etags_are_no_md5_prove_nothing(big: Path, odd: str | None) -> None:
    def send(number: int) -> dict[str, Any]:
        return {"ChecksumCRC32": "any", **({} if odd is None else {"ETag": f'"{odd}"'})}

    client = Parts(send, {"ETag": whole(range(1, 7))})
    assert sent(client, big) is False


@pytest.mark.parametrize("without", [{1}, {6}, set(range(1, 7))])
def test_parts_whose_checksum_storage_did_not_take_are_not_proved_by_its_own_etags(
    big: Path, without: set[int]
) -> None:
    """It may have kept half of one, and say so."""

    def send(number: int) -> dict[str, Any]:
        return {"ETag": f'"{etag(number)}"', **({} if number in without else {"ChecksumCRC32": "any"})}

    client = Parts(send, {"ETag": whole(range(1, 7))})
    assert sent(client, big) is False


def test_a_size_that_storage_reports_otherwise_is_an_error(s3: S3Server, storage: CloudStorage, tmp_path: Path) -> None:
    (tmp_path / "spool").write_bytes(b"1")
    storage.put("data", b"longer")
    s3.fail("PUT", status=500, code="InternalError", times=ALWAYS)
    with pytest.raises(errors.StorageUnavailableError):
        storage.upload("data", tmp_path / "spool")
