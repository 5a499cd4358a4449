"""One connection to a web server, which ends when the time of the file that it is used for does."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from singerlake.attached.sources.locations import CORRECT
from singerlake.attached.sources.source import Deadline
from singerlake.errors import UnreadableSourceError

_CONNECT_SECONDS = 10.0
"""For each address, and again for the handshake."""
_STEP = 1.0
"""Seconds after which a wait looks whether the run ends."""
_BUFFER = 1 << 16

Connect = Callable[[str, int, float], socket.socket]
"""Connects to an address and a port within so many seconds. Raises ``OSError``."""


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
        self._tls = tls
        self._addresses = addresses
        self._connect = connect

    def connect(self) -> None:
        """Raises ``OSError``, ``UnreadableSourceError``."""
        plain = self._connected()
        try:
            plain.settimeout(min(self.deadline.left(), _CONNECT_SECONDS))
            self.sock: Any = _TimedSocket(self._tls.wrap_socket(plain, server_hostname=self.host), self)
        except BaseException:
            plain.close()
            raise

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
    for one ends with the deadline."""

    def __init__(self, inner: ssl.SSLSocket, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection

    def sendall(self, data: bytes) -> None:
        self._inner.settimeout(self._connection.deadline.left())
        self._inner.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Received(self._inner, self._connection), _BUFFER)

    def close(self) -> None:
        with suppress(OSError):
            self._inner.close()


class _Received(io.RawIOBase):
    def __init__(self, inner: ssl.SSLSocket, connection: Connection) -> None:
        self._inner = inner
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            self._inner.settimeout(min(self._connection.deadline.left(), _STEP))
            try:
                return self._inner.recv_into(buffer)
            except TimeoutError:
                # The deadline says whether it is time to give up.
                continue
