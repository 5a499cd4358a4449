"""Servers that answer as S3 does not, and roles that cannot be assumed: errors in words, never a traceback."""

from __future__ import annotations

import logging
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError, SSLError
from botocore.httpsession import URLLib3Session

from singerlake import errors
from singerlake.adapters import s3_storage
from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.s3 import upload as s3_upload
from singerlake.storage.drivers.s3.errors import translate
from singerlake.storage.port import Storage, Written
from tests.fakes import FakeClock
from tests.servers.ports.door import door_to
from tests.servers.s3 import S3Server
from tests.servers.web.https import certificates

PAGE = b"<html><body>Welcome to the guest network</body>"
STS = b"<ErrorResponse><Error><Code>%b</Code></Error></ErrorResponse>"
XML = b"<?xml version='1.0'?><Error><Code>%b</Code></Error>"


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that gives one answer to everything; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    for method in ("HEAD", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.do_GET)
    with serving(Handler) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server of such requests; its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def storage(url: str, **settings: object) -> CloudStorage:
    given = S3Settings(**{"access_key_id": "AKIAX", "secret_access_key": "s3cr3t", "endpoint_url": url, **settings})  # type: ignore[arg-type]
    return s3_storage("bucket", "lake", given, clock=FakeClock(), ids=random_id)


CALLS: dict[str, Callable[[Storage], object]] = {
    "get": lambda storage: storage.get("a"),
    "head": lambda storage: storage.head("a"),
    "create": lambda storage: storage.put("a", b"1", if_absent=True),
    "list": lambda storage: list(storage.list("")),
}


@contextmanager
def refusing(tls: ssl.SSLContext | None) -> Iterator[tuple[str, list[str]]]:
    """A server that begins each upload, and refuses each body before it has read it; its URL, and the paths of those
    that came."""
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.answer(200, b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")

        def do_PUT(self) -> None:
            came.append(self.path)
            self.close_connection = True
            self.answer(403, XML % b"AccessDenied")

        def handle_expect_100(self) -> bool:
            return True

        def do_DELETE(self) -> None:
            self.answer(204, b"")

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Handler, tls) as url:
        yield url, came


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext | None:
    if request.param == "http":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates(tmp_path))
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    return context


@pytest.mark.parametrize("mebibytes", [3, 40])
def test_a_refusal_that_comes_before_a_file_is_sent_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: ssl.SSLContext | None, mebibytes: int
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 6 << 20)
    (tmp_path / "spool").write_bytes(bytes(mebibytes << 20))
    with refusing(tls) as (url, came):
        for _ in range(3):
            came.clear()
            with pytest.raises(errors.AccessDeniedError, match="s3:PutObject"):
                storage(url).upload("a", tmp_path / "spool")
            assert max(Counter(came).values()) <= 2, "nothing is sent again and again"


def test_a_refusal_that_comes_before_a_conditional_write_is_sent_is_read(tls: ssl.SSLContext | None) -> None:
    with refusing(tls) as (url, came):
        for _ in range(3):
            with pytest.raises(errors.AccessDeniedError, match="s3:PutObject"):
                storage(url).put("manifest.json", bytes(3 << 20), if_absent=True)
    assert len(came) == 3


@pytest.mark.parametrize("call", ["read", "upload", "put"])
def test_only_a_request_with_a_body_asks_for_consent_after_a_tls_connection_broke(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str
) -> None:
    stored = s3_storage(s3.create_bucket(f"bucket-{random_id()}"), "", s3.settings(), clock=FakeClock(), ids=random_id)
    stored.put("a", b"body")
    (tmp_path / "spool").write_bytes(b"body")
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: stored.read_range("a", 0, 4),
        "upload": lambda: stored.upload("a", tmp_path / "spool"),
        "put": lambda: stored.put("new", b"body", if_absent=True),
    }
    asked: list[bool] = []

    def break_once(self: URLLib3Session, request: AWSPreparedRequest) -> object:
        if call == "put" and request.method != "PUT":
            return send(self, request)
        asked.append("Expect" in request.headers)
        if len(asked) == 1:
            raise SSLError(endpoint_url=request.url, error="EOF occurred in violation of protocol")
        return send(self, request)

    send = URLLib3Session.send
    monkeypatch.setattr(URLLib3Session, "send", break_once)
    done = calls[call]()
    assert isinstance(done, Written) if call == "put" else done in (b"body", 4)
    assert asked == [False, call != "read"]


@pytest.mark.parametrize("call", ["put", "upload"])
def test_a_server_that_does_not_want_to_be_asked_gets_the_body(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str
) -> None:
    """As proxies that answer 417 (RFC 9110, section 10.1.1)."""
    stored = s3_storage(s3.create_bucket(f"bucket-{random_id()}"), "", s3.settings(), clock=FakeClock(), ids=random_id)
    (tmp_path / "spool").write_bytes(b"body")
    seen: list[str] = []

    def refuse(self: URLLib3Session, request: AWSPreparedRequest) -> object:
        if request.method != "PUT":
            return send(self, request)
        seen.append("asked" if "Expect" in request.headers else "sent")
        if len(seen) == 1:
            raise SSLError(endpoint_url=request.url, error="EOF occurred in violation of protocol")
        if "Expect" in request.headers:
            return AWSResponse(request.url, 417, {}, SimpleNamespace(stream=lambda: iter([b""])))
        return send(self, request)

    send = URLLib3Session.send
    monkeypatch.setattr(URLLib3Session, "send", refuse)
    if call == "put":
        assert isinstance(stored.put("a", b"body", if_absent=True), Written)
    else:
        assert stored.upload("a", tmp_path / "spool") == 4
    assert seen == ["sent", "asked", "sent"]


@pytest.mark.parametrize("call", ["get", "head"])
def test_a_page_is_no_s3(call: str) -> None:
    with answering(200, PAGE) as url, pytest.raises(errors.SettingError, match=r"is not S3; check s3_endpoint_url"):
        CALLS[call](storage(url))


def test_a_listing_that_never_ends_is_no_s3() -> None:
    page = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>"
    with answering(200, page + b"</ListBucketResult>") as url, pytest.raises(errors.SettingError, match="is not S3"):
        CALLS["list"](storage(url))


@pytest.mark.parametrize("message", [{}, {"Message": None}, {"Message": ""}])
def test_a_server_that_sends_no_message_is_not_quoted(message: dict[str, None]) -> None:
    error = ClientError({"Error": {"Code": "AccessDenied", **message}}, "GetObject")
    assert str(translate(error, S3Settings(), key="k")).endswith("(key='k', code='AccessDenied')")


def test_an_answer_without_a_code_is_told_by_its_status() -> None:
    with answering(418, b"") as url, pytest.raises(errors.SettingError, match=r"code='(HTTP )?418'"):
        storage(url).get("a")


ROLE = "arn:aws:iam::123456789012:role/lake"


@pytest.mark.in_turn("call")
@pytest.mark.parametrize(
    ("status", "body", "expected", "said"),
    [
        (405, XML % b"MethodNotAllowed", errors.SettingError, "cannot assume roles; leave aws_role_arn unset"),
        (405, b"", errors.SettingError, "cannot assume roles"),
        (400, XML % b"InvalidRequest", errors.SettingError, "cannot assume roles"),
        (404, PAGE, errors.SettingError, "cannot assume roles"),
        (200, PAGE, errors.SettingError, "cannot assume roles"),
        (200, b"", errors.SettingError, "cannot assume roles"),
        (200, b"<a/>", errors.SettingError, "cannot assume roles"),
        (501, XML % b"NotImplemented", errors.SettingError, "cannot assume roles"),
        (403, XML % b"AccessDenied", errors.AccessDeniedError, "the role cannot be assumed.*whom the role trusts"),
        (403, STS % b"InvalidClientTokenId", errors.AccessDeniedError, "the role cannot be assumed.*access key"),
        (
            503,
            XML % b"ServiceUnavailable",
            errors.StorageUnavailableError,
            "the role cannot be assumed.*run again later",
        ),
    ],
)
@pytest.mark.parametrize("call", ["get", "create"])
def test_a_role_that_cannot_be_assumed_is_told_in_words(
    status: int,
    body: bytes,
    expected: type[errors.SingerlakeError],
    said: str,
    call: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with answering(status, body) as url, caplog.at_level(logging.WARNING), pytest.raises(expected, match=said) as told:
        CALLS[call](storage(url, role_arn=ROLE, role_external_id="hush"))
    assert ROLE in str(told.value)
    assert "None" not in str(told.value)
    assert "Traceback" not in caplog.text
    assert "hush" not in str(told.value) + caplog.text


def test_a_role_is_waited_for_as_storage_is(s3: S3Server) -> None:
    with door_to(s3.endpoint_url) as door:
        clock = FakeClock()
        settings = s3.settings(endpoint_url=door.endpoint_url, role_arn=ROLE)
        bucket = s3.create_bucket(f"bucket-{random_id()}")
        acting = s3_storage(bucket, "lake", settings, clock=clock, ids=random_id)
        clock.on_sleep = lambda _: door.open() if clock.seconds >= 10 else None
        acting.put("a", b"1")
        assert 10 <= clock.seconds < 16
        clock.on_sleep = lambda _: None
        door.shut()
        with pytest.raises(errors.StorageUnavailableError, match="answered before"):
            s3_storage(bucket, "lake", settings, clock=clock, ids=random_id).get("a")
