"""ACTIVATE_VERSION messages that come before their stream's SCHEMA: held, and passed on right behind it.

A data file begins with a SCHEMA message, so that without one there is no file they could be kept in. Meanwhile no
STATE that came after them is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from target_singerlake.errors import MessageBeforeSchemaError
from target_singerlake.input.messages import Message, Records
from target_singerlake.state import HeldStates

HELD_BYTES = 1 << 20
"""Most bytes that are held, over all streams together."""
_EACH = 200
"""What a held line costs beside its bytes."""


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
        """Keep a message until its stream's SCHEMA comes. Raises ``MessageBeforeSchemaError`` where too much is
        held."""
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
