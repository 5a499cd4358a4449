"""A port in front of a server, which can be shut as a server that is restarted shuts it: connections are refused, and
those that stand are cut.

with door_to(server.endpoint_url) as door:
    door.shut()
    door.open()
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from tests.servers.ports.place import place, port_of


class Door:
    """Begins shut, at a port that stays its own."""

    def __init__(self, behind: tuple[str, int]) -> None:
        self._behind = behind
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._listener: socket.socket | None = None
        self._standing: list[socket.socket] = []
        self._place = place()
        self.port = port_of(self._place)

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Let connections in; an open door stays open. It is open when this returns, also where
        several threads call it at once."""
        with self._opening:
            if self._listener is None:
                listener = place(self.port)
                listener.listen()
                self._listener = listener
                threading.Thread(target=self._let_in, args=(listener,), daemon=True).start()

    def shut(self) -> None:
        """Refuse connections, and cut those that stand."""
        with self._lock:
            listener, self._listener = self._listener, None
            standing, self._standing = self._standing, []
        for each in (*standing, *([listener] if listener else [])):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def give_up(self) -> None:
        """Let others have the port."""
        self._place.close()

    def _let_in(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(self._behind)
            except OSError:
                return
            with self._lock:
                if self._listener is not listener:
                    near.close()
                    far.close()
                    return
                self._standing += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def door_to(endpoint_url: str) -> Iterator[Door]:
    """A door to a server, shut until it is opened, and in the end."""
    behind = urlsplit(endpoint_url)
    door = Door((str(behind.hostname), int(behind.port or 0)))
    try:
        yield door
    finally:
        door.shut()
        door.give_up()
