"""The HTTP fault proxy's process: ``python -m tests.servers.fault_proxy.http HOST PORT OWN_PORT [SINCE FACTOR]``.
It serves on OWN_PORT, or on a free port where that is 0.

Each request is read whole, held against the rules, and sent on over a connection of its own; clients keep theirs.
A request is described as ``PUT /bucket/key?query``, with the value of ``X-Amz-Target`` and the body behind it where
there is such a header, since all of DynamoDB is one path.

With SINCE, in seconds since 1970, and FACTOR the server's clock seems to run faster from that time on: what went
through here was written when the fast clock says.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import unquote

from tests.servers.fault_proxy.door import Door, reset
from tests.servers.fault_proxy.quirks import Quirks
from tests.servers.fault_proxy.request import Request
from tests.servers.fault_proxy.rules import Rule, Rules

_LIMIT = 1 << 22
_ENTRY = re.compile(rb"<Key>([^<]*)</Key>(\s*)<LastModified>[^<]*</LastModified>")


class _Over(Exception):
    """The client's connection is done with."""


class Written:
    """When objects were written, by the fast clock; HEAD and GET say it in whole seconds, as S3 does."""

    def __init__(self, since: float, factor: float) -> None:
        self._since = since
        self._factor = factor
        self._times: dict[str, datetime] = {}

    def seen(self, request: Request, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        """A reply with the server's times replaced."""
        method, target, _ = request.line.split(" ", 2)
        path, _, query = target.partition("?")
        if not head.startswith(b"HTTP/1.1 2"):
            return head, body
        if method == "PUT":
            now = self._since + (time.time() - self._since) * self._factor
            self._times[unquote(path)] = datetime.fromtimestamp(now, UTC)
        elif "list-type=2" in query:
            body = _ENTRY.sub(lambda found: self._listed(f"{unquote(path)}/", found), body)
            head = re.sub(rb"(?i)(content-length:) *\d+", b"\\1 %d" % len(body), head)
        elif unquote(path) in self._times:
            stamp = format_datetime(self._times[unquote(path)].replace(microsecond=0), usegmt=True)
            head = re.sub(rb"(?i)(last-modified:)[^\r]*", b"\\1 " + stamp.encode(), head)
        return head, body

    def _listed(self, bucket: str, found: re.Match[bytes]) -> bytes:
        written = self._times.get(bucket + unquote(found[1].decode()))
        if written is None:
            return found[0]
        stamp = written.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        return b"<Key>" + found[1] + b"</Key>" + found[2] + b"<LastModified>" + stamp.encode() + b"</LastModified>"


class Proxy:
    """Between any number of clients and one server."""

    def __init__(self, rules: Rules, host: str, port: int, written: Written | None = None) -> None:
        self._rules = rules
        self._server = (host, port)
        self._written = written
        self._quirks = Quirks(rules.quirks)
        self._late: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read_request(reader, writer)) is not None:
                await self._answer(request, writer)
                if request.line.endswith("HTTP/1.0"):
                    # Without a length, the end of the connection is the end of the reply.
                    break
        except (_Over, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        rule = self._rules.meet(request.described)
        effect = rule.effect if rule else ""
        if rule is not None and effect == "late":
            task = asyncio.create_task(self._send_late(request, rule))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise _reset(writer)
        if rule is not None and effect == "park" and not rule.after:
            await rule.wait()
        if effect == "cut_request":
            await self._send_half(request)
            raise _reset(writer)
        if rule is not None and effect in ("drop", "error") and not rule.after:
            reply = request.refusal(rule.status, rule.code, rule.headers)
        else:
            shorter = request.body[: len(request.body) // 2] if effect == "truncate" else None
            reply = await self._send(request, shorter)
            if effect == "twice":
                reply = await self._send(request)
        if rule is not None:
            rule.done += 1
            if effect == "park" and rule.after:
                await rule.wait()
            if effect == "drop":
                raise _reset(writer)
            if effect == "error" and rule.after:
                reply = request.refusal(rule.status, rule.code, rule.headers)
            if effect == "cut_reply":
                writer.write(reply[: len(reply) - 1])
                await writer.drain()
                raise _Over
        writer.write(reply)
        await writer.drain()

    async def _send(self, request: Request, shorter: bytes | None = None) -> bytes:
        """The server's whole reply, marked as one after which the connection stays."""
        with self._quirks.around(request) as seen:
            reply = seen.refusal or await self._exchange(seen.request.encoded(shorter))
            head, _, body = seen.answered(reply).partition(b"\r\n\r\n")
        if self._written is not None:
            head, body = self._written.seen(request, head, body)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    async def _exchange(self, encoded: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._server)
        try:
            writer.write(encoded)
            await writer.drain()
            reply = await reader.read(-1)
        finally:
            writer.close()
        if not reply:
            raise ConnectionResetError("the server hung up")
        return reply

    async def _send_half(self, request: Request) -> None:
        """The request up to the middle of its body, as a client that died leaves it."""
        encoded = request.encoded()
        _, writer = await asyncio.open_connection(*self._server)
        writer.write(encoded[: len(encoded) - len(request.body) // 2 - 1])
        await writer.drain()
        reset(writer)

    async def _send_late(self, request: Request, rule: Rule) -> None:
        """What was on its way when its sender gave up."""
        await rule.wait()
        await self._send(request)
        rule.done += 1


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head[:-4].split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (each.partition(":") for each in rest)]
    request = Request(line, headers, b"")
    if request.header("expect").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in request.header("transfer-encoding").lower():
        request.body = await _read_chunks(reader)
    else:
        request.body = await reader.readexactly(int(request.header("content-length") or 0))
    return request


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while True:
        size = await reader.readuntil(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        parts += [size, await reader.readexactly(length + 2)]
        if length == 0:
            return b"".join(parts)


def _reset(writer: asyncio.StreamWriter) -> _Over:
    """Break a connection off; raise what this gives."""
    reset(writer)
    return _Over()


async def main() -> None:
    """Serve on a free port of 127.0.0.1, say which on standard output, end with standard input."""
    rules = Rules()
    written = Written(float(sys.argv[4]), float(sys.argv[5])) if sys.argv[4:] else None
    proxy = Proxy(rules, sys.argv[1], int(sys.argv[2]), written)
    await rules.obey(Door(proxy.serve, port=int(sys.argv[3]), limit=_LIMIT))


if __name__ == "__main__":
    asyncio.run(main())
