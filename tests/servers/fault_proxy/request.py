"""A request as it passes the HTTP fault proxy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

_ENDS = {"connection", "expect", "content-length", "transfer-encoding", "content-md5", "keep-alive"}


@dataclass
class Request:
    """One request as it came; ``body`` is what goes over the wire, chunk framing included."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def described(self) -> str:
        method, target, _ = self.line.split(" ", 2)
        operation = self.header("x-amz-target")
        more = f" {operation} {self.body.decode('utf-8', 'replace')}" if operation else ""
        return f"{method} {unquote(target)}{more}"

    def encoded(self, body: bytes | None = None) -> bytes:
        """For the server, on a connection that ends with the reply; with ``body``, one of another length."""
        kept = [(name, value) for name, value in self.headers if name.lower() not in _ENDS]
        if body is None and self.header("transfer-encoding"):
            kept.append(("Transfer-Encoding", self.header("transfer-encoding")))
        elif body is not None or self.body or self.header("content-length"):
            kept.append(("Content-Length", str(len(self.body if body is None else body))))
        kept.append(("Connection", "close"))
        head = "\r\n".join([self.line, *(f"{name}: {value}" for name, value in kept)])
        return head.encode("latin-1") + b"\r\n\r\n" + (self.body if body is None else body)

    def refusal(self, status: int, code: str, more: Mapping[str, str] | None = None) -> bytes:
        """An error as S3, DynamoDB or Azure words it, with ``more`` headers. Without a code it is none of theirs."""
        headers = dict(more or {})
        if self.header("x-amz-target"):
            kind = "application/x-amz-json-1.0"
            body = f'{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"injected"}}'
        else:
            kind = "application/xml"
            if code and self.header("x-ms-version"):
                headers |= {"x-ms-error-code": code, "x-ms-request-id": "injected"}
            body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>"
        if self.line.startswith("HEAD "):
            body = ""
        headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
        lines = [f"HTTP/1.1 {status} Injected", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
