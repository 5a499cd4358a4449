"""Where the clients of a fault proxy come in, and how a server looks to them that is gone."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

from tests.servers.ports.place import place, port_of

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Door:
    """Where clients come in, at a port of 127.0.0.1 that stays the same. While it is shut, connections are refused, as
    those of a server that is gone."""

    def __init__(self, serve: Serve, *, port: int = 0, limit: int = 1 << 16) -> None:
        self._serve = serve
        self._limit = limit
        self._inside: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self._place = place(port)
        self.port = port_of(self._place)

    async def open(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._enter, sock=place(self.port), limit=self._limit)

    def shut(self, seconds: float | None) -> None:
        """Refuse connections and reset those there are: until it is opened, or for so many seconds."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._inside:
            reset(writer)
        if seconds is not None:
            self._opening = asyncio.create_task(self._open_after(seconds))

    async def _open_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.open()

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._inside.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            self._inside.discard(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection off, so that the peer sees a reset."""
    connection = writer.get_extra_info("socket")
    if not writer.transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
