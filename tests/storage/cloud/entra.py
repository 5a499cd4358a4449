"""What gives a machine of Azure tokens of Microsoft Entra: the managed identity of App Service, over HTTP.

with entra() as identity:
    environment |= identity.environment
    identity.refuse()

Its tokens are signed by nobody, which Azurite does not look at. https://learn.microsoft.com/azure/app-service/overview-managed-identity
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT_ID = "11111111-2222-3333-4444-555555555555"
"""As ``azure_client_id``: the one identity that there is."""
SECRET = "secret-header-of-the-identity"


class Entra:
    """A running server. ``given`` are the tokens so far; each lasts ``lasts`` seconds."""

    def __init__(self, url: str, lasts: int) -> None:
        self.environment = {"IDENTITY_ENDPOINT": f"{url}/token", "IDENTITY_HEADER": SECRET}
        self.given: list[str] = []
        self.lasts = lasts
        self.refuses = False

    def refuse(self) -> None:
        """Give no more tokens: the identity was taken from the machine."""
        self.refuses = True

    def answer(self, header: str) -> tuple[int, dict[str, str]]:
        """The status and the body for who shows this secret."""
        if self.refuses or header != SECRET:
            return 400, {"error": "invalid_request", "error_description": "Identity not found"}
        now = int(time.time())
        claims = {"iss": "https://sts.windows.net/tenant/", "aud": "https://storage.azure.com", "jti": len(self.given)}
        times = {"iat": now, "nbf": now - 5, "exp": now + self.lasts}
        parts = ({"alg": "none", "typ": "JWT"}, {**claims, **times})
        token = ".".join([*(_encoded(json.dumps(part).encode()) for part in parts), _encoded(b"secret-of-the-token")])
        self.given.append(token)
        return 200, {
            "access_token": token,
            "expires_on": str(now + self.lasts),
            "resource": "https://storage.azure.com",
            "token_type": "Bearer",
        }


@contextmanager
def entra(*, lasts: int = 3600) -> Iterator[Entra]:
    """A server on a free port of 127.0.0.1 whose tokens last so many seconds; it ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, found = running.answer(self.headers.get("X-IDENTITY-HEADER", ""))
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = Entra(f"http://127.0.0.1:{server.server_address[1]}", lasts)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")
