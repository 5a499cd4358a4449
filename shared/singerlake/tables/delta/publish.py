"""Bringing a table's Delta log to its state."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec

from singerlake.clock import Clock, timestamp
from singerlake.errors import BrokenFileError, MissingFileError, TooManyConflictsError, UnknownOutcomeError
from singerlake.format.exact_json import encode
from singerlake.storage.port import Entry, Storage
from singerlake.tables.declaration.model import Format
from singerlake.tables.declaration.stored import declaration_of
from singerlake.tables.delta.log import (
    WHOLE,
    WRITER,
    Action,
    Listing,
    Log,
    checkpoint_key,
    checkpoint_of,
    commit_key,
    hint_key,
    listed,
    log_prefix,
    newest,
    read,
    shown_by,
)
from singerlake.tables.delta.schema import protocol_of, schema_string
from singerlake.tables.description import Description, url_of
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.state.types import columns_of
from singerlake.work.parallel import THREADS, in_parallel

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


NAME, FORMAT = "a Delta log", "delta"
CHECKPOINT_AFTER = 10
"""Commits behind the last checkpoint: what Delta's own writers leave to readers."""
ATTEMPTS = 10


def has_log(state: TableState) -> bool:
    """Whether a Delta log goes with the table."""
    return state.is_published and state.declaration.get("format") == Format.DELTA


def prefix_of(table: str) -> str:
    """Everything of a table's log."""
    return log_prefix(table)


def described(storage: Storage, state: TableState) -> Description:
    """How the log describes the table. Raises ``CorruptObjectError``, and what storage raises."""
    version = newest(storage, state.table).version
    url = url_of(storage, state.table)
    return Description(max(version, 0), url, shown_by(storage, state.table) == state.id, is_there=version >= 0)


def catch_up(storage: Storage, state: TableState, clock: Clock) -> None:
    """Bring the log to the table as it is, if it does not show ``state``, or commits of it are gone. Raises as
    ``publish``."""
    if has_log(state) and shown_by(storage, state.table) != state.id:
        publish(storage, state.table, clock)


def publish(storage: Storage, table: str, clock: Clock) -> None:
    """Bring the log of a table to its newest state, by one commit. Does nothing for a table in another format.

    Raises ``CorruptObjectError`` where the log is damaged, ``TooManyConflictsError``, and what storage raises: the log
    is then at the state that it was at, or at a later one.
    """
    for _ in range(ATTEMPTS):
        # The log first: what it shows was a state of the table then, so the state read after it is not older.
        log = read(storage, table)
        found = load(storage, table)
        if found is None or not has_log(found.state):
            return
        state = found.state
        if log.shows == state.id:
            if log.cut or log.version - log.checkpoint >= CHECKPOINT_AFTER:
                _write_checkpoint(storage, log, state)
            return
        body = next_commit(log, state, _stats(storage, state, new_files(log, state)), clock.now())
        with suppress(UnknownOutcomeError):
            storage.put(commit_key(table, log.version + 1), body, if_absent=True)
    raise TooManyConflictsError("other runs kept writing the Delta log", hint="run again; nothing is lost", table=table)


def leave_old_behind(storage: Storage, table: str, before: datetime) -> None:
    """Write a checkpoint where a commit behind the last one removes files and is as old as ``before``, or is of an
    earlier generation: commits before a checkpoint can be deleted, and with them what they say of the values in files
    that are gone. Raises as ``read``, ``load`` and what storage raises."""
    log = read(storage, table)
    found = load(storage, table)
    if found is None or not has_log(found.state) or log.shows != found.state.id or log.cut:
        return
    removes = log.removal is not None and log.removal <= before.timestamp() * 1000
    if removes or (log.generation is not None and log.generation < found.state.generation):
        _write_checkpoint(storage, log, found.state)


def disagreements(storage: Storage, table: str) -> Iterator[str]:
    """What of the log of a table is not as the state has it. Raises as ``read`` and ``load``."""
    log = read(storage, table)
    found = load(storage, table)
    if found is None or not has_log(found.state):
        return
    state = found.state
    if log.shows != state.id or log.cut:
        # A run may have written both meanwhile.
        log = read(storage, table)
    if log.cut:
        yield "a commit of the Delta log is gone; run 'singerlake project run'"
        return
    if log.shows != state.id:
        yield "the Delta log is behind the table; run 'singerlake project run'"
        return
    listed = {path_in_log(file.path): file.bytes for file in state.files if file.path is not None}
    if {path: added["size"] for path, added in log.added.items()} != listed:
        yield "the Delta log has other files than the table; move its folder away, and run the table again"
    if log.metadata.get("schemaString") != schema_string(columns_of(state)):
        yield "the Delta log has other columns than the table; move its folder away, and run the table again"


def _stats(storage: Storage, state: TableState, files: list[TableFile]) -> dict[str, str]:
    declared = declaration_of(state)
    partitions = [declared.rule(each.column).rename or each.column for each in declared.partition_by]
    first = [*state.order, *partitions]
    prefix = table_prefix(state.table)

    def told(file: TableFile) -> str:
        return stats(storage, f"{prefix}{file.path}", file.bytes, first)

    found = in_parallel(told, files, threads=THREADS)
    return {file.id: text for file, text in zip(files, found, strict=True)}


def _write_checkpoint(storage: Storage, log: Log, state: TableState) -> None:
    actions = checkpoint_actions(log, state)
    body = checkpoint_of(actions)
    storage.put(checkpoint_key(state.table, log.version), body, if_absent=True)
    hint = {"version": log.version, "size": len(actions), "sizeInBytes": len(body), "numOfAddFiles": len(log.added)}
    storage.put(hint_key(state.table), encode(hint))


def new_files(log: Log, state: TableState) -> list[TableFile]:
    """The files of the state that the log has not."""
    return [file for file in state.files if file.path is not None and path_in_log(file.path) not in log.added]


def path_in_log(path: str) -> str:
    """A file's path as a URI, as the log has it."""
    return quote(path, safe="/=")


def path_of(in_log: str) -> str:
    """The path that a path of the log means."""
    return unquote(in_log)


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


COLUMNS = 32
"""Columns that have statistics: as many as Delta's own writers take."""
TAIL = 1 << 16
"""Bytes from a file's end that are read at first: most footers are shorter."""
_LONGEST_TEXT, _MOST_DIGITS = 64, 15


def stats(storage: Storage, key: str, size: int, first: Sequence[str]) -> str:
    """``stats`` of the ``add`` of a parquet file of ``size`` bytes, of the columns ``first`` and of others behind them.
    Raises ``MissingFileError``, ``BrokenFileError``, and what storage raises."""
    footer = _footer(storage, key, size)
    # Which leaf of the file is a column of its own: names alone do not tell a nested one from a name with a dot.
    schema = footer.schema.to_arrow_schema()
    leaves: dict[str, int] = {}
    leaf = 0
    for field in schema:
        if not _is_nested(field.type):
            leaves[field.name] = leaf
        leaf += _leaves(field.type)
    chosen = [name for name in dict.fromkeys([*first, *leaves]) if name in leaves][:COLUMNS]
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in chosen:
        groups = [footer.row_group(index).column(leaves[name]).statistics for index in range(footer.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        ends = _ends(groups, schema.field(name).type)
        if ends is not None:
            least[name], greatest[name] = ends
    told = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return encode(told).decode()


def _ends(groups: Sequence[Any], own: pa.DataType) -> tuple[Any, Any] | None:
    """The least and the greatest value as JSON; None where parquet does not tell, or readers would take it wrong."""
    import pyarrow as pa

    # NaN is in no statistics, and greater than every number for some readers.
    if pa.types.is_boolean(own) or pa.types.is_floating(own):
        return None
    if pa.types.is_decimal(own) and own.precision > _MOST_DIGITS:
        return None
    with_values = [group for group in groups if group.num_values]
    if not with_values or not all(group.has_min_max for group in with_values):
        return None
    ends = min(group.min for group in with_values), max(group.max for group in with_values)
    if any(isinstance(end, str) and len(end) > _LONGEST_TEXT for end in ends):
        return None
    return _stat(ends[0]), _stat(ends[1])


def _stat(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp(value) if value.tzinfo else timestamp(value.replace(tzinfo=UTC)).removesuffix("Z")
    if isinstance(value, Decimal):
        return msgspec.Raw(format(value, "f").encode())
    return value.isoformat() if isinstance(value, date) else value


def _footer(storage: Storage, key: str, size: int) -> pq.FileMetaData:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tail = min(size, TAIL)
    while True:
        body = storage.read_range(key, size - tail, tail)
        if len(body) < min(8, tail):
            raise MissingFileError("a file of the table is gone", hint="run 'singerlake project verify'", file=key)
        wanted = int.from_bytes(body[-8:-4], "little") + 8
        if body[-4:] != b"PAR1" or wanted > size:
            raise BrokenFileError("not a parquet file", hint="run 'singerlake project verify'", file=key)
        if wanted <= tail:
            break
        tail = wanted
    try:
        return pq.read_metadata(io.BytesIO(body))
    except (pa.ArrowInvalid, OSError) as error:
        raise BrokenFileError("not a parquet file", hint="run 'singerlake project verify'", file=key) from error


def _is_nested(own: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(own))


def _leaves(own: pa.DataType) -> int:
    """How many columns of parquet one of these takes."""
    return sum(_leaves(own.field(index).type) for index in range(own.num_fields)) if _is_nested(own) else 1


def kept(storage: Storage, state: TableState, objects: Sequence[Entry], *, now: datetime, grace: timedelta) -> set[str]:
    """Keys of a table's ``objects`` that have to stay for readers of its Delta log: what it names or named in the last
    ``grace``, and the log from the newest checkpoint on that is as old. A log that goes with no table any more is kept
    or left as a whole. Raises ``CorruptObjectError``, and what storage raises."""
    before = now - grace
    prefix = log_prefix(state.table)
    own = [entry for entry in objects if entry.key.startswith(prefix)]
    keys = {entry.key for entry in own}
    if not has_log(state):
        return keys if any(entry.last_modified > before for entry in own) else set()
    log = read(storage, state.table)
    removed = {
        path for path, each in log.removed.items() if each.get("deletionTimestamp", 0) > 1000 * before.timestamp()
    }
    files = {table_prefix(state.table) + path_of(path) for path in log.added.keys() | removed}
    return (keys - _expired(listed(own), before)) | files


def _expired(listing: Listing, before: datetime) -> set[str]:
    """The log before the newest checkpoint of that age."""
    first = max((version for version, each in listing.checkpoints.items() if each.last_modified <= before), default=0)
    return {
        entry.key
        for known in (listing.commits, listing.checkpoints)
        for version, entry in known.items()
        if version < first
    }
