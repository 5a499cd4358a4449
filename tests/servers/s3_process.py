"""The S3 server behind ``tests.servers.s3``: moto over HTTP, made atomic, and able to misbehave on demand.

moto checks a condition and then writes without a lock, so two requests can both win; here one lock makes every
request atomic, as a real store is. Runs until its standard input ends, which is when its parent does. ``/_control``
takes faults (POST), gives and forgets the requests seen (GET), and clears both (DELETE).
"""

from __future__ import annotations

import functools
import io
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Reply = tuple[str, list[tuple[str, str]], bytes]

_STATUS_LINES = {
    400: "400 Bad Request",
    403: "403 Forbidden",
    404: "404 Not Found",
    405: "405 Method Not Allowed",
    409: "409 Conflict",
    412: "412 Precondition Failed",
    429: "429 Too Many Requests",
    500: "500 Internal Server Error",
    501: "501 Not Implemented",
    503: "503 Slow Down",
}
_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


class _Dispatcher(DomainDispatcherApplication):
    """moto's own lists all its modules in their folder at each request, half of what a request takes."""

    get_backend_for_host = functools.cache(DomainDispatcherApplication.get_backend_for_host)


class _Dropped(ConnectionAbortedError):
    """Ends a request without a reply, or without the rest of it."""


def hang_up(environ: Environ) -> _Dropped:
    """Close the client's connection; raise what this gives."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    return _Dropped()


class Application:
    """moto as one atomic application, with faults in front of and behind it."""

    def __init__(self, access_key_id: str) -> None:
        self._moto = _Dispatcher(create_backend_app)
        self._access_key_id = access_key_id
        self._moto_lock = threading.Lock()
        self._lock = threading.Lock()
        self._faults: list[dict[str, Any]] = []
        self._seen: list[dict[str, Any]] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = read_body(environ)
        if environ["PATH_INFO"] == "/_control":
            status, headers, reply = self._control(environ["REQUEST_METHOD"], body)
        elif "/s3/aws4_request" in environ.get("HTTP_AUTHORIZATION", ""):
            status, headers, reply = self._s3(environ, body)
        else:
            self._note(environ, body.decode("latin-1"))
            status, headers, reply = self._forward(environ, body)
        start_response(status, headers)
        if environ.pop("tests.truncate", False):
            return _truncated(environ, reply)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [reply]

    def _control(self, method: str, body: bytes) -> Reply:
        with self._lock:
            seen = list(self._seen)
            if method == "POST":
                self._faults.append(json.loads(body))
            else:
                self._seen.clear()
            if method == "DELETE":
                self._faults.clear()
        return "200 OK", [("Content-Type", "application/json")], json.dumps(seen).encode()

    def _s3(self, environ: Environ, body: bytes) -> Reply:
        self._note(environ, environ.get("QUERY_STRING", ""))
        key_id = re.search(r"Credential=([^/]+)/", environ["HTTP_AUTHORIZATION"])
        # moto's STS hands out key ids that begin with ASIA to whoever assumes a role
        if key_id is None or (key_id[1] != self._access_key_id and not key_id[1].startswith("ASIA")):
            return _error(403, "InvalidAccessKeyId")
        fault = self._fault_for(environ)
        kind = fault["kind"] if fault else ""
        if kind == "ignore_conditions":
            for name in _CONDITIONS:
                environ.pop(name, None)
        elif kind == "decode_copy_sources_twice" and "HTTP_X_AMZ_COPY_SOURCE" in environ:
            environ["HTTP_X_AMZ_COPY_SOURCE"] = unquote(environ["HTTP_X_AMZ_COPY_SOURCE"])
        elif kind == "refuse_quoted_etags" and environ.get("HTTP_IF_MATCH", "").startswith('"'):
            return _error(412, "PreconditionFailed")
        elif kind == "drop_request":
            raise hang_up(environ)
        elif kind == "error" and fault and not fault["after"]:
            return _error(fault["status"], fault["code"])
        reply = self._forward(environ, body)
        if kind == "drop_reply":
            raise hang_up(environ)
        if kind == "error" and fault and fault["after"]:
            return _error(fault["status"], fault["code"])
        if kind == "truncate":
            environ["tests.truncate"] = True
        return reply

    def _note(self, environ: Environ, query: str) -> None:
        headers = {
            name[5:].replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_") and name not in ("HTTP_AUTHORIZATION", "HTTP_X_AMZ_SECURITY_TOKEN")
        }
        with self._lock:
            self._seen.append(
                {
                    "method": environ["REQUEST_METHOD"],
                    "path": environ["PATH_INFO"].encode("latin-1").decode(errors="replace"),
                    "query": query,
                    "headers": headers,
                }
            )

    def _fault_for(self, environ: Environ) -> dict[str, Any] | None:
        """The first fault that this request meets, one of whose times is thereby used up."""
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        conditional = any(name in environ for name in _CONDITIONS)
        with self._lock:
            for fault in self._faults:
                if (
                    fault["times"] != 0
                    and environ["REQUEST_METHOD"] in fault["methods"]
                    and fault["key_contains"] in path
                    and (conditional or not fault["conditional_only"])
                ):
                    fault["times"] -= 1
                    return fault
        return None

    def _forward(self, environ: Environ, body: bytes) -> Reply:
        environ["wsgi.input"] = io.BytesIO(body)
        environ["CONTENT_LENGTH"] = str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        started: list[Any] = []
        with self._moto_lock:
            chunks = self._moto(environ, lambda status, headers, exc_info=None: started.extend((status, headers)))
            reply = b"".join(chunks)
        return started[0], started[1], reply


def read_body(environ: Environ) -> bytes:
    """The whole request body, before anything happens: a request cut off in the middle has no effect."""
    if environ.get("HTTP_TRANSFER_ENCODING", "") == "chunked":
        return bytes(environ["wsgi.input"].read())
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) != length:
        raise hang_up(environ)
    return body


def _truncated(environ: Environ, reply: bytes) -> Iterator[bytes]:
    yield reply[: len(reply) // 2]
    raise hang_up(environ)


def _error(status: int, code: str) -> Reply:
    text = f"<Error><Code>{code}</Code><Message>injected</Message></Error>" if code else "<html>no code</html>"
    return _STATUS_LINES[status], [("Content-Type", "application/xml")], text.encode()


class _Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        """Say nothing: tests read the requests from the control path."""


def serve(application: Application) -> None:
    """Serve on a free port of 127.0.0.1, say which on standard output, end with standard input."""
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    # Entries of one answer to a listing; Amazon gives ten times as many.
    os.environ["MOTO_S3_DEFAULT_MAX_KEYS"] = "100"
    serve(Application(sys.argv[1]))
