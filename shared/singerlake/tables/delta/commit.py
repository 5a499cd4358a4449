"""The commit that brings a Delta log to a state of its table. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

from singerlake.arrow.schema.columns import Field, Struct
from singerlake.format.exact_json import encode
from singerlake.tables.delta.log import WHOLE, WRITER, Action, Log
from singerlake.tables.delta.schema import protocol_of, schema_string
from singerlake.tables.rows.types import column_of
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import TableFile, TableState


def new_files(log: Log, state: TableState) -> list[TableFile]:
    """The files of the state that the log has not."""
    return [file for file in state.files if file.path is not None and path_in_log(file.path) not in log.added]


def path_in_log(path: str) -> str:
    """A file's path as a URI, as the log has it."""
    return quote(path, safe="/=")


def path_of(in_log: str) -> str:
    """The path that a path of the log means."""
    return unquote(in_log)


def columns_of(state: TableState) -> Struct:
    """The state's columns. Raises ``CorruptObjectError``."""
    key = state_key(state.table)
    return Struct(tuple(Field(each.name, column_of(each.type, key=key)) for each in state.columns))


def next_commit(log: Log, state: TableState, stats: Mapping[str, str], now: datetime) -> bytes:
    """What to write behind ``log``: JSON lines. ``stats`` of new files are by their ids."""
    return b"".join(encode(action) + b"\n" for action in _actions(log, state, stats, _milliseconds(now)))


def _actions(log: Log, state: TableState, stats: Mapping[str, str], at: int) -> Iterator[Action]:
    own: dict[str, Any] = {"id": state.id, "number": state.number, "generation": state.generation}
    if log.version >= 0 and not log.metadata:
        own[WHOLE] = True
    yield {"commitInfo": {"timestamp": at, "operation": "WRITE", "operationParameters": {}, WRITER: own}}
    columns = columns_of(state)
    protocol = protocol_of(columns)
    if not log.protocol or not {*protocol.get("readerFeatures", ())} <= {*(log.protocol.get("readerFeatures") or ())}:
        yield {"protocol": protocol}
    schema = schema_string(columns)
    if log.metadata.get("schemaString") != schema or log.metadata.get("partitionColumns"):
        yield {
            "metaData": {
                "id": log.metadata.get("id") or str(uuid.uuid5(uuid.NAMESPACE_OID, f"{state.lake_id} {state.id}")),
                "name": state.table,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": log.metadata.get("configuration") or {},
                "createdTime": log.metadata.get("createdTime") or at,
            }
        }
    versions = {WRITER: state.number, **{f"{WRITER}:{source.lineage}": source.offset for source in state.sources}}
    for application, version in versions.items():
        yield {"txn": {"appId": application, "version": version, "lastUpdated": at}}
    wanted = {path_in_log(file.path) for file in state.files if file.path is not None}
    for path, added in log.added.items():
        if path not in wanted:
            removed = {"path": path, "deletionTimestamp": at, "dataChange": True, "extendedFileMetadata": True}
            yield {"remove": {**removed, "partitionValues": added["partitionValues"], "size": added["size"]}}
    for file in new_files(log, state):
        assert file.path is not None
        added = {"path": path_in_log(file.path), "partitionValues": {}, "size": file.bytes, "modificationTime": at}
        yield {"add": {**added, "dataChange": True, "stats": stats[file.id]}}


def checkpoint_actions(log: Log, state: TableState) -> Sequence[Action]:
    """What a checkpoint of the log holds. Of what was removed it keeps what may still be there."""
    there = {path_in_log(file.path) for file in state.retired}
    return [
        {"protocol": log.protocol},
        {"metaData": log.metadata},
        *({"txn": each} for each in log.transactions.values()),
        *({"add": each} for each in log.added.values()),
        *({"remove": each} for path, each in log.removed.items() if path in there),
    ]


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
