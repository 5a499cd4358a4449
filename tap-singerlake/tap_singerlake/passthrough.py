"""Messages as the very bytes that were captured, and what every conversion of messages does (the other one is in
``mapped.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from singer_sdk.singerlib.json import deserialize_json

from singerlake.format.lines.messages import is_record_line
from singerlake.format.state.files.data_file import DataFile
from tap_singerlake.catalog.catalog import Overrides
from tap_singerlake.output import encode


class Conversion(Protocol):
    """What a stream writes for what the lake holds."""

    def schema(self, line: bytes) -> bytes:
        """Whole lines for one SCHEMA message, in force for the messages after it."""
        ...

    def messages(self, lines: memoryview, offsets: Sequence[int], file: DataFile) -> bytes | memoryview:
        """Whole lines for RECORD and ACTIVATE_VERSION messages, which have these ``offsets``."""
        ...


class Passthrough:
    """Messages pass as they are; the SCHEMA message too, unless the catalog overrides it."""

    def __init__(self, overrides: Overrides) -> None:
        self._overrides = overrides

    def schema(self, line: bytes) -> bytes:
        if not self._overrides:
            return line
        return encode(self._overrides.apply(deserialize_json(line))) + b"\n"

    def messages(self, lines: memoryview, offsets: Sequence[int], file: DataFile) -> bytes | memoryview:
        return lines


class Sequenced(Passthrough):
    """The same, with each RECORD message's offset added as its ``sequence``. A ``sequence`` of the tap is replaced."""

    def messages(self, lines: memoryview, offsets: Sequence[int], file: DataFile) -> bytes:
        made = []
        for offset, line in zip(offsets, bytes(lines).split(b"\n")[:-1], strict=True):
            if not is_record_line(line):
                made.append(line)
            elif b'"sequence"' in line and "sequence" in (message := deserialize_json(line)):
                made.append(encode({**message, "sequence": offset}))
            else:
                # A line is an object with one member at least.
                made.append(b'%b,"sequence":%d}' % (line[: line.rindex(b"}")], offset))
        return b"\n".join([*made, b""])
