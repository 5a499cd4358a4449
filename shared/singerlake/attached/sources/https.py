"""Files of web servers. Each URL, also that of a redirect, and each address that is connected to is checked; no proxy
is used, since it would look for the address itself."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

from singerlake.attached.media_types import media_type_in
from singerlake.attached.sources.allowed import Allowed
from singerlake.attached.sources.connection import (
    Connect,
    Connection,
    Resolve,
    checked_addresses,
    connect,
    resolve,
    translated,
)
from singerlake.attached.sources.locations import CORRECT, WebFile, redirected
from singerlake.attached.sources.source import Deadline, Source
from singerlake.errors import UnreadableSourceError

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


class WebFiles:
    """The files at the URLs that ``allowed`` lists. ``private``: also where their hosts have addresses that are not of
    the public internet. Safe to share between threads."""

    def __init__(
        self,
        allowed: Allowed,
        *,
        private: bool = False,
        resolve: Resolve = resolve,
        connect: Connect = connect,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._allowed = allowed
        self._private = private
        self._resolve = resolve
        self._connect = connect
        self._make_tls = tls or trusting
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, int], list[Connection]] = {}

    def open(self, location: WebFile, deadline: Deadline) -> Source:
        """Ask for a file, and give its body as it comes. Raises ``UnreadableSourceError``, and ``CancelledError``."""
        asked = location
        for _ in range(REDIRECTS + 1):
            self._allowed.require(asked)
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
        return Source(body, size, location.name, _media_type(response))

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
                self._tls = self._make_tls()
            tls = self._tls
        return Connection(
            host,
            port,
            tls,
            lambda: checked_addresses(host, port, private=self._private, resolve=self._resolve),
            self._connect,
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


class _Body:
    """The body of a response, as it was sent: what is compressed stays so. ``whole`` is called when it was read to its
    end, and the connection can take another request."""

    def __init__(
        self,
        response: http.client.HTTPResponse,
        connection: Connection,
        size: int | None,
        whole: Callable[[], None],
    ) -> None:
        self._response = response
        self._connection = connection
        self._left = size
        self._whole = whole
        self._open = True

    def read(self, size: int, /) -> bytes:
        if not self._open:
            return b""
        with translated():
            data = self._response.read1(size)
        if self._left is not None:
            self._left -= len(data)
        if self._left == 0 or (not data and self._left is None):
            self._open = False
            self._response.close()
            if self._response.will_close:
                self._connection.close()
            else:
                self._whole()
        return data

    def close(self) -> None:
        if self._open:
            self._open = False
            self._connection.end(self._response)


def _ask(connection: Connection, location: WebFile) -> http.client.HTTPResponse:
    with translated():
        connection.putrequest("GET", location.target, skip_accept_encoding=True)
        for name, value in _HEADERS.items():
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse()


def trusting() -> ssl.SSLContext:
    """Trust in the authorities of the system, and in those of certifi beside them; in those of ``SSL_CERT_FILE`` and
    ``SSL_CERT_DIR`` alone where one of these variables is set."""
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        with suppress(ImportError):
            import certifi

            context.load_verify_locations(certifi.where())
    return context


def _media_type(response: http.client.HTTPResponse) -> str | None:
    encoding = _field(response, "Content-Encoding")
    if encoding != "identity":
        return _ENCODED.get(encoding, _OTHER)
    return media_type_in(response.getheader("Content-Type") or "")


def _field(response: http.client.HTTPResponse, name: str) -> str:
    return (response.getheader(name) or "identity").strip().lower()
