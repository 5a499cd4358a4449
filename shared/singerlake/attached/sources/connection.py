"""One connection to a web server: to which addresses it may go, and that it ends when the time of its file does."""

from __future__ import annotations

import http.client
import io
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from singerlake.attached.sources.locations import CORRECT
from singerlake.attached.sources.source import Deadline
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
"""All that was given out of IPv6. Python counts what lies outside as global where no registry has a name for it, also
where such addresses once stood for IPv4 ones or for those of a site."""
_IPv4 = 32
Connect = Callable[[str, int, float], socket.socket]
"""Connects to an address and a port within so many seconds. Raises ``OSError``."""


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses that the system knows, each once, in its order. Raises ``OSError``."""
    found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def checked_addresses(host: str, port: int, *, private: bool, resolve: Resolve) -> Sequence[str]:
    """The addresses of a host, all of which are of the public internet, unless ``private`` ones are allowed. Raises
    ``UnreadableSourceError``."""
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
