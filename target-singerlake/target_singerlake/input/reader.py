"""Reading the input: blocks of whole lines as soon as they are there, and a pause when it is time or a signal came."""

from __future__ import annotations

import io
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, BinaryIO

from singer_sdk.singerlib.encoding import GenericSingerReader

from singerlake.errors import SettingError
from target_singerlake.input.messages import Block
from target_singerlake.input.passthrough import BLOCK_BYTES, parse

_LEAST_BYTES = 1 << 16
_PIPE_BYTES = 1 << 20
_FULL_BYTES = _PIPE_BYTES // 2
"""A read of as much means that the other side is faster: more may be there at once."""
_F_SETPIPE_SZ = 1031
_POLLS = hasattr(select, "poll")
"""Windows polls no pipes."""


class Waker:
    """A pipe that ends a wait for input, from a signal or from another thread. A context manager: while it is open,
    a signal that Python handles also writes to it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        if _POLLS:
            os.set_blocking(self._read, False)
            os.set_blocking(self._write, False)
        self._before: int | None = None
        self._closing = threading.Lock()

    def __enter__(self) -> Waker:
        if _POLLS and threading.current_thread() is threading.main_thread():
            self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        with self._closing:
            os.close(self._read)
            os.close(self._write)
            self._read = self._write = -1

    def wake(self) -> None:
        """End the wait that is on, or the next one. Safe from any thread, and after the end."""
        # Under the lock, since the descriptor of a closed pipe may be another file's by now.
        with self._closing, suppress(BlockingIOError):
            if self._write >= 0 and _POLLS:
                os.write(self._write, b"\0")

    def fileno(self) -> int:
        return self._read

    def clear(self) -> None:
        """Forget past calls."""
        with suppress(BlockingIOError):
            os.read(self._read, _PIPE_BYTES)


class Input:
    """Blocks of whole lines from a Singer tap's output. A block has about ``block_bytes``, which may be changed between
    two blocks, or fewer: never more than ``most``, but for very small ``most`` and for a longer line. ``rest`` is what
    came after the last newline, at the end."""

    def __init__(self, source: IO[Any] | None, waker: Waker, *, most: int = BLOCK_BYTES) -> None:
        self._source = binary(source)
        self._waker = waker
        self._most = max(_LEAST_BYTES, most)
        self._poll = self._poller()
        self._ended = False
        self.block_bytes = BLOCK_BYTES
        self.rest = b""

    def blocks(self, patience: Callable[[], float]) -> Iterator[Block]:
        """Blocks, each ending on a newline, until the input ends. An empty one is given whenever ``patience()``
        seconds passed without input, or someone called. Where more than ``BLOCK_BYTES`` are asked for, one of more
        may be a ``bytearray``, which the next one is read into."""
        buffer, held = bytearray(), 0
        while not self._ended:
            if self._poll is not None and not self._ready(self._poll, patience()):
                yield b""
                continue
            buffer = self._with_room(buffer, held)
            seen, held = held, self._fill(buffer, held)
            cut = buffer.rfind(b"\n", seen, held) + 1
            if cut > BLOCK_BYTES < self.block_bytes and cut > len(buffer) // 2:
                size, rest = len(buffer), bytes(memoryview(buffer)[cut:held])
                del buffer[cut:]
                yield buffer
                # As long as it was, since its length says how much is read next.
                buffer.extend(bytes(size - cut))
                buffer[: len(rest)] = rest
                held = len(rest)
            elif cut:
                with memoryview(buffer) as view:
                    block = bytes(view[:cut])
                    view[: held - cut] = view[cut:held]
                held -= cut
                yield block
                # A block is large: no second one may be in memory while the next one is read.
                del block
        self.rest = bytes(memoryview(buffer)[:held])

    def _with_room(self, buffer: bytearray, held: int) -> bytearray:
        """``buffer``, or another one with the ``held`` bytes at its front, if it has no room for what is to be read, or
        more than enough."""
        wanted = min(self.block_bytes, self._most)
        # What is held is part of a line: a long one is not copied again for each block of it.
        size = wanted if held <= wanted // 2 else 2 * max(held, wanted)
        if len(buffer) >= held + wanted // 2 and len(buffer) <= 2 * size:
            return buffer
        larger = bytearray(size)
        larger[:held] = memoryview(buffer)[:held]
        return larger

    def _fill(self, buffer: bytearray, held: int) -> int:
        """Read what is there behind the ``held`` bytes of ``buffer``; how many it holds then."""
        with memoryview(buffer) as view:
            while held < len(view):
                # None where a pipe that does not block has nothing after all.
                count: int | None = self._source.readinto1(view[held:])  # type: ignore[attr-defined]
                self._ended = count == 0
                held += count or 0
                if not count or count < _FULL_BYTES or self._poll is None or not self._has_more(self._poll):
                    break
        return held

    def _has_more(self, poll: select.poll) -> bool:
        return any(descriptor != self._waker.fileno() for descriptor, _ in poll.poll(0))

    def _ready(self, poll: select.poll, seconds: float) -> bool:
        events = dict(poll.poll(max(0.0, seconds) * 1000))
        if self._waker.fileno() in events:
            self._waker.clear()
            return False
        return bool(events)

    def _poller(self) -> select.poll | None:
        """A poll on the input and the waker; None for an input that never keeps one waiting, memory and files,
        and on Windows, which polls no pipes: there a file's age is looked at when input comes."""
        if not _POLLS:
            return None
        try:
            descriptor = self._source.fileno()
        except (OSError, AttributeError, io.UnsupportedOperation):
            return None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        _enlarge(descriptor)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
        poll.register(self._waker.fileno(), select.POLLIN)
        return poll


def _enlarge(descriptor: int) -> None:
    """A larger pipe, where it is one: fewer, larger reads, and a tap that waits less."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.fcntl(descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)


def binary(source: IO[Any] | None) -> BinaryIO:
    """``source``, or standard input, as bytes. A text file gives the bytes below it; text in memory is encoded. Raises
    ``SettingError`` where the process was started with its standard input closed."""
    stream: Any = source if source is not None else sys.stdin
    if stream is None:
        raise SettingError("standard input is closed", hint="pipe a tap's output into the target, or use --input")
    below = getattr(stream, "buffer", None)
    if below is not None:
        stream = below
    if isinstance(stream, io.TextIOBase):
        return io.BytesIO(stream.read().encode("utf-8", "surrogatepass"))
    if not hasattr(stream, "readinto1"):
        stream = io.BufferedReader(stream)
    return stream  # type: ignore[no-any-return]


class MessageReader(GenericSingerReader[bytes]):
    """What singer-sdk asks for its input: hands it, whole, to the target's own ``consume``."""

    def __init__(self, consume: Callable[[IO[Any] | None], dict[str, int]]) -> None:
        super().__init__()
        self._consume = consume

    def process_lines(self, file_input: IO[Any] | None, callbacks: dict[str, Callable[[dict[str, Any]], None]]) -> Any:
        from collections import Counter

        return Counter(self._consume(file_input))

    @property
    def default_input(self) -> IO[bytes]:
        return sys.stdin.buffer

    def deserialize_json(self, line: bytes) -> dict[str, Any]:
        message: dict[str, Any] = parse(line, 0)
        return message
