"""What the target reads: runs of RECORD lines, and every other line by itself."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

Kind = Literal["RECORD", "SCHEMA", "STATE", "ACTIVATE_VERSION", "BATCH"]
Block = bytes | bytearray
"""Whole lines of the input; a ``bytearray`` is good until the next block is asked for."""


class Records(msgspec.Struct, frozen=True, gc=False):
    """Whole RECORD lines of one stream, checked; ``data`` ends on a newline, ``number`` is its first line's. ``times``
    are their ``time_extracted``, as moments or as they came, or as many of them as span the same time."""

    stream: str
    data: bytes
    count: int
    number: int
    times: list[Any]

    def one_by_one(self) -> Iterator[Records]:
        """Each line by itself, where the lines follow each other in the input and ``times`` has one of each."""
        if self.count == 1:
            yield self
            return
        for index, line in enumerate(io.BytesIO(self.data)):
            yield Records(self.stream, line, 1, self.number + index, self.times[index : index + 1])


class Message(msgspec.Struct, frozen=True, gc=False):
    """One line that is no RECORD, as it came, newline and all. ``held``: since which epoch of ``HeldStates`` it waited
    for its stream's SCHEMA; None where it did not."""

    kind: Kind
    stream: str
    line: bytes
    number: int
    held: int | None = None
