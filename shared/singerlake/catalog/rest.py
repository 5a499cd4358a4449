"""The Iceberg REST catalog of a lake, read-only: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml

It keeps nothing: each answer is what the lake has at that moment, so that any number of processes may run. The tables
are those that Iceberg metadata describe, all in the namespace ``published``, the folder where they are.
"""

from __future__ import annotations

import base64
import hmac
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from singerlake.errors import AccessDeniedError, LakeError, SettingError, SingerlakeError
from singerlake.storage.port import Storage
from singerlake.tables.description import url_of
from singerlake.tables.iceberg.metadata import read, version_key
from singerlake.tables.iceberg.publish import has_log
from singerlake.tables.state.commit import load, tables
from singerlake.tables.state.keys import PUBLISHED, table_prefix
from singerlake.work.parallel import in_parallel

logger = logging.getLogger(__name__)

NAMESPACE = PUBLISHED
_NAMESPACES = "/v1/namespaces"
_TABLES = f"{_NAMESPACES}/{{namespace}}/tables"
_LOOKS = 64
"""Tables that are looked for at once, since each look is a request that waits."""
_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)
"""What clients may ask for, in the words of the protocol."""
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""Of a site's files; what a page may load it says itself."""


class _RefusedError(Exception):
    """Ends a request: the HTTP ``status``, and the ``kind`` of error that clients know."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def application(
    storage: Storage,
    token: str | None = None,
    files: Callable[[str], bytes | None] | None = None,
    metrics: Callable[[], str] | None = None,
) -> ASGIApp:
    """The catalog as an ASGI application. ``token``: who does not send it, as a bearer token or as a password, gets
    401. ``files``: those of a site by their paths, which are at all other paths. ``metrics``: the text for Prometheus,
    at ``/metrics``."""

    def config(request: Request) -> Response:
        return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": _ENDPOINTS})

    def namespaces(request: Request) -> Response:
        below = request.query_params.get("parent")
        if below is not None:
            _require_namespace(below)
        return JSONResponse({"namespaces": [] if below is not None else [[NAMESPACE]], "next-page-token": None})

    def namespace(request: Request) -> Response:
        _require_namespace(request.path_params["namespace"])
        return _shown(request, lambda: {"namespace": [NAMESPACE], "properties": {}})

    def listing(request: Request) -> Response:
        _require_namespace(request.path_params["namespace"])
        names = tables(storage)
        described = in_parallel(partial(_is_described, storage), names, threads=_LOOKS)
        found = [name for name, is_there in zip(names, described, strict=True) if is_there]
        identifiers = [{"namespace": [NAMESPACE], "name": name} for name in found]
        return JSONResponse({"identifiers": identifiers, "next-page-token": None})

    def table(request: Request) -> Response:
        _require_namespace(request.path_params["namespace"])
        name = request.path_params["table"]
        newest = read(storage, name) if name in tables(storage) and _is_described(storage, name) else None
        if newest is None or not newest.version:
            raise _RefusedError(404, "NoSuchTableException", f"Table does not exist: {NAMESPACE}.{name}")
        if newest.body is None:
            what = "has metadata of another place or of others; run 'singerlake catalog sync'"
            raise _RefusedError(404, "NoSuchTableException", f"Table {NAMESPACE}.{name} {what}")
        tag = f'"{newest.body["table-uuid"]}-{newest.version}"'
        if tag in [each.strip() for each in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers={"ETag": tag})
        within = version_key(name, newest.version).removeprefix(table_prefix(name))
        told = {"metadata-location": f"{url_of(storage, name)}/{within}", "metadata": newest.body, "config": {}}
        return _shown(request, lambda: told, {"ETag": tag})

    def health(request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    def measured(request: Request) -> Response:
        assert metrics is not None
        return Response(metrics(), media_type="text/plain; version=0.0.4")

    def file(request: Request) -> Response:
        assert files is not None
        path = request.path_params["path"] or "index.html"
        body = files(path)
        if body is None:
            raise HTTPException(404)
        return Response(body, media_type=_TYPES[path.rpartition(".")[2]], headers=_HEADERS)

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, _RefusedError)
        return _error(error.status, error.kind, str(error))

    def failed(request: Request, error: Exception) -> Response:
        # What a lake's error says may name places that are nobody's business here.
        logger.warning("%s %r: %s", request.method, request.url.path, error)
        if isinstance(error, AccessDeniedError | SettingError):
            return _error(403, "ForbiddenException", "the catalog may not read the lake; its log says more")
        return _error(503, "ServiceUnavailableException", "the lake cannot be read now; the catalog's log says more")

    def nothing(request: Request, error: Exception) -> Response:
        return _error(404, "NotFoundException", "there is nothing at this path")

    def unsupported(request: Request, error: Exception) -> Response:
        return _error(406, "UnsupportedOperationException", "the catalog is read-only")

    get: list[tuple[str, Callable[[Request], Response]]] = [
        ("/v1/config", config),
        (_NAMESPACES, namespaces),
        (f"{_NAMESPACES}/{{namespace}}", namespace),
        (_TABLES, listing),
        (f"{_TABLES}/{{table}}", table),
        ("/healthz", health),
    ]
    if metrics is not None:
        get.append(("/metrics", measured))
    if files is not None:
        get.append(("/{path:path}", file))
    handlers: dict[Any, Any] = {_RefusedError: refused, SingerlakeError: failed, 404: nothing, 405: unsupported}
    middleware = [] if token is None else [Middleware(_Token, token=token)]
    return Starlette(
        routes=[Route(path, answer, methods=["GET"]) for path, answer in get],
        exception_handlers=handlers,
        middleware=middleware,
    )


def _is_described(storage: Storage, name: str) -> bool:
    """Whether Iceberg metadata go with a table."""
    try:
        found = load(storage, name)
    except LakeError:
        return False
    return found is not None and has_log(found.state)


def _require_namespace(name: str) -> None:
    if name != NAMESPACE:
        raise _RefusedError(404, "NoSuchNamespaceException", f"Namespace does not exist: {name}")


def _shown(request: Request, told: Callable[[], Any], headers: dict[str, str] | None = None) -> Response:
    """204 to who asks only whether it is there."""
    if request.method == "HEAD":
        return Response(status_code=204, headers=headers)
    return JSONResponse(told(), headers=headers)


def _error(status: int, kind: str, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": kind, "code": status}}, status_code=status)


class _Token:
    """Lets requests through that have the token, and those that ask whether the process lives."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = _given(dict(scope.get("headers", ())).get(b"authorization", b""))
        is_asked = scope["type"] == "http" and scope["path"] != "/healthz"
        if is_asked and not hmac.compare_digest(given, self._token):
            answer = _error(401, "NotAuthorizedException", "a bearer token is needed")
            # So that browsers ask for it.
            answer.headers["WWW-Authenticate"] = 'Basic realm="singerlake"'
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _given(header: bytes) -> bytes:
    """The token in a header: a bearer token, or the password of any user."""
    scheme, _, given = header.partition(b" ")
    if scheme.lower() == b"basic":
        with suppress(ValueError):
            return base64.b64decode(given).partition(b":")[2]
    return given if scheme.lower() == b"bearer" else b""
