"""Files of web servers, and servers that are not what they seem."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field

import pytest

from singerlake.attached.keep import Fetched, Fetcher
from singerlake.attached.sources.https import REDIRECTS, WebFiles, connect, trusting
from singerlake.attached.sources.locations import Allowed
from singerlake.attached.sources.open_source import FileSources
from singerlake.attached.sources.source import Deadline
from singerlake.clock import SystemClock
from singerlake.errors import UnreadableSourceError
from tests.fakes import FakeClock
from tests.servers.web.https import HttpsServer, in_turn, page, pieces, raw, redirect

BODY = b"\xff\xd8 a photo"
PUBLIC, METADATA = "93.184.215.14", "169.254.169.254"


@dataclass
class Web:
    """A client of a test's server, which is everywhere: names and addresses are the test's own. ``connected`` are the
    addresses that were connected to."""

    server: HttpsServer
    allowed: Sequence[str] = ("/",)
    private: bool = False
    most: int = 1 << 20
    seconds: float = 30
    clock: FakeClock | SystemClock = field(default_factory=SystemClock)
    addresses: Callable[[str], Sequence[str]] = lambda host: [PUBLIC]
    tls: Callable[[], ssl.SSLContext] | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    connected: list[str] = field(default_factory=list)
    _files: WebFiles | None = None

    def connect(self, address: str, port: int, seconds: float) -> socket.socket:
        self.connected.append(address)
        return connect("127.0.0.1", port, seconds)

    def fetch(self, target: str) -> Fetched:
        if self._files is None:
            allowed = [self.server.url(each) if each.startswith("/") else each for each in self.allowed]
            self._files = WebFiles(
                Allowed.parse(allowed),
                private=self.private,
                resolve=lambda host, port: self.addresses(host),
                connect=self.connect,
                tls=self.tls or self.server.tls,
            )
        url = self.server.url(target) if target.startswith("/") else target
        sources = FileSources(Allowed(), open_storage=None, small=1 << 20, web=self._files)  # type: ignore[arg-type]
        fetcher = Fetcher(sources, None, self.most, self.clock)  # type: ignore[arg-type]
        return fetcher.fetch(url, Deadline(self.clock, self.seconds, self.stopped))

    def close(self) -> None:
        if self._files is not None:
            self._files.close()

    def refused(self, target: str) -> UnreadableSourceError:
        with pytest.raises(UnreadableSourceError) as caught:
            self.fetch(target)
        assert "secret" not in str(caught.value)
        return caught.value


@pytest.fixture
def web(https: HttpsServer) -> Iterator[Web]:
    web = Web(https)
    yield web
    web.close()


def test_a_file_comes_with_its_bytes_and_its_media_type(web: Web) -> None:
    web.server.pages["/a.png?token=secret"] = page(BODY, "Content-Type: image/JPEG; q=1")
    fetched = web.fetch("/a.png?token=secret#part")
    assert (fetched.body, fetched.size, fetched.media_type) == (BODY, len(BODY), "image/jpeg")
    (request,) = web.server.requests
    assert request.splitlines()[1:] == [
        f"Host: localhost:{web.server.port}",
        "User-Agent: singerlake",
        "Accept: */*",
        "Accept-Encoding: identity",
        "",
    ]


@pytest.mark.parametrize("header", [(), ("Content-Type: ",), ("Content-Type: <b>",)])
def test_where_the_server_does_not_say_the_name_does(web: Web, header: Sequence[str]) -> None:
    web.server.pages["/a.png"] = page(BODY, *header)
    assert web.fetch("/a.png").media_type == "image/png"


@pytest.mark.parametrize(
    "answer",
    [
        page(BODY),
        page(BODY, "Connection: close"),
        raw(BODY, stays=False),
        raw(
            b"5\r\n" + BODY[:5] + b"\r\n%x;x=y\r\n" % (len(BODY) - 5) + BODY[5:] + b"\r\n0\r\nX: y\r\n\r\n",
            "Transfer-Encoding: chunked",
        ),
        raw(BODY, f"Content-Length: {len(BODY)}", f"Content-Length: {len(BODY)}"),
        page(BODY, "Transfer-Encoding: identity"),
    ],
    ids=["length", "closes", "without length", "chunked", "length twice", "identity"],
)
def test_a_body_is_read_however_it_is_framed(web: Web, answer: Callable[[ssl.SSLSocket], bool]) -> None:
    web.server.pages["/a"] = answer
    assert [web.fetch("/a").body for _ in range(3)] == [BODY] * 3


def test_an_empty_file_is_one(web: Web) -> None:
    web.server.pages["/a"] = page(b"")
    assert [web.fetch("/a").body for _ in range(2)] == [b""] * 2


def test_one_connection_takes_one_file_after_the_other(web: Web) -> None:
    web.server.pages["/a"] = page(BODY)
    for _ in range(5):
        web.fetch("/a")
    assert (web.server.connections, web.connected) == (1, [PUBLIC])


def test_a_connection_that_was_closed_meanwhile_is_made_again(web: Web) -> None:
    web.server.pages["/a"] = pieces(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", pause=lambda: None)
    for _ in range(3):
        assert web.fetch("/a").body == b"ab"
    assert web.server.connections == 3


def test_one_with_more_bytes_than_it_said_leads_nobody_astray(web: Web) -> None:
    smuggled = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    web.server.pages["/a"] = page(BODY + smuggled, length=len(BODY))
    web.server.pages["/b"] = page(b"b")
    assert web.fetch("/a").body == BODY
    assert web.fetch("/b").body in (b"b", b"evil")


def test_no_log_has_what_may_be_secret_of_a_url(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    web.server.pages["/a?token=secret"] = redirect("/b?token=secret")
    web.server.pages["/b?token=secret"] = page(BODY)
    with caplog.at_level("DEBUG"):
        web.fetch("/a?token=secret")
    assert "secret" not in caplog.text


# What is allowed


def test_only_urls_of_the_list_are_asked_for(web: Web) -> None:
    web.allowed = ("/photos",)
    web.server.pages["/photos/a"] = page(BODY)
    assert web.fetch("/photos/a").body == BODY
    for target in ("/", "/photos2/a", "https://other.example/photos/a", "http://localhost/photos/a"):
        web.refused(target)
    assert web.server.targets == ["/photos/a"]


def test_each_redirect_is_checked_anew(web: Web) -> None:
    web.allowed = ("/photos", "/more")
    web.server.pages["/photos/a"] = redirect("/more/a?token=secret", "301 Moved")
    web.server.pages["/more/a?token=secret"] = redirect(web.server.url("/more/b"), "308 Moved")
    web.server.pages["/more/b"] = page(BODY)
    assert web.fetch("/photos/a").body == BODY
    for to in (
        "/private",
        "/more/../private",
        "http://localhost/more/a",
        f"https://{METADATA}/latest/meta-data/",
        "https://photos.example/more/b",
        "file:///etc/passwd",
        "//user:secret@localhost/more/b",
        "",
    ):
        web.server.pages["/photos/b"] = redirect(to)
        web.refused("/photos/b")
    assert "/private" not in web.server.targets


def test_a_loop_of_redirects_ends(web: Web) -> None:
    web.server.pages["/a"] = redirect("/a")
    assert "more than 5 times" in web.refused("/a").message
    assert len(web.server.requests) == REDIRECTS + 1
    for number in range(REDIRECTS):
        web.server.pages[f"/{number}"] = redirect(f"/{number + 1}")
    web.server.pages[f"/{REDIRECTS}"] = page(BODY)
    assert web.fetch("/0").body == BODY


# Where connections go


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", METADATA, "::1", "::ffff:10.0.0.1"])
def test_a_host_with_a_private_address_is_not_connected_to(web: Web, address: str) -> None:
    web.server.pages["/a"] = page(BODY)
    web.addresses = lambda host: [PUBLIC, address]
    assert "not of the public internet" in web.refused("/a").message
    assert (web.connected, web.server.connections) == ([], 0)


def test_unless_that_is_wanted(web: Web) -> None:
    web.server.pages["/a"] = page(BODY)
    web.private, web.addresses = True, lambda host: ["127.0.0.1"]
    assert web.fetch("/a").body == BODY


def test_a_redirect_to_a_private_host_of_the_list_is_not_followed_either(web: Web) -> None:
    inside = f"https://photos.example:{web.server.port}"
    web.allowed = ("/", inside)
    web.server.pages["/a"] = redirect(f"{inside}/b")
    web.server.pages["/b"] = page(BODY)
    web.addresses = lambda host: [METADATA if host == "photos.example" else PUBLIC]
    assert "not of the public internet" in web.refused("/a").message
    assert (web.connected, web.server.targets) == ([PUBLIC], ["/a"])


def test_a_name_that_means_another_address_by_then_changes_nothing(web: Web) -> None:
    """The connection goes to the address that was looked at: a name server may answer anything the next time."""
    answers = [[PUBLIC], ["127.0.0.1"], [METADATA]]
    web.addresses = lambda host: answers.pop(0)
    web.server.pages["/a"] = page(BODY, "Connection: close")
    assert web.fetch("/a").body == BODY
    assert web.connected == [PUBLIC]
    assert "not of the public internet" in web.refused("/a").message
    assert web.connected == [PUBLIC]


def test_the_next_address_is_tried_where_one_does_not_answer(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(address: str, port: int, seconds: float) -> socket.socket:
        if address == "8.8.8.8":
            raise ConnectionRefusedError
        return connect("127.0.0.1", port, seconds)

    monkeypatch.setattr(web, "connect", failing)
    web.server.pages["/a"] = page(BODY)
    web.addresses = lambda host: ["8.8.8.8", PUBLIC]
    assert web.fetch("/a").body == BODY


# Whom to trust


def test_a_certificate_that_nobody_signed_is_refused(web: Web) -> None:
    web.tls = trusting
    assert web.refused("/a").message == "the certificate of its host is not trusted"
    assert web.server.requests == []


def test_so_is_one_of_another_host(web: Web) -> None:
    other = f"https://other.example:{web.server.port}"
    web.allowed = (other,)
    assert web.refused(f"{other}/a").message == "the certificate of its host is not trusted"


def test_a_file_of_authorities_is_trusted_alone(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    web.tls = trusting
    monkeypatch.setenv("SSL_CERT_FILE", str(web.server.ca_file))
    web.server.pages["/a"] = page(BODY)
    assert web.fetch("/a").body == BODY
    assert len(trusting().get_ca_certs()) == 1


# What servers answer


@pytest.mark.parametrize(
    "status", ["404 Not Found", "403 Forbidden", "206 Partial Content", "204 No Content", "304 Not Modified"]
)
def test_an_answer_that_is_no_file_is_told(web: Web, status: str) -> None:
    web.server.pages["/a?token=secret"] = page(b"", status=status)
    assert web.refused("/a?token=secret").message == f"the server answers {status[:3]}"
    assert len(web.server.requests) == 1


@pytest.mark.parametrize(
    "failing",
    [
        page(b"", status="503 Slow Down"),
        page(b"", status="429 Too Many"),
        raw(BODY[:3], f"Content-Length: {len(BODY)}", stays=False),
        raw(BODY[:3], *[f"Content-Length: {len(BODY)}"] * 2, stays=False),
        raw(BODY[:3], f"Content-Length: +{len(BODY)}", stays=False),
        pieces(pause=lambda: None),
        pieces(b"HTTP/1.1 200 OK\r\n\r\nab", pause=lambda: None),
        pieces(b"nonsense\r\n\r\n", pause=lambda: None),
        pieces(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab", pause=lambda: None),
        pieces(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", pause=lambda: None),
        pieces(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", pause=lambda: None),
    ],
    ids=[
        "503",
        "429",
        "short",
        "short twice",
        "short of an odd length",
        "nothing",
        "cut without length",
        "nonsense",
        "cut chunk",
        "bad chunk",
        "headers",
    ],
)
def test_what_may_pass_is_tried_again_three_times_in_all(web: Web, failing: Callable[[ssl.SSLSocket], bool]) -> None:
    web.clock = FakeClock()
    web.server.pages["/a"] = in_turn(failing, failing, page(BODY))
    assert web.fetch("/a").body == BODY
    web.close()
    web.server.pages["/a"] = failing
    web.server.requests.clear()
    web.refused("/a")
    assert len(web.server.requests) == 3


@pytest.mark.parametrize("encoding", ["gzip, chunked", "gzip", "chunked, chunked"])
def test_a_body_in_an_encoding_that_nobody_asked_for_is_refused(web: Web, encoding: str) -> None:
    """It would be kept with what frames its pieces."""
    web.server.pages["/a"] = raw(b"2\r\nab\r\n0\r\n\r\n", f"Transfer-Encoding: {encoding}", stays=False)
    assert "encoding that was not asked for" in web.refused("/a").message
    assert len(web.server.requests) == 1


def test_a_file_that_is_too_large_is_not_read(web: Web) -> None:
    web.most = 10
    web.server.pages["/said"] = page(b"", length=11)
    web.server.pages["/sent"] = raw(b"x" * 11, stays=False)
    for target in ("/said", "/sent"):
        assert web.refused(target).message == "it has more than 10 bytes"
    assert web.server.targets == ["/said", "/sent"]


def test_what_is_sent_compressed_stays_so(web: Web) -> None:
    """Whatever a gzip bomb would be unpacked, it is kept as the small file that it is."""
    bomb = gzip.compress(b"\0" * (1 << 24))
    web.most = len(bomb)
    for encoding, media_type in (("gzip", "application/gzip"), ("br", "application/octet-stream")):
        web.server.pages["/a.json"] = page(bomb, "Content-Type: application/json", f"Content-Encoding: {encoding}")
        fetched = web.fetch("/a.json")
        assert (fetched.body, fetched.media_type) == (bomb, media_type)


class Trickle:
    """Sends without end, a little now and then, until the other side has gone."""

    def __init__(self, beginning: bytes, each: bytes) -> None:
        self._beginning, self._each = beginning, each
        self._gone = threading.Event()

    def __call__(self, connection: ssl.SSLSocket) -> bool:
        try:
            connection.sendall(self._beginning)
            while not self._gone.wait(0.02):
                connection.sendall(self._each)
        finally:
            self._gone.set()
        return False

    def ended(self) -> bool:
        return self._gone.wait(30)


TRICKLES = {
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"x"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "length of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "header": (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
    "status": (b"HTTP/1.1 200 ", b"O"),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize("kind", TRICKLES)
def test_a_server_that_trickles_is_left_when_the_time_is_over(web: Web, kind: str) -> None:
    trickle = Trickle(*TRICKLES[kind])
    web.server.pages["/a"] = trickle
    web.seconds = 0.3
    error = web.refused("/a")
    assert error.message == "reading it takes too long"
    assert "file_timeout_seconds" in error.hint
    assert len(web.server.requests) == 1


def test_one_that_takes_a_connection_and_says_nothing_is_left_too(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setattr(web, "connect", lambda address, _, seconds: connect("127.0.0.1", port, seconds))
        web.seconds = 0.3
        assert web.refused("/a").message == "reading it takes too long"


def test_the_end_of_a_run_ends_a_read(web: Web) -> None:
    web.server.pages["/a"] = Trickle(*TRICKLES["body"])
    threading.Timer(0.2, web.stopped.set).start()
    with pytest.raises(CancelledError):
        web.fetch("/a")
