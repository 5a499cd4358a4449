"""What the tap writes for messages of the lake: the very bytes that were captured, or messages as the SDK maps them, by
selection, stream maps, flattening and the columns of ``include_lake_metadata``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from singer_sdk.helpers._catalog import get_selected_schema, pop_deselected_record_properties
from singer_sdk.mapper import PluginMapper, RemoveRecordTransform, StreamMap
from singer_sdk.singerlib import SelectionMask
from singer_sdk.singerlib.json import deserialize_json

from singerlake.errors import SettingError
from singerlake.format.lines.messages import is_record_line
from singerlake.format.state.files.data_file import DataFile
from tap_singerlake.catalog.catalog import Overrides, for_sdk
from tap_singerlake.output import encode

LAKE_METADATA: dict[str, Any] = {
    "_singerlake_offset": {"type": ["null", "integer"], "description": "The message's offset in its stream."},
    "_singerlake_version": {"type": ["null", "string"], "description": "The hash of the schema it was captured under."},
    "_singerlake_file": {"type": ["null", "string"], "description": "The file it lies in, as the manifest names it."},
}
"""Columns that ``include_lake_metadata`` adds."""


class Conversion(Protocol):
    """What a stream writes for what the lake holds."""

    def schema(self, line: bytes) -> bytes:
        """Whole lines for one SCHEMA message, in force for the messages after it."""

    def messages(self, lines: memoryview, offsets: Sequence[int], file: DataFile) -> bytes | memoryview:
        """Whole lines for RECORD and ACTIVATE_VERSION messages, which have these ``offsets``."""


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


@dataclass
class Mapped:
    """Each message through the SDK's selection, stream maps and flattening. What is not the SDK's to change, such as
    ``version`` and ``time_extracted``, stays as it was captured; decimals and large integers keep every digit.
    ``left_out`` gets the offset of each record of which the maps leave nothing. ``sequence``: each RECORD message has
    its offset as its ``sequence``."""

    stream: str
    mapper: PluginMapper
    mask: SelectionMask
    overrides: Overrides
    lake_metadata: bool
    sequence: bool = False
    left_out: Callable[[int], None] = lambda _: None

    def __post_init__(self) -> None:
        self._selective = not all(self.mask.values())
        self._maps: list[StreamMap] = []

    def schema(self, line: bytes) -> bytes:
        message = self.overrides.apply(deserialize_json(line))
        schema = for_sdk(message.get("schema"))
        keys = message.get("key_properties") or []
        self._maps = register(self.mapper, self.stream, schema, keys, self.mask, lake_metadata=self.lake_metadata)
        return _lines(
            {
                **message,
                "stream": one.stream_alias,
                "schema": one.transformed_schema,
                "key_properties": list(one.transformed_key_properties or ()),
            }
            for one in self._maps
        )

    def messages(self, lines: memoryview, offsets: Sequence[int], file: DataFile) -> bytes:
        return _lines(self._mapped(bytes(lines), offsets, file))

    def _mapped(self, lines: bytes, offsets: Sequence[int], file: DataFile) -> Iterator[dict[str, Any]]:
        for offset, line in zip(offsets, lines.split(b"\n")[:-1], strict=True):
            message = deserialize_json(line)
            if message["type"] != "RECORD":
                for one in self._maps:
                    yield {**message, "stream": one.stream_alias}
                continue
            record = message["record"]
            if self._selective:
                pop_deselected_record_properties(record, {}, self.mask)
            if self.lake_metadata:
                record |= _lake_metadata(offset, file)
            if self.sequence:
                message["sequence"] = offset
            written = False
            for one in self._maps:
                mapped = one.transform(record)
                if mapped is not None:
                    written = True
                    yield {**message, "stream": one.stream_alias, "record": mapped}
            if not written:
                self.left_out(offset)


def register(
    mapper: PluginMapper,
    stream: str,
    schema: dict[str, Any],
    keys: Sequence[str],
    mask: SelectionMask,
    *,
    lake_metadata: bool,
) -> list[StreamMap]:
    """The stream maps for a schema, without those that only remove. Raises ``SettingError`` where the SDK cannot map
    the schema, and the SDK's own errors for a map that is wrong in itself."""
    try:
        selected = get_selected_schema(stream, schema, mask)
        if lake_metadata:
            selected["properties"] = {**selected["properties"], **LAKE_METADATA}
        mapper.register_raw_stream_schema(stream, selected, list(keys))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise SettingError(
            f"the schema of stream {stream!r} is too complex for stream maps or flattening: {error!r}",
            hint="leave the stream out of stream_maps and unset flattening_enabled",
        ) from error
    return [one for one in mapper.stream_maps[stream] if not isinstance(one, RemoveRecordTransform)]


def _lake_metadata(offset: int, file: DataFile) -> dict[str, Any]:
    return {"_singerlake_offset": offset, "_singerlake_version": file.version, "_singerlake_file": file.path}


def _lines(messages: Iterator[dict[str, Any]]) -> bytes:
    return b"".join(encode(message) + b"\n" for message in messages)
