"""How the input is cut into blocks, whatever pieces it comes in."""

from __future__ import annotations

import io
import itertools
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from target_singerlake.input import reader
from target_singerlake.input.passthrough import BLOCK_BYTES
from target_singerlake.input.reader import Input, Waker

FULL = reader._FULL_BYTES


def blocks(source: Any) -> tuple[list[bytes], bytes]:
    with Waker() as waker:
        incoming = Input(source, waker)
        return [block for block in incoming.blocks(lambda: 60.0) if block], incoming.rest


@pytest.mark.parametrize("size", [1, 7, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 5])
def test_blocks_are_whole_lines_and_nothing_is_lost(tmp_path: Path, size: int) -> None:
    data = b"".join(b"%d%s\n" % (number, b"x" * (number % 50)) for number in range(size // 20 + 2)) * 2
    long = b"y" * (2 * BLOCK_BYTES) + b"\n"
    whole = data + long + data
    path = tmp_path / "input"
    path.write_bytes(whole + b"rest")
    with path.open("rb") as binary, path.open("r") as text:
        for source in (binary, text, io.BytesIO(whole + b"rest"), io.StringIO((whole + b"rest").decode())):
            found, rest = blocks(source)
            assert b"".join(found) == whole
            assert rest == b"rest"
            assert all(block.endswith(b"\n") for block in found)


@pytest.mark.parametrize("line", [50, 1000, BLOCK_BYTES, 3 * BLOCK_BYTES])
def test_large_blocks_are_whole_lines_and_nothing_is_lost(line: int) -> None:
    lengths = (number * (line // 5 + 1) % line for number in range(48 * BLOCK_BYTES // line))
    whole = b"".join(b"%07d%s\n" % (length, b"x" * length) for length in lengths)
    found, kinds = b"", set()
    with Waker() as waker:
        incoming = Input(io.BytesIO(whole + b"rest"), waker, most=8 * BLOCK_BYTES)
        for block in incoming.blocks(lambda: 60.0):
            # As the target asks, which begins with small ones and may come back to them.
            incoming.block_bytes = (4 if len(found) < len(whole) * 2 // 3 else 1) * BLOCK_BYTES
            assert block.endswith(b"\n")
            found += block
            kinds.add(type(block))
    assert found == whole
    assert incoming.rest == b"rest"
    assert kinds == {bytes, bytearray}


class Pieces(io.BufferedIOBase):
    """Gives pieces as they were written, each by as many reads as it takes."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self._pieces = deque(piece for piece in pieces if piece)

    def read1(self, size: int = -1, /) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if len(piece) > size:
            self._pieces.appendleft(piece[size:])
        return piece[:size]


@given(
    pieces=st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\x00", b"\n")), max_size=12),
    sizes=st.lists(st.integers(2, 64), min_size=1),
)
def test_blocks_may_change_their_size_and_lines_may_be_longer(pieces: list[bytes], sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch, Waker() as waker:
        patch.setattr(reader, "_LEAST_BYTES", 2)
        incoming, found, wanted = Input(Pieces(pieces), waker), [], itertools.cycle(sizes)
        incoming.block_bytes = next(wanted)
        for block in incoming.blocks(lambda: 60.0):
            assert block.endswith(b"\n")
            found.append(block)
            incoming.block_bytes = next(wanted)
    assert b"".join(found) + incoming.rest == b"".join(pieces)
    assert b"\n" not in incoming.rest


def test_a_read_that_finds_nothing_is_not_the_end() -> None:
    class Unready(io.BufferedIOBase):
        def readinto1(self, buffer: Any, /) -> int:
            piece = next(pieces, b"")
            if piece is None:
                return None  # type: ignore[return-value]
            buffer[: len(piece)] = piece
            return len(piece)

    pieces = iter([None, b"one\ntw", None, b"o\nrest", None])
    assert blocks(Unready()) == ([b"one\n", b"two\n"], b"rest")


class Meanwhile(io.BufferedReader):
    """Does something after each read."""

    then: Callable[[], object]

    def readinto1(self, buffer: Any, /) -> int:
        count = super().readinto1(buffer)
        self.then()
        return count


def first_block(sent: bytes, then: Callable[[Waker, io.FileIO], object]) -> bytes:
    """The first block of a pipe in which there is ``sent``; ``then`` happens after each read."""
    ours, theirs = os.pipe()
    with Meanwhile(io.FileIO(ours)) as source, Waker() as waker, io.FileIO(theirs, "w") as sink:
        source.then = lambda: then(waker, sink)
        incoming = Input(source, waker, most=8 * FULL)
        incoming.block_bytes = 8 * FULL
        sink.write(sent)
        return next(incoming.blocks(lambda: 60.0))


def test_a_block_takes_what_a_faster_tap_has_written_meanwhile() -> None:
    line, more = b"x" * (FULL - 1) + b"\n", iter([b"more\n"])
    assert first_block(line, lambda waker, sink: sink.write(next(more, b""))) == line + b"more\n"


def test_a_call_from_elsewhere_during_a_read_is_not_taken_for_input() -> None:
    line = b"x" * (FULL - 1) + b"\n"
    assert first_block(line, lambda waker, sink: waker.wake()) == line


def test_a_call_from_elsewhere_ends_the_wait_for_input() -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as source, os.fdopen(theirs, "wb", buffering=0) as sink, Waker() as waker:
        incoming = Input(source, waker).blocks(lambda: 600.0)
        waker.wake()
        assert next(incoming) == b""
        sink.write(b"half")
        waker.wake()
        assert next(incoming) == b""
        sink.write(b" and half\n")
        assert next(incoming) == b"half and half\n"
    waker.wake()
