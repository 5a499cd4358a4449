"""Files of web servers. Each URL, also that of a redirect, and each address that is connected to is checked; no proxy
is used, since it would look for the address itself. A connection ends when the time of its file does."""

from __future__ import annotations

import http.client
import io
import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from singerlake.attached.media_types import media_type_in
from singerlake.attached.sources.locations import CORRECT, Allowed, WebFile, redirected
from singerlake.attached.sources.source import Deadline, OpenedFile
from singerlake.errors import UnreadableSourceError

_CONNECT_SECONDS = 10.0
"""For each address, and again for the handshake."""
_STEP = 1.0
"""Seconds after which a wait looks whether the run ends."""
_BUFFER = 1 << 16

_NOT_TRUSTED = "set SSL_CERT_FILE to the authorities that you trust, or set on_missing_file to record"

Resolve = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a host and a port. Raises ``OSError``."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that was given out of IPv6. Python counts as global what no registry names, also old forms of IPv4."""
_IPv4 = 32
Connect = Callable[[str, int, float], socket.socket]
"""Connects to an address and a port within so many seconds. Raises ``OSError``."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that the system knows, each once, in its order. Raises ``OSError``."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def checked_addresses(host: str, port: int, *, private: bool, resolve: Resolve) -> Sequence[str]:
    """The addresses of a host, all public unless ``private`` is allowed. Raises ``UnreadableSourceError``."""
    try:
        addresses = resolve(host, port)
    except (OSError, UnicodeError) as error:
        raise UnreadableSourceError("the name of its host is not known", hint=CORRECT, passing=True) from error
    if not private and not all(map(is_public, addresses)):
        raise UnreadableSourceError(
            "its host has an address that is not of the public internet",
            hint="set file_private_addresses if it is yours, or on_missing_file to record",
        )
    return addresses


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, and so is the IPv4 address that it may stand for."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inside = _inside(address)
    if isinstance(address, ipaddress.IPv6Address) and not inside and address not in _UNICAST:
        return False
    return all(each.is_global and not each.is_multicast for each in (address, *inside))


def _inside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Sequence[ipaddress.IPv4Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return []
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        inside.append(ipaddress.IPv4Address(int(address) & ((1 << _IPv4) - 1)))
    return [each for each in inside if each is not None]


def connect(address: str, port: int, seconds: float) -> socket.socket:
    """A connection. Raises ``OSError``."""
    return socket.create_connection((address, port), seconds)


class Connection(http.client.HTTPSConnection):
    """Connects to one of the addresses that ``addresses`` gives, and to no other, whatever the name of the host means
    by then; the certificate is that of the name. ``deadline`` is set before each request."""

    deadline: Deadline

    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext, addresses: Callable[[], Sequence[str]], connect: Connect
    ) -> None:
        super().__init__(host.strip("[]"), port, context=tls)
        # Some releases of Python 3.11 have OpenSSL 3 take every end of a connection for one that TLS tells.
        tls.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
        self._tls = tls
        self._addresses = addresses
        self._connect = connect

    def connect(self) -> None:
        """Raises ``OSError``, ``UnreadableSourceError``."""
        plain = self._connected()
        try:
            plain.settimeout(min(self.deadline.left(), _CONNECT_SECONDS))
            # Where a body has no length, only the end that TLS tells shows that it is whole.
            secure = self._tls.wrap_socket(plain, server_hostname=self.host, suppress_ragged_eofs=False)
            self.sock: Any = _TimedSocket(secure, self)
        except BaseException:
            plain.close()
            raise

    def end(self, response: http.client.HTTPResponse) -> None:
        """Close it, though the body of a response may not be read to its end."""
        response.close()
        self.close()

    def _connected(self) -> socket.socket:
        failed: OSError | None = None
        for address in self._addresses():
            try:
                return self._connect(address, self.port, min(self.deadline.left(), _CONNECT_SECONDS))
            except OSError as error:
                failed = error
        raise failed or UnreadableSourceError("its host has no address", hint=CORRECT)


class _TimedSocket:
    """What ``http.client`` asks of a socket. No server can draw a wait out by sending a byte now and then: each wait
    for one ends with the deadline. As with a socket, what ``makefile`` gave can be read after ``close``."""

    def __init__(self, inner: ssl.SSLSocket, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection
        self._readers = 0
        self._closed = False

    def sendall(self, data: bytes) -> None:
        self._inner.settimeout(self._connection.deadline.left())
        self._inner.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        self._readers += 1
        return io.BufferedReader(_Received(self), _BUFFER)

    def receive_into(self, buffer: Any) -> int:
        while True:
            self._inner.settimeout(min(self._connection.deadline.left(), _STEP))
            try:
                return self._inner.recv_into(buffer)
            except TimeoutError:
                # The deadline says whether it is time to give up.
                continue

    def close(self) -> None:
        self._closed = True
        self._close_unread()

    def end_reader(self) -> None:
        self._readers -= 1
        self._close_unread()

    def _close_unread(self) -> None:
        if self._closed and not self._readers:
            with suppress(OSError):
                self._inner.close()


class _Received(io.RawIOBase):
    def __init__(self, timed: _TimedSocket) -> None:
        self._timed = timed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._timed.receive_into(buffer)

    def close(self) -> None:
        if not self.closed:
            self._timed.end_reader()
        super().close()


@contextmanager
def translated() -> Iterator[None]:
    """Raises ``UnreadableSourceError`` in the place of what connections raise. It holds nothing that a server sent."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise UnreadableSourceError("the certificate of its host is not trusted", hint=_NOT_TRUSTED) from error
    except http.client.HTTPException as error:
        raise UnreadableSourceError("the server does not answer as HTTP asks", hint=CORRECT, passing=True) from error
    except OSError as error:
        raise UnreadableSourceError("the connection to its host fails", hint=CORRECT, passing=True) from error


REDIRECTS = 5
"""How many are followed, one after the other."""
_LEADS_ON = (301, 302, 303, 307, 308)
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which a server may do what it did not do now."""
_IDLE = 32
"""Connections to one server that are kept for the next file."""
_HEADERS = {"User-Agent": "singerlake", "Accept": "*/*", "Accept-Encoding": "identity"}
_ENCODED = {"gzip": "application/gzip", "x-gzip": "application/gzip"}
_OTHER = "application/octet-stream"


def trusting() -> ssl.SSLContext:
    """Trust in the authorities of the system and of certifi, or in those that ``SSL_CERT_*`` names alone."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        with suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


@dataclass
class WebFiles:
    """The files at URLs that ``allowed`` lists, at public addresses, with ``private`` at any. For several threads."""

    allowed: Allowed
    _: KW_ONLY
    private: bool = False
    resolve: Resolve = resolve
    connect: Connect = connect
    tls: Callable[[], ssl.SSLContext] = trusting
    _tls: ssl.SSLContext | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle: dict[tuple[str, int], list[Connection]] = field(default_factory=dict)

    def open(self, location: WebFile, deadline: Deadline) -> OpenedFile:
        """Ask for a file, and give its body as it comes. Raises ``UnreadableSourceError``, and ``CancelledError``."""
        asked = location
        for _ in range(REDIRECTS + 1):
            self.allowed.require(asked)
            connection, response = self._answer(asked, deadline)
            if response.status not in _LEADS_ON:
                break
            connection.end(response)
            asked = redirected(asked, response.getheader("Location") or "")
        else:
            raise UnreadableSourceError(f"the server redirects more than {REDIRECTS} times", hint=CORRECT)
        if response.status != http.HTTPStatus.OK:
            connection.end(response)
            raise UnreadableSourceError(
                f"the server answers {response.status}", hint=CORRECT, passing=response.status in _PASSING
            )
        if not response.chunked and _field(response, "Transfer-Encoding") != "identity":
            connection.end(response)
            raise UnreadableSourceError("the server sends the file in an encoding that was not asked for", hint=CORRECT)
        # As http.client understands it, since that is where the body ends.
        size = response.length
        body = _Body(response, connection, size, lambda: self._keep(asked, connection))
        return OpenedFile(body, size, location.name, _media_type(response))

    def close(self) -> None:
        """Close what is kept for the next file."""
        with self._lock:
            kept, self._idle = self._idle, {}
        for connections in kept.values():
            for connection in connections:
                connection.close()

    def _answer(self, location: WebFile, deadline: Deadline) -> tuple[Connection, http.client.HTTPResponse]:
        """A connection that was kept may be closed by now: another one takes its place."""
        while True:
            kept = self._kept(location)
            connection = kept or self._new(location)
            connection.deadline = deadline
            try:
                return connection, _ask(connection, location)
            except UnreadableSourceError as error:
                connection.close()
                if kept is None or not error.passing:
                    raise
                deadline.left()
            except BaseException:
                connection.close()
                raise

    def _new(self, location: WebFile) -> Connection:
        host, port = location.host, location.port
        with self._lock:
            if self._tls is None:
                self._tls = self.tls()
            tls = self._tls
        return Connection(
            host,
            port,
            tls,
            lambda: checked_addresses(host, port, private=self.private, resolve=self.resolve),
            self.connect,
        )

    def _kept(self, location: WebFile) -> Connection | None:
        with self._lock:
            idle = self._idle.get((location.host, location.port))
            return idle.pop() if idle else None

    def _keep(self, location: WebFile, connection: Connection) -> None:
        with self._lock:
            idle = self._idle.setdefault((location.host, location.port), [])
            if len(idle) < _IDLE:
                idle.append(connection)
                return
        connection.close()


@dataclass
class _Body:
    """The body of a response as it was sent. ``whole`` is called once the connection can take another request."""

    response: http.client.HTTPResponse
    connection: Connection
    left: int | None
    whole: Callable[[], None]
    _open: bool = True

    def read(self, size: int, /) -> bytes:
        if not self._open:
            return b""
        with translated():
            data = self.response.read1(size)
        if self.left is not None:
            self.left -= len(data)
        if self.left == 0 or (not data and self.left is None):
            self._open = False
            self.response.close()
            if self.response.will_close:
                self.connection.close()
            else:
                self.whole()
        return data

    def close(self) -> None:
        if self._open:
            self._open = False
            self.connection.end(self.response)


def _ask(connection: Connection, location: WebFile) -> http.client.HTTPResponse:
    with translated():
        connection.putrequest("GET", location.target, skip_accept_encoding=True)
        for name, value in _HEADERS.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()


def _media_type(response: http.client.HTTPResponse) -> str | None:
    encoding = _field(response, "Content-Encoding")
    if encoding != "identity":
        return _ENCODED.get(encoding, _OTHER)
    return media_type_in(response.getheader("Content-Type") or "")


def _field(response: http.client.HTTPResponse, name: str) -> str:
    return (response.getheader(name) or "identity").strip().lower()
