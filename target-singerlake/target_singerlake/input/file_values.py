"""Which files the record of a line names or holds, by what the setting ``file_properties`` says of its stream."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.attached.property_path import values_at
from singerlake.format.lines.messages import REFUSALS
from target_singerlake.file_settings import FileProperty
from target_singerlake.input.messages import Records
from target_singerlake.input.passthrough import parse


@dataclass(frozen=True, slots=True)
class FileValue:
    """One file of a record: the text that names or holds it; None where the property has another value."""

    property: FileProperty
    text: str | None


@dataclass(frozen=True, slots=True)
class LineWithFiles:
    """One RECORD line, its ``time_extracted`` as it came, and its files in the order of their rows."""

    line: bytes
    time: Any
    files: list[FileValue]


class FileValues:
    """Looks into the lines of one stream. Of a record only what ``properties`` begin with is decoded."""

    def __init__(self, properties: Sequence[FileProperty]) -> None:
        self._properties = properties
        names = dict.fromkeys(str(each.path[0]) for each in properties)
        self._fields = {f"f{at}": name for at, name in enumerate(names)}
        self._decoder = self._make_decoder()

    def of(self, records: Records) -> Iterator[LineWithFiles]:
        """Each line of ``records`` by itself."""
        for number, line in enumerate(io.BytesIO(records.data), records.number):
            time, record = self._decoded(line, number)
            yield LineWithFiles(line, time, [value for each in self._properties for value in _values(each, record)])

    def _decoded(self, line: bytes, number: int) -> tuple[Any, dict[str, Any]]:
        if self._decoder is not None:
            try:
                message = self._decoder.decode(line)
            except (*REFUSALS, ValueError):
                # ValueError: a number of more digits than the interpreter converts.
                pass
            else:
                held = {name: getattr(message.record, field) for field, name in self._fields.items()}
                return message.time_extracted, held
        content = parse(line, number, exact=False)
        return content.get("time_extracted"), content["record"]

    def _make_decoder(self) -> msgspec.json.Decoder[Any] | None:
        """None where msgspec can have no field of such a name."""
        try:
            fields = [(field, Any, None) for field in self._fields]
            record = msgspec.defstruct("Record", fields, rename=dict(self._fields), gc=False)
            message = msgspec.defstruct("Line", [("record", record), ("time_extracted", Any, None)], gc=False)
            return msgspec.json.Decoder(message)
        except ValueError:
            return None


def _values(property: FileProperty, record: dict[str, Any]) -> Iterator[FileValue]:
    for value in values_at(record, property.path):
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield FileValue(property, each if isinstance(each, str) else None)
