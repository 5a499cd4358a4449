"""The client by which S3 is reached, and whether a server is asked before a body is sent, by ``Expect: 100-continue``
(RFC 9110, section 10.1.1).

botocore asks before each file, which takes as long as the request itself. But a server that refuses may close the
connection before it has read the body, and urllib3 then may not read its answer. So it is asked after a connection
broke.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import Any

from singerlake.aws.session import client_of, in_session, region_for
from singerlake.aws.settings import S3Settings, is_amazon
from singerlake.storage.patience import Patience

_AT_ONCE = 1 << 20
"""Bytes of a conditional write that go with its headers. What came of a larger one that broke off would be unknown."""

_CONNECTIONS = 160
"""Connections that are kept for the next request: for 16 files that go up in eight parts at a time, and some more."""


def connect(settings: S3Settings, patience: Patience) -> Any:
    """A client of botocore for these settings. A silent retry of a conditional PUT whose reply was lost would show as a
    refusal by one's own write. Nothing is sent yet. Raises ``AccessDeniedError`` and ``SettingError``."""
    client = in_session(settings, lambda session: _client(session, settings), patience)
    ask_above(client, _AT_ONCE)
    return client


def _client(session: Any, settings: S3Settings) -> Any:
    client = _client_of(session, settings, settings.endpoint_url)
    endpoint = client.meta.endpoint_url
    if settings.endpoint_url is None and not is_amazon(endpoint):
        # The environment or the profile names it, and it needs what a server other than AWS needs.
        client = _client_of(session, settings, endpoint)
    return client


def _client_of(session: Any, settings: S3Settings, endpoint_url: str | None) -> Any:
    path_style = bool(endpoint_url) if settings.path_style is None else settings.path_style
    style = "path" if path_style else "auto" if settings.path_style is None else "virtual"
    options: dict[str, Any] = {"s3": {"addressing_style": style}, "max_pool_connections": _CONNECTIONS}
    if endpoint_url:
        # Most stores other than AWS refuse the checksum trailers that botocore adds by default; some answer a range
        # with the checksum of the whole object.
        options["request_checksum_calculation"] = "when_required"
        options["response_checksum_validation"] = "when_required"
    region = region_for(settings, session, endpoint_url)
    return client_of(session, "s3", region=region, endpoint_url=endpoint_url, read_timeout=60, **options)


class _Broken(threading.local):
    """The last request with a body whose connection broke, by method and URL; its own thread sends it again."""

    request: tuple[str, str] | None = None


def ask_above(client: Any, size: int) -> None:
    """Have a client of S3 send bodies with their headers. It asks only before a conditional write of more than ``size``
    bytes, and before sending again; a server that does not want to be asked is not."""
    from botocore.utils import determine_content_length

    broken = _Broken()

    def decide(params: dict[str, Any], **_: object) -> None:
        headers, length = params["headers"], determine_content_length(params["body"]) or 0
        conditional = "If-None-Match" in headers or "If-Match" in headers
        if length and (broken.request == _named(params) or (conditional and length > size)):
            headers["Expect"] = "100-continue"
        else:
            headers.pop("Expect", None)

    def answered(response: tuple[Any, Any] | None, request_dict: dict[str, Any], **_: object) -> int | None:
        named = _named(request_dict)
        if response is None:
            if request_dict["body"]:
                broken.request = named
            return None
        if broken.request == named:
            broken.request = None
        refused = response[0].status_code == HTTPStatus.EXPECTATION_FAILED
        return 0 if refused and request_dict["headers"].pop("Expect", None) else None

    client.meta.events.register_last("before-call.s3", decide)
    client.meta.events.register_last("needs-retry.s3", answered)


def _named(request: dict[str, Any]) -> tuple[str, str]:
    return request["method"], request["url"]
