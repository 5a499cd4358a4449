"""Whether a server is asked before a body is sent, by ``Expect: 100-continue`` (RFC 9110, section 10.1.1).

botocore asks before each file, which takes as long as the request itself. But a server that refuses may close the
connection before it has read the body, and then its answer may be lost: of a TLS connection that closes while it sends,
urllib3 reads none. Asked first, the server refuses before any body is sent. So it is asked after a connection broke.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

_asks: ContextVar[bool] = ContextVar("singerlake_asks_first", default=False)


def ask_above(client: Any, size: int) -> None:
    """Have a client of S3 send bodies with their headers. It asks only before a conditional write of more than ``size``
    bytes. A server that does not want to be asked gets the request again without the question."""
    from botocore.utils import determine_content_length

    def decide(params: dict[str, Any], **_: object) -> None:
        headers = params["headers"]
        conditional = "If-None-Match" in headers or "If-Match" in headers
        if not conditional or (determine_content_length(params["body"]) or 0) <= size:
            headers.pop("Expect", None)
        if _asks.get():
            ask(params)

    def unasked(response: tuple[Any, Any] | None, request_dict: dict[str, Any], **_: object) -> int | None:
        refused = response is not None and response[0].status_code == HTTPStatus.EXPECTATION_FAILED
        return 0 if refused and request_dict["headers"].pop("Expect", None) else None

    client.meta.events.register_last("before-call.s3", decide)
    client.meta.events.register_last("needs-retry.s3", unasked)


def ask(request: dict[str, Any]) -> None:
    """Have a request, as botocore describes it, ask before it sends its body, if it has one."""
    body = request["body"]
    if body.getbuffer().nbytes if isinstance(body, io.BytesIO) else body:
        request["headers"]["Expect"] = "100-continue"


class Tries:
    """The tries of one write."""

    def __init__(self) -> None:
        self._broke = False

    @contextmanager
    def another(self) -> Iterator[None]:
        """The next try is made in the block. It asks first if the connection broke in an earlier one."""
        from botocore.exceptions import ConnectionError, HTTPClientError

        asking = _asks.set(self._broke)
        try:
            yield
        except (ConnectionError, HTTPClientError):
            self._broke = True
            raise
        finally:
            _asks.reset(asking)
