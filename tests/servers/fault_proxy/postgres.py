"""The PostgreSQL fault proxy's process: ``python -m tests.servers.fault_proxy.postgres HOST PORT``.

It speaks the frontend/backend protocol (PostgreSQL documentation, chapter "Frontend/Backend Protocol") without TLS,
and holds each batch of a client, which a Query or a Sync message ends, against the rules. A batch is described by the
SQL in it, such as ``BEGIN`` or ``COMMIT``.
"""

from __future__ import annotations

import asyncio
import struct
import sys

from tests.servers.fault_proxy.door import Door, reset
from tests.servers.fault_proxy.rules import Rule, Rules

_ENCRYPTION = {80877103, 80877104}  # SSLRequest and GSSENCRequest: the answer "N" makes the client go on without
_ENDS_OF_BATCH = b"QSHXdcfpF"


class _Over(Exception):
    """The session is done with."""


class Session:
    """One client's connection and the server's end of it."""

    def __init__(
        self,
        rules: Rules,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._rules = rules
        self._client, self._to_client = client
        self._server, self._to_server = server
        self._statements: dict[bytes, bytes] = {}
        self._swallowing: asyncio.Future[None] | None = None
        self._gone = False

    async def run(self) -> None:
        pumps = {asyncio.create_task(self._from_client()), asyncio.create_task(self._from_server())}
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._to_server.close()
        self._to_client.close()

    async def _from_client(self) -> None:
        if not await self._start():
            return
        batch: list[tuple[bytes, bytes]] = []
        while True:
            kind, body = await _message(self._client)
            batch.append((kind, body))
            if kind in _ENDS_OF_BATCH:
                await self._pass(batch)
                batch = []

    async def _start(self) -> bool:
        while True:
            length, code = struct.unpack("!II", await self._client.readexactly(8))
            rest = await self._client.readexactly(length - 8)
            if code not in _ENCRYPTION:
                self._to_server.write(struct.pack("!II", length, code) + rest)
                return True
            self._to_client.write(b"N")

    async def _pass(self, batch: list[tuple[bytes, bytes]]) -> None:
        encoded = b"".join(kind + struct.pack("!I", len(body) + 4) + body for kind, body in batch)
        described = self._describe(batch)
        rule = self._rules.meet(described) if described else None
        if rule is None or rule.effect == "none":
            if rule is not None:
                rule.done += 1
            self._to_server.write(encoded)
            return
        if rule.effect == "late":
            self._break_off()
            await rule.wait()
            await self._quietly(encoded)
        elif rule.effect == "error":
            self._to_client.write(_error(rule, b"I" if "COMMIT" in described.upper() else b"E"))
            if "COMMIT" in described.upper():
                await self._quietly(_query(b"ROLLBACK"))
        elif rule.effect == "park":
            await rule.wait()
            self._to_server.write(encoded)
        elif rule.after:
            await self._quietly(encoded)
        rule.done += 1
        if rule.effect in ("drop", "late"):
            self._break_off()
            raise _Over

    async def _quietly(self, encoded: bytes) -> None:
        """Send to the server and wait until it is ready again; the client sees none of it."""
        self._swallowing = asyncio.get_running_loop().create_future()
        self._to_server.write(encoded)
        await self._swallowing
        self._swallowing = None

    async def _from_server(self) -> None:
        while True:
            kind, body = await _message(self._server)
            if self._swallowing is not None and not self._swallowing.done():
                if kind == b"Z":
                    self._swallowing.set_result(None)
            elif not self._gone:
                self._to_client.write(kind + struct.pack("!I", len(body) + 4) + body)

    def _break_off(self) -> None:
        """Reset the client's connection; the server's stays until the session ends."""
        if not self._gone:
            self._gone = True
            reset(self._to_client)

    def _describe(self, batch: list[tuple[bytes, bytes]]) -> str:
        texts = []
        for kind, body in batch:
            if kind == b"Q":
                texts.append(body.rstrip(b"\0"))
            elif kind == b"P":
                name, text, _ = body.split(b"\0", 2)
                self._statements[name] = text
            elif kind == b"B":
                _, name, _ = body.split(b"\0", 2)
                texts.append(self._statements.get(name, b""))
        return "; ".join(text.decode("utf-8", "replace") for text in texts)


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


def _query(text: bytes) -> bytes:
    return b"Q" + struct.pack("!I", len(text) + 5) + text + b"\0"


def _error(rule: Rule, status: bytes) -> bytes:
    """ErrorResponse with the rule's SQLSTATE, then ReadyForQuery."""
    fields = b"SERROR\0VERROR\0C" + rule.code.encode() + b"\0Minjected\0\0"
    return b"E" + struct.pack("!I", len(fields) + 4) + fields + b"Z" + struct.pack("!I", 5) + status


async def main() -> None:
    """Serve on a free port of 127.0.0.1, say which on standard output, end with standard input."""
    rules = Rules()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
        await Session(rules, (reader, writer), server).run()

    await rules.obey(Door(serve))


if __name__ == "__main__":
    asyncio.run(main())
