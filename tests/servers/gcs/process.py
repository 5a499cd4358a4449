"""The server behind ``tests.servers.gcs.server``: each request is atomic, and it misbehaves on demand.

Runs until its standard input ends, which is when its parent does. ``/_control`` takes faults and commands (POST), gives
and forgets the requests seen (GET), and clears both (DELETE). ``/token`` gives access tokens, which are the only ones
that count; requests without any are anonymous.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote

from werkzeug.serving import WSGIRequestHandler, make_server

from tests.servers.gcs.api import Api, Call, Reply
from tests.servers.gcs.objects import Refusal

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


class _Dropped(ConnectionAbortedError):
    """Ends a request without a reply, or without the rest of it."""


class Application:
    """The API, with faults in front of and behind it."""

    def __init__(self) -> None:
        self._api = Api()
        self._lock = threading.Lock()
        self._faults: list[dict[str, Any]] = []
        self._seen: list[dict[str, Any]] = []
        self._tokens: set[str] = set()
        self._given = 0
        self._anonymous = True

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        call = _call(environ)
        with self._lock:
            reply = self._control(call) if call.path == "/_control" else self._answer(environ, call)
        headers = {"Content-Length": str(len(reply.body)), **reply.headers}
        start_response(f"{reply.status} Answer", list(headers.items()))
        if environ.pop("tests.truncate", False):
            return _truncated(environ, reply.body)
        return [reply.body]

    def _control(self, call: Call) -> Reply:
        seen = list(self._seen)
        asked = json.loads(call.body) if call.body else {}
        if call.method == "POST" and "kind" in asked:
            self._faults.append(asked)
        elif call.method == "POST":
            self._anonymous = asked.get("anonymous", self._anonymous)
            if asked.get("expire"):
                self._tokens.clear()
            if "keep" in asked:
                self._api.objects.keep(asked["keep"], asked["by"], asked["name_contains"])
        else:
            self._seen.clear()
        if call.method == "DELETE":
            self._faults.clear()
            self._anonymous = True
        return Reply(200, json.dumps(seen).encode(), {"Content-Type": "application/json"})

    def _answer(self, environ: Environ, call: Call) -> Reply:
        try:
            self._api.understand(call)
            if call.path == "/token":
                call.operation = "token"
            self._note(call)
            fault = self._fault_for(call)
            kind = fault["kind"] if fault else ""
            if kind == "drop_request":
                raise _hang_up(environ)
            if kind == "error" and fault and not fault["after"]:
                return _refused(fault)
            if kind == "page":
                return Reply(200, b"<html>welcome</html>", {"Content-Type": "text/html"})
            if kind == "ignore_conditions":
                call.query.pop("ifGenerationMatch", None)
            if call.operation == "token":
                return self._token()
            self._check_token(call)
            reply = self._api.answer(call, part_of_block=kind == "part_of_block")
            if kind in ("drop_reply", "part_of_block"):
                raise _hang_up(environ)
            if kind == "error" and fault:
                return _refused(fault)
            if kind == "truncate":
                environ["tests.truncate"] = True
            return reply
        except Refusal as refusal:
            return Reply(refusal.status, refusal.body(), {"Content-Type": "application/json", **refusal.headers})

    def _token(self) -> Reply:
        self._given += 1
        token = f"secret-token-{self._given}"
        self._tokens.add(token)
        given = {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}
        return Reply(200, json.dumps(given).encode(), {"Content-Type": "application/json"})

    def _check_token(self, call: Call) -> None:
        shown = call.headers.get("authorization", "").removeprefix("Bearer ")
        if shown and shown not in self._tokens:
            raise Refusal(401, "authError", "Invalid Credentials")
        if not shown and not self._anonymous:
            message = "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object."
            raise Refusal(401, "required", message)

    def _note(self, call: Call) -> None:
        self._seen.append(
            {
                "operation": call.operation,
                "name": call.name,
                "query": call.query,
                "headers": {key: value for key, value in call.headers.items() if key != "authorization"},
                "authorized": "authorization" in call.headers,
                "size": len(call.body),
            }
        )

    def _fault_for(self, call: Call) -> dict[str, Any] | None:
        """The first fault that this request meets, one of whose times is thereby used up."""
        conditional = "ifGenerationMatch" in call.query
        for fault in self._faults:
            if (
                fault["times"] != 0
                and call.operation in fault["operations"]
                and fault["name_contains"] in call.name
                and (conditional or not fault["conditional_only"])
            ):
                fault["times"] -= 1
                return fault
        return None


def _call(environ: Environ) -> Call:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    if "CONTENT_TYPE" in environ:
        headers["content-type"] = environ["CONTENT_TYPE"]
    path, _, query = environ["REQUEST_URI"].partition("?")
    return Call(
        environ["REQUEST_METHOD"],
        path if "%" in path else unquote(path),
        dict(parse_qsl(query, keep_blank_values=True)),
        headers,
        _body(environ),
        environ.get("HTTP_HOST", ""),
    )


def _body(environ: Environ) -> bytes:
    """The whole request body, before anything happens: a request cut off in the middle has no effect."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body: bytes = environ["wsgi.input"].read(length)
    if len(body) != length:
        raise _hang_up(environ)
    return body


def _hang_up(environ: Environ) -> _Dropped:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    return _Dropped()


def _truncated(environ: Environ, reply: bytes) -> Iterator[bytes]:
    yield reply[: len(reply) // 2]
    raise _hang_up(environ)


def _refused(fault: dict[str, Any]) -> Reply:
    body = Refusal(fault["status"], fault["reason"], fault["message"]).body() if fault["reason"] else b"<html>no</html>"
    headers = {"Retry-After": fault["retry_after"]} if fault["retry_after"] else {}
    return Reply(fault["status"], body, {"Content-Type": "application/json", **headers})


class _Handler(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: object) -> None:
        """Say nothing: tests read the requests from the control path."""


def main() -> None:
    """Serve on a free port of 127.0.0.1, say which on standard output, end with standard input."""
    server = make_server("127.0.0.1", 0, Application(), threaded=True, request_handler=_Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
