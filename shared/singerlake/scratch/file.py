"""A temporary file without a name: it goes with its process, however that ends."""

from __future__ import annotations

import os
import tempfile
import threading
import weakref

from singerlake.scratch.folder import UNKNOWN, refusal

_WRITTEN = 1 << 20
"""Bytes that are written at once."""


class ScratchFile:
    """Bytes in ``$TMPDIR``, added at the end and read anywhere, by any thread. Its space is free again as soon as
    nobody holds it."""

    def __init__(self, made: str) -> None:
        """``made``, in the plural, is what is kept there. Raises as ``local_folder``, and so do the methods."""
        self._made = made
        self._where = UNKNOWN
        try:
            self._where = tempfile.gettempdir()
            with tempfile.TemporaryFile(buffering=0) as file:
                self._descriptor = os.dup(file.fileno())
        except OSError as error:
            raise refusal(error, made, self._where) from error
        weakref.finalize(self, os.close, self._descriptor)
        self._writing = threading.Lock()
        self._written = 0
        self._waiting = bytearray()

    @property
    def end(self) -> int:
        """How many bytes it has."""
        return self._written + len(self._waiting)

    def append(self, body: bytes) -> int:
        """Add bytes; where they begin."""
        with self._writing:
            begin = self.end
            self._waiting += body
        if len(self._waiting) >= _WRITTEN:
            self._write()
        return begin

    def read(self, start: int, size: int) -> bytes:
        """``size`` bytes from ``start`` on."""
        if start + size > self._written:
            self._write()
        parts: list[bytes] = []
        try:
            while size and (part := os.pread(self._descriptor, size, start)):
                parts.append(part)
                start, size = start + len(part), size - len(part)
        except OSError as error:
            raise refusal(error, self._made, self._where) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _write(self) -> None:
        try:
            with self._writing:
                while self._waiting:
                    written = os.pwrite(self._descriptor, self._waiting, self._written)
                    self._written += written
                    del self._waiting[:written]
        except OSError as error:
            raise refusal(error, self._made, self._where) from error
