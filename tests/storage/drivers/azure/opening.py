"""Storages over drivers of Azure, and a server that gives one answer to everything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from singerlake.clock import Clock, random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.patience import Patience

KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
"""An account key in shape, and no account's."""
Make = Callable[..., CloudStorage]


def opened(driver: AzureDriver, clock: Clock, *, patience: float = 60) -> CloudStorage:
    return CloudStorage(driver, Patience(patience, clock, place=driver.place), probe_max_wait=5, ids=random_id)


@contextmanager
def answering(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server that gives one answer to everything; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    for method in ("HEAD", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.do_GET)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/account"
    finally:
        server.shutdown()
        server.server_close()


def error_body(code: str, message: str = "in the server's words", more: str = "") -> bytes:
    return (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}\nTime:now</Message>{more}</Error>".encode()
    )
