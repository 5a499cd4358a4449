"""What the target reads: runs of RECORD lines, and every other line by itself; and JSON that is written anew without
losing a digit.

ACTIVATE_VERSION messages that come before their stream's SCHEMA are held, and passed on right behind it. A data file
begins with a SCHEMA message, so that without one there is no file they could be kept in. Meanwhile no STATE that came
after them is emitted.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any, Literal

import msgspec
import simplejson

from target_singerlake.errors import MessageBeforeSchemaError
from target_singerlake.state import HeldStates

Kind = Literal["RECORD", "SCHEMA", "STATE", "ACTIVATE_VERSION", "BATCH"]
Block = bytes | bytearray
"""Whole lines of the input; a ``bytearray`` is good until the next block is asked for."""

HELD_BYTES = 1 << 20
"""Most bytes that are held, over all streams together."""
_EACH = 200
"""What a held line costs beside its bytes."""


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
    """One line that is not a RECORD, as it came, newline and all. ``held``: since which epoch of ``HeldStates`` it
    waited for its stream's SCHEMA; None where it did not."""

    kind: Kind
    stream: str
    line: bytes
    number: int
    held: int | None = None


@dataclass
class _HeldActivation:
    epoch: int
    lines: list[tuple[bytes, int]] = field(default_factory=list)


class EarlyActivations:
    """``states`` are held back from the first held message of a stream until the files that got it are committed."""

    def __init__(self, states: HeldStates) -> None:
        self._states = states
        self._streams: dict[str, _HeldActivation] = {}
        self._bytes = 0

    def hold(self, message: Message) -> None:
        """Keep a message until its stream's SCHEMA comes. Raises ``MessageBeforeSchemaError`` for too many."""
        self._bytes += len(message.line) + _EACH
        if self._bytes > HELD_BYTES:
            raise MessageBeforeSchemaError(
                f"more than {HELD_BYTES:,} bytes of ACTIVATE_VERSION messages came before their streams' SCHEMA",
                hint="the tap must send SCHEMA first",
                line=message.number,
                stream=message.stream,
            )
        held = self._streams.get(message.stream)
        if held is None:
            held = self._streams[message.stream] = _HeldActivation(self._states.opened())
        held.lines.append((message.line, message.number))

    def release(
        self, stream: str, through: Callable[[bytes, int], Iterable[Records | Message]]
    ) -> Iterator[Records | Message]:
        """What ``through`` makes of the lines held for a stream whose SCHEMA has been acted on, in the order in which
        they came, each with ``held``: since which epoch."""
        held = self._streams.pop(stream, None)
        if held is None:
            return
        for line, number in held.lines:
            self._bytes -= len(line) + _EACH
            for message in through(line, number):
                yield msgspec.structs.replace(message, held=held.epoch) if isinstance(message, Message) else message
        self._states.committed(held.epoch)

    def require_none(self) -> None:
        """Raises ``MessageBeforeSchemaError`` where the SCHEMA of a stream has not come to the end."""
        for stream, held in self._streams.items():
            raise MessageBeforeSchemaError(
                "an ACTIVATE_VERSION message came, and its stream's SCHEMA never did",
                hint="every other message is committed, and no later STATE was emitted; the tap must send SCHEMA",
                line=held.lines[0][1],
                stream=stream,
                streams=len(self._streams),
            )


def encode(value: Any) -> bytes:
    """JSON of a value whose floats are ``Decimal``, every digit as it came. A lone surrogate, no UTF-8, is escaped."""
    text: str = simplejson.dumps(value, ensure_ascii=False, **_STYLE)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        escaped: str = simplejson.dumps(value, ensure_ascii=True, **_STYLE)
        return escaped.encode("ascii")


def _other(value: Any) -> str:
    """What map expressions make that JSON has no type for, as singer-sdk writes it."""
    return value.isoformat() if isinstance(value, (datetime, date, time)) else str(value)


_STYLE: dict[str, Any] = {"use_decimal": True, "separators": (",", ":"), "default": _other, "allow_nan": True}
