"""Standard output as bytes: one writer for what comes from the lake and for what the SDK says, whole lines only."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

import msgspec
from singer_sdk.helpers._state import StateWriter
from singer_sdk.singerlib.encoding.base import GenericSingerWriter
from singer_sdk.singerlib.encoding.simple import Message
from singer_sdk.singerlib.json import serialize_json

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

GRACE_SECONDS = 2.0
"""How long a signal waits for a line that is being written if the target does not read it."""

_PIPE = 1 << 17
"""Bytes that a pipe is made to hold, where the system allows that: with its usual 64 KiB tap and target wait for one
another more often, with more than this the text leaves the processor's cache meanwhile."""
_PIECE = 1 << 16
"""Bytes written at once to what may not take them: more blocks in the kernel, where no signal stops it."""


class LineWriter(GenericSingerWriter[bytes, Message]):
    """Writes whole lines to ``sys.stdout.buffer``, past Python's own buffer, so that what is written is out. A signal
    ends the process at once, except inside a write: there the line under way is finished first, so that the output ends
    on a newline wherever somebody still reads it. After a signal nothing more is written."""

    def __init__(self) -> None:
        super().__init__()
        self._signal: int | None = None
        self._writing = False
        self._sink: Any = None
        self._piece = _PIECE

    def serialize_message(self, message: Message) -> bytes:
        """An SDK message as one line without its newline."""
        return encode(message.to_dict())

    def write_message(self, message: Message) -> None:
        self.write(self.format_message(message) + b"\n")

    def write(self, lines: bytes | memoryview) -> None:
        """Write bytes that end on a newline. Raises ``SystemExit`` after a signal and if the target has closed its
        input, ``OSError`` where standard output takes nothing."""
        self._leave_if_told()
        self._writing = True
        try:
            self._write_all(memoryview(lines))
        except BrokenPipeError:
            raise SystemExit(1) from None
        finally:
            self._writing = False
        self._leave_if_told()

    def stop(self, signum: int, _frame: FrameType | None = None) -> None:
        """A signal handler: exit with 128 + ``signum``, as shells report a death by signal."""
        self._signal = signum
        timer = threading.Timer(GRACE_SECONDS, os._exit, (128 + signum,))
        timer.daemon = True
        timer.start()
        if not self._writing:
            _leave(signum)

    def _write_all(self, left: memoryview) -> None:
        # Python has no standard output where the process was started with it closed.
        if not sys.stdout:
            raise OSError("standard output is closed; run with a target behind the tap, or redirect it")
        sys.stdout.flush()
        buffer = sys.stdout.buffer
        # Without a buffer in between, what a signal finds unwritten is still here to be left out.
        sink: Any = getattr(buffer, "raw", buffer)
        if sink is not self._sink:
            self._sink, self._piece = sink, piece_for(sink)
        while left:
            written = sink.write(left[: self._piece])
            if written is None:
                select.select((), (sink,), ())
                continue
            if self._signal is not None:
                left = left[: _line_end(left, written)]
            left = left[written:]

    def _leave_if_told(self) -> None:
        if self._signal is not None:
            _leave(self._signal)


class StateLines(StateWriter):
    """singer-sdk's writer of STATE, made for thousands of streams: each STATE holds the bookmarks of all of them and
    one comes after every stream, so that walking and copying it, as singer-sdk does, takes longer than the replay."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__(writer)
        self._writer = writer
        self._last = b""

    def write_state(self, state: Any) -> None:
        """Write a STATE message, unless it is the one that was written last."""
        message = {"type": "STATE", "value": state}
        try:
            line = _encode_fast(message)
        except (UnicodeEncodeError, OverflowError):
            line = encode(message)
        if line != self._last:
            self._writer.write(line + b"\n")
            self._last = line


def piece_for(sink: Any) -> int:
    """The most bytes to write to ``sink`` at once: all to a file, to a pipe what it holds, which is made more where the
    system allows that."""
    try:
        status = os.fstat(sink.fileno())
        if stat.S_ISREG(status.st_mode) or os.path.samestat(status, os.stat(os.devnull)):
            return sys.maxsize
        if stat.S_ISFIFO(status.st_mode) and hasattr(fcntl, "F_SETPIPE_SZ"):
            if fcntl.fcntl(sink, fcntl.F_GETPIPE_SZ) < _PIPE:
                with suppress(OSError):
                    fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE)
            return fcntl.fcntl(sink, fcntl.F_GETPIPE_SZ)
    except (OSError, ValueError):
        # It has no descriptor, as a buffer in memory has none.
        pass
    return _PIECE


_encode_fast = msgspec.json.Encoder(decimal_format="number").encode


def encode(message: Any) -> bytes:
    """One Singer message as compact JSON; decimals and large integers exact."""
    return serialize_json(message).encode("ascii")


def _line_end(lines: memoryview, written: int) -> int:
    """Where the line that holds the last of the ``written`` bytes ends."""
    return bytes(lines).index(b"\n", max(0, written - 1)) + 1


def _leave(signum: int) -> NoReturn:
    # From here on a second signal would only interrupt the way out.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + signum)
