"""How requests reach Azure: each is sent once, its answer is read whole, and what breaks says so without a URL.

The SDK reads a body piece by piece, and asks again by itself where one breaks off. Its errors quote the URL, which
holds the SAS token. So the answer is read here, and an error is made anew from what matters of it.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from singerlake.storage.failures import causes, is_unknown_host, is_untrusted, masked, system_says

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_CONNECTIONS = 64
_SENT_AT_ONCE = 1 << 18
_BROKEN = "singerlake_broken"
_OF_STORAGE = "singerlake_of_storage"
_SIGNATURE = re.compile(r"(?i)(\bsig(?:nature)?=)[^&\s'\"<>]+")


@dataclass(frozen=True, slots=True)
class Broken:
    """Why there was no answer. The server may have got what was ``sent``; a ``stranger`` is not Azure."""

    kind: str
    sent: bool
    untrusted: bool = False
    no_such_host: bool = False
    stranger: bool = False
    reason: str | None = None


def broken(error: object) -> Broken | None:
    """What is known of an error of this transport; None for all others."""
    known: Broken | None = getattr(error, _BROKEN, None)
    return known


def is_of_storage(response: object) -> bool:
    """Whether an answer came by this transport: those that get tokens have their own."""
    return hasattr(response, _OF_STORAGE)


def without_secrets(text: str, secrets: tuple[str, ...]) -> str:
    """A text that a server or a library says, with what opens a lake left out."""
    return _SIGNATURE.sub(r"\1***", masked(text, secrets))


def transport(secrets: tuple[str, ...]) -> Any:
    """A transport for the SDK, safe to share between threads. The timeouts are those of the other storages."""
    from azure.core.exceptions import AzureError
    from azure.core.pipeline.transport import RequestsTransport
    from urllib3.exceptions import HTTPError

    class Transport(RequestsTransport):  # type: ignore[misc]  # which is loaded lazily, and so has no type
        def send(self, request: Any, *, proxies: Any = None, **kwargs: Any) -> Any:
            streamed = kwargs.pop("stream", False)
            failure: BaseException
            try:
                response = super().send(request, proxies=proxies, stream=True, **kwargs)
                _read(response.internal_response, secrets)
            except (AzureError, HTTPError, OSError) as error:
                failure = error
            else:
                if response.status_code < 400 and "x-ms-request-id" not in response.headers:
                    raise _error("what answers is not Azure Blob Storage", Broken("NotAzure", True, stranger=True))
                setattr(response, _OF_STORAGE, True)
                if not streamed and hasattr(response, "read"):
                    response.read()
                return response
            # Outside of the except block, so that no traceback leads to the error that quotes the URL.
            raise _error("no answer came", _known_of(failure))

    return Transport(session=_session(), connection_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS)


def _session() -> Any:
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
            options["socket_options"] = [
                *HTTPConnection.default_socket_options,
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ]
            options["blocksize"] = _SENT_AT_ONCE
            super().init_poolmanager(*arguments, **options)

    session = requests.Session()
    for scheme in ("https://", "http://"):
        session.mount(scheme, Adapter(pool_maxsize=_CONNECTIONS, max_retries=0))
    # What is stored is what is wanted, whatever encoding is noted beside it.
    session.headers["Accept-Encoding"] = "identity"
    # Else a password of ~/.netrc would take the place of the signature.
    session.auth = lambda request: request
    return session


def _read(reply: Any, secrets: tuple[str, ...]) -> None:
    """Read the body as it is, where requests would decode it."""
    body = reply.raw.read(decode_content=False)
    if reply.status_code >= 400:
        body = without_secrets(body.decode("utf-8", "replace"), secrets).encode()
    reply._content = body
    reply._content_consumed = True


def _error(message: str, known: Broken) -> Exception:
    from azure.core.exceptions import ServiceRequestError, ServiceResponseError

    make: Callable[[str], Exception] = ServiceResponseError if known.sent else ServiceRequestError
    error = make(f"{message}: {known.kind}")
    setattr(error, _BROKEN, known)
    return error


def _known_of(failure: BaseException) -> Broken:
    from urllib3 import exceptions as urllib3

    chain = list(causes(failure))
    never = (urllib3.NewConnectionError, urllib3.ConnectTimeoutError, urllib3.ProxyError, socket.gaierror)
    untrusted = any(isinstance(each, ssl.SSLError) and is_untrusted(each) for each in chain)
    return Broken(
        kind=type(next((each for each in reversed(chain) if isinstance(each, OSError)), chain[-1])).__name__,
        sent=not untrusted and not any(isinstance(each, never) for each in chain),
        untrusted=untrusted,
        no_such_host=is_unknown_host(failure),
        reason=system_says(failure),
    )
