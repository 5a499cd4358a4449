"""Serving the catalog over HTTP until a signal ends it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import uvicorn

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
) -> None:
    """Answer requests at ``host`` and ``port``, 0 for one that is free; ``ready`` gets the URL. ``token`` and ``files``
    are those of ``application``. Raises ``SettingError`` where the port cannot be had."""
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
        config = uvicorn.Config(
            application(storage, token, files),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_PATIENCE,
        )
        uvicorn.Server(config).run(sockets=[listening])
