"""Whether a server is asked before a body is sent, by ``Expect: 100-continue`` (RFC 9110, section 10.1.1).

botocore asks before each file, which takes as long as the request itself. But a server that refuses may close the
connection before it has read the body, and then its answer may be lost: of a TLS connection that closes while it sends,
urllib3 reads none. Asked first, the server refuses before any body is sent. So it is asked after a connection broke.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import Any


class _Broken(threading.local):
    """The request with a body whose connection broke last, by its method and URL. The thread that sent it sends it
    again."""

    request: tuple[str, str] | None = None


def ask_above(client: Any, size: int) -> None:
    """Have a client of S3 send bodies with their headers. It asks only before a conditional write of more than ``size``
    bytes, and when it sends again what broke off. A server that does not want to be asked gets the request again
    without the question."""
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
