"""A web server over TLS for tests, with a certificate authority of its own, that answers whatever a test wants.

with https_server() as server:
    server.pages["/a.jpg"] = page(b"...", "Content-Type: image/jpeg")
    server.url("/a.jpg")     # https://localhost:<port>/a.jpg
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

HOST = "localhost"
Page = Callable[[ssl.SSLSocket], bool]
"""Answers a request; whether the connection takes another one."""


def page(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> Page:
    """A whole answer. ``length``: what its Content-Length says instead of the truth."""
    return raw(body, *headers, f"Content-Length: {len(body) if length is None else length}", status=status)


def raw(body: bytes, *headers: str, status: str = "200 OK", stays: bool = True) -> Page:
    """An answer with these headers alone; where it does not stay, the connection ends as TLS wants it."""

    def answer(connection: ssl.SSLSocket) -> bool:
        head = "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""])
        connection.sendall(head.encode("latin-1") + body)
        if not stays:
            connection.unwrap()
        return stays

    return answer


def redirect(to: str, status: str = "302 Found") -> Page:
    """An answer that leads elsewhere."""
    return page(b"", f"Location: {to}", status=status)


def pieces(*parts: bytes, pause: Callable[[], object]) -> Page:
    """Sends one part after the other, with a pause behind each, and then hangs up without a word."""

    def answer(connection: ssl.SSLSocket) -> bool:
        for part in parts:
            connection.sendall(part)
            pause()
        return False

    return answer


def in_turn(*pages: Page) -> Page:
    """Each page once, the last one for ever."""
    rest = list(pages)
    return lambda connection: (rest.pop(0) if len(rest) > 1 else rest[0])(connection)


@dataclass
class HttpsServer:
    """A running server. ``pages`` are by target, query and all; ``requests`` are the heads that came, in order;
    ``connections`` counts those that were made."""

    port: int
    ca_file: Path
    pages: dict[str, Page] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    connections: int = 0

    def url(self, target: str, host: str = HOST) -> str:
        return f"https://{host}:{self.port}{target}"

    def tls(self) -> ssl.SSLContext:
        """A client's trust in this server alone."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    @property
    def targets(self) -> list[str]:
        """What was asked for, in order."""
        return [request.split(" ")[1] for request in self.requests]

    def calm(self) -> None:
        """Forget pages and requests."""
        self.pages.clear()
        self.requests.clear()
        self.connections = 0

    def serve(self, connection: ssl.SSLSocket) -> None:
        self.connections += 1
        with connection, suppress(OSError):
            while head := _head(connection):
                self.requests.append(head)
                missing = page(b"none", status="404 Not Found")
                if not self.pages.get(head.split(" ")[1], missing)(connection):
                    return


@contextmanager
def https_server() -> Iterator[HttpsServer]:
    """A fresh server on a free port of 127.0.0.1; it ends with the block."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listening:
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(certificates(Path(folder)))
        server = HttpsServer(listening.getsockname()[1], Path(folder) / "ca.pem")

        def greet(plain: socket.socket) -> None:
            with suppress(OSError):
                server.serve(own.wrap_socket(plain, server_side=True))

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=greet, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server


def _head(connection: ssl.SSLSocket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(1 << 16)
        if not more:
            return ""
        data += more
    return data.decode("latin-1")


def certificates(folder: Path) -> Path:
    """Write ``ca.pem``, of an authority, and a server's certificate with its key, for ``localhost``, 127.0.0.1 and
    ``photos.example``; the path of the latter."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    def made(name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )

    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = (
        made("tests", authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(authority, hashes.SHA256())
    )
    names = [x509.DNSName(HOST), x509.DNSName("photos.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    own = (
        made(HOST, key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "own.pem").write_bytes(private + own.public_bytes(Encoding.PEM))
    return folder / "own.pem"


@pytest.fixture(scope="session")
def https_session() -> Iterator[HttpsServer]:
    """The server that all tests of a session share."""
    with https_server() as server:
        yield server


@pytest.fixture
def https(https_session: HttpsServer) -> Iterator[HttpsServer]:
    """The shared server, without pages before and after the test."""
    https_session.calm()
    yield https_session
    https_session.calm()
