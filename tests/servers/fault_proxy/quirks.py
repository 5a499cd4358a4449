"""What servers of S3 do to requests, each a switch of the HTTP fault proxy.

``copy-sources-decoded-twice``      the source of a copied part is looked for under its name decoded once too often
``delete-conditions-ignored``       DELETE acts whatever its condition
``multipart-conditions-ignored``    so does the completion of a multipart upload
``copy-conditions-ignored``         so does a copy, as to what is there under the new name
``only-bare-etags``                 a PUT under a quoted If-Match is refused with 412
``losers-get-500``                  of conditional PUTs of a key at the same moment, those that are refused beside one
                                    that is not meet 500 instead of 412

Ceph 16 does all of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from tests.servers.fault_proxy.request import Request

CEPH_16 = (
    "copy-sources-decoded-twice",
    "delete-conditions-ignored",
    "multipart-conditions-ignored",
    "copy-conditions-ignored",
    "only-bare-etags",
    "losers-get-500",
)
_CONDITIONS = ("if-match", "if-none-match")
_COPY = "x-amz-copy-source"


@dataclass
class _Seen:
    """One request as the server sees it, and what is answered. ``refusal`` is the answer that needs no server;
    ``rivals`` are those of the same key that were on their way at the same time."""

    request: Request
    refusal: bytes = b""
    lost: bool = False
    rivals: list[_Seen] = field(default_factory=list)

    def answered(self, reply: bytes) -> bytes:
        self.lost = reply[9:12] == b"412"
        if self.lost and not all(rival.lost for rival in self.rivals):
            return self.request.refusal(500, "UnknownError")
        return reply


class Quirks:
    """The switches that are on, applied to requests and replies."""

    def __init__(self, on: set[str]) -> None:
        self._on = on
        self._on_their_way: dict[str, list[_Seen]] = {}

    @contextmanager
    def around(self, request: Request) -> Iterator[_Seen]:
        """A request while it is with the server."""
        seen = _Seen(self._changed(request), self._refusal(request))
        method, target, _ = request.line.split(" ", 2)
        conditional = any(request.header(name) for name in _CONDITIONS)
        if method != "PUT" or not conditional or "losers-get-500" not in self._on:
            yield seen
            return
        others = self._on_their_way.setdefault(target, [])
        for other in others:
            other.rivals.append(seen)
            seen.rivals.append(other)
        others.append(seen)
        try:
            yield seen
        finally:
            others.remove(seen)

    def _changed(self, request: Request) -> Request:
        method, target, _ = request.line.split(" ", 2)
        query = target.partition("?")[2]
        copy = request.header(_COPY)
        if (
            (method == "DELETE" and "delete-conditions-ignored" in self._on)
            or (method == "POST" and "uploadId=" in query and "multipart-conditions-ignored" in self._on)
            or (method == "PUT" and copy and "copy-conditions-ignored" in self._on)
        ):
            kept = [(name, value) for name, value in request.headers if name.lower() not in _CONDITIONS]
            request = replace(request, headers=kept)
        if copy and "partNumber=" in query and "copy-sources-decoded-twice" in self._on:
            kept = [(name, value) for name, value in request.headers if name.lower() != _COPY]
            request = replace(request, headers=[*kept, (_COPY, unquote(copy))])
        return request

    def _refusal(self, request: Request) -> bytes:
        quoted = request.line.startswith("PUT ") and request.header("if-match").startswith('"')
        return request.refusal(412, "PreconditionFailed") if quoted and "only-bare-etags" in self._on else b""
