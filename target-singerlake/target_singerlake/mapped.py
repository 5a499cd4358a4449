"""The rewriting road: stream maps, flattening and added metadata, by singer-sdk's maps and this package's care.

From ``StreamMap.transform`` on nothing of singer-sdk touches a record: what a tap calls ``_sdc_...`` stays, time
stamps stay texts, numbers keep their digits, and the envelope keeps what it holds. Messages that no map changes keep
their very bytes.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from singer_sdk.exceptions import MappingError
from singer_sdk.mapper import PluginMapper, RemoveRecordTransform, SameRecordTransform, StreamMap

from singerlake.clock import Clock, timestamp
from singerlake.errors import InvalidMessageError, InvalidSchemaError, SingerlakeError
from target_singerlake.errors import RecordBeforeSchemaError
from target_singerlake.input.messages import Block, EarlyActivations, Message, Records, encode
from target_singerlake.input.passthrough import BLOCK_BYTES, RecordCheck, envelope, parse
from target_singerlake.input.schema import schema_of
from target_singerlake.state import HeldStates

_TIMES = ("_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at", "_sdc_deleted_at")
_NUMBERS = ("_sdc_sequence", "_sdc_table_version", "_sdc_sync_started_at")


@dataclass
class _MappedStream:
    """One map of one stream: what its SCHEMA becomes, and whether messages pass it as they are."""

    map: StreamMap
    check: RecordCheck
    schema_line: bytes
    unchanged: bool


@dataclass
class MappedDecoder:
    """Messages as the configured maps make them; takes the place of ``PassthroughDecoder``."""

    mapper: PluginMapper
    add_metadata: bool
    clock: Clock
    started: datetime
    early: EarlyActivations = field(default_factory=lambda: EarlyActivations(HeldStates()))
    next_number: int = 1
    block_bytes: int = BLOCK_BYTES
    requires_keys: bool = True
    _ways: dict[str, list[_MappedStream]] = field(default_factory=dict)
    _lines: dict[str, bytes] = field(default_factory=dict)
    _said: dict[str, bytes] = field(default_factory=dict)

    def messages(self, block: Block, number: int) -> Iterator[Records | Message]:
        """The messages of ``block``, whose first line has the number ``number``: see ``PassthroughDecoder``."""
        for line in io.BytesIO(block):
            if line.strip():
                content = parse(line, number)
                kind, stream = envelope(content, line, number)
                if kind == "SCHEMA":
                    yield from self._schema(content, stream, line, number)
                    yield from self.early.release(stream, partial(self._activation, stream))
                elif kind in ("STATE", "BATCH"):
                    yield Message(kind, stream, line, number)
                elif kind == "ACTIVATE_VERSION" and stream not in self._ways:
                    self.early.hold(Message(kind, stream, line, number))
                else:
                    for way in self._ways_of(stream, number):
                        yield from self._through(way, content, line, number)
            number += 1
        self.next_number = number

    def _activation(self, stream: str, line: bytes, number: int) -> Iterator[Records | Message]:
        content = parse(line, number)
        for way in self._ways[stream]:
            yield from self._through(way, content, line, number)

    def _ways_of(self, stream: str, number: int) -> list[_MappedStream]:
        if stream not in self._ways:
            raise RecordBeforeSchemaError(
                "a record came before its stream's SCHEMA",
                hint="the tap must send SCHEMA first",
                line=number,
                stream=stream,
            )
        return self._ways[stream]

    def _schema(self, content: dict[str, Any], stream: str, line: bytes, number: int) -> Iterator[Message]:
        if self._lines.get(stream) != line:
            keys = schema_of(line, number).content.key_properties
            try:
                self.mapper.register_raw_stream_schema(stream, copy.deepcopy(content["schema"]), list(keys))
                maps = self.mapper.stream_maps[stream]
                ways = [self._way(map, content, line) for map in maps if not isinstance(map, RemoveRecordTransform)]
            except (SingerlakeError, MappingError):
                raise
            except Exception as error:
                raise InvalidSchemaError(
                    f"the stream maps or the flattening cannot take this schema ({type(error).__name__}: {error})",
                    hint="leave this stream out of stream_maps and flattening",
                    line=number,
                    stream=stream,
                ) from error
            self._ways[stream], self._lines[stream] = ways, line
        for way in self._ways[stream]:
            yield self._said_anew(way, number)

    def _said_anew(self, way: _MappedStream, number: int) -> Message:
        self._said[way.map.stream_alias] = way.schema_line
        return Message("SCHEMA", way.map.stream_alias, way.schema_line, number)

    def _way(self, map: StreamMap, content: dict[str, Any], line: bytes) -> _MappedStream:
        keys = list(map.transformed_key_properties or [])
        check = RecordCheck(map.stream_alias, keys)
        unchanged = isinstance(map, SameRecordTransform) and not map.flattening_enabled and not self.add_metadata
        if unchanged:
            return _MappedStream(map, check, line, True)
        schema = copy.deepcopy(map.transformed_schema)
        if self.add_metadata:
            schema["properties"] |= {name: {"type": ["null", "string"], "format": "date-time"} for name in _TIMES}
            schema["properties"] |= {name: {"type": ["null", "integer"]} for name in _NUMBERS}
        message = {**content, "stream": map.stream_alias, "schema": schema}
        if keys or "key_properties" in content:
            message["key_properties"] = keys
        return _MappedStream(map, check, encode(message) + b"\n", False)

    def _through(
        self, way: _MappedStream, content: dict[str, Any], line: bytes, number: int
    ) -> Iterator[Records | Message]:
        alias = way.map.stream_alias
        made = line
        if content["type"] == "RECORD":
            record = self._transformed(way, content, number)
            if record is None:
                return
            if self.requires_keys:
                way.check.require_keys(record, number)
            if not way.unchanged:
                made = encode({**content, "stream": alias, "record": record}) + b"\n"
        elif alias != content["stream"]:
            made = encode({**content, "stream": alias}) + b"\n"
        if self._said[alias] != way.schema_line:
            # Two streams are mapped to one name: each record is kept with the schema it came with.
            yield self._said_anew(way, number)
        if content["type"] == "RECORD":
            yield Records(alias, made, 1, number, [content.get("time_extracted")])
        else:
            yield Message("ACTIVATE_VERSION", alias, made, number)

    def _transformed(self, way: _MappedStream, content: dict[str, Any], number: int) -> dict[str, Any] | None:
        if way.unchanged:
            sent: dict[str, Any] = content["record"]
            return sent
        try:
            record: dict[str, Any] | None = way.map.transform(copy.copy(content["record"]))
        except MappingError:
            raise
        except Exception as error:
            raise InvalidMessageError(
                f"a stream map failed on a record ({type(error).__name__})",
                hint="correct the expression in stream_maps",
                line=number,
                stream=content["stream"],
            ) from error
        if record is not None and self.add_metadata:
            now = self.clock.now()
            record |= {
                "_sdc_extracted_at": content.get("time_extracted"),
                "_sdc_received_at": timestamp(now),
                "_sdc_batched_at": timestamp(now),
                "_sdc_deleted_at": record.get("_sdc_deleted_at"),
                "_sdc_sequence": round(now.timestamp() * 1000),
                "_sdc_table_version": content.get("version"),
                "_sdc_sync_started_at": round(self.started.timestamp() * 1000),
            }
        return record
