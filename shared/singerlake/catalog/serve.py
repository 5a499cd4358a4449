"""Serving the catalog over HTTP until a signal ends it."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from singerlake.catalog.rest import application
from singerlake.errors import SettingError
from singerlake.storage.port import Storage

_PATIENCE = 5
"""Seconds that requests have to end after a signal."""


def serve(
    storage: Storage,
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[str], object],
    files: Callable[[str], bytes | None] | None = None,
    metrics: Callable[[], str] | None = None,
) -> None:
    """Answer requests at ``host`` and ``port``, 0 for one that is free; ``ready`` gets the URL. ``token``, ``files``
    and ``metrics`` are those of ``application``. Raises ``SettingError`` where the port cannot be had."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)).lower()
        raise SettingError(
            f"{host}:{port} cannot be listened at: {reason}", hint="give another --port or --host"
        ) from error
    with listening:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}")
        answers = application(storage, token, files, metrics)
        config = uvicorn.Config(
            AskedHere(answers) if token is None and is_own(host) else answers,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE,
        )
        uvicorn.Server(config).run(sockets=[listening])


class AskedHere:
    """Lets requests through that name this machine. A web page elsewhere could have its own name lead here, and what a
    browser then reads is the page's to read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_own(_host(Headers(scope=scope).get("host", ""))):
            answer = PlainTextResponse("ask at 127.0.0.1 or localhost, or serve with a token\n", status_code=403)
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _host(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_own(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
