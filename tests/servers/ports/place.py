"""A port of 127.0.0.1 that stays the caller's own while its server is not there: not yet, or not for the moment."""

from __future__ import annotations

import socket


def place(port: int = 0) -> socket.socket:
    """A socket bound to the port, by default to one that is free. While it is open, the system gives the port to
    nobody who asks for any; a server that asks for this one may listen there, if it sets SO_REUSEADDR as servers do."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def port_of(bound: socket.socket) -> int:
    return int(bound.getsockname()[1])
