"""Reading a table's Delta log: what its newest version says, from the last checkpoint and the commits behind it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from singerlake.errors import CorruptObjectError
from singerlake.format.exact_json import decode
from singerlake.storage.port import Entry, Storage
from singerlake.tables.formats.parquet import in_arrow_memory
from singerlake.tables.state.keys import DELTA_LOG, table_prefix

if TYPE_CHECKING:
    import pyarrow as pa


WRITER = "singerlake"
"""The ``appId`` of the transaction that counts a state's writes, and the field of ``commitInfo`` that names it."""
WHOLE = "whole"
"""The field of that field which says that a commit holds all of its version, whatever the commits before it say."""
_COMMIT = re.compile(r"(\d{20})\.json\Z")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet\Z")
_KNOWN_FEATURES = {"appendOnly", "invariants", "timestampNtz"}

Action = dict[str, Any]


@dataclass
class Log:
    """A log at its newest ``version``, -1 where there is none. ``shows`` is the id of the state that it shows; None
    where its last commit is not of this writer. ``added`` and ``removed`` are actions by their ``path``, as it is in
    the log; ``transactions`` are by ``appId``. ``checkpoint`` is the version of the newest one, or -1.

    ``generation`` is the least that a commit behind the checkpoint shows, None where there is no such commit of this
    writer. ``removal`` is when the first commit behind it was written that removes files, in milliseconds.

    ``cut``: a commit behind the checkpoint is gone, and others cannot read the log until there is a newer checkpoint.
    Its content is known from the last whole commit on; where there is none, nothing of it is."""

    version: int = -1
    checkpoint: int = -1
    shows: str | None = None
    cut: bool = False
    generation: int | None = None
    removal: int | None = None
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    added: dict[str, Action] = field(default_factory=dict)
    removed: dict[str, Action] = field(default_factory=dict)
    transactions: dict[str, Action] = field(default_factory=dict)

    def forget(self) -> None:
        """What the commits so far said counts no more."""
        self.shows = None
        for known in (self.protocol, self.metadata, self.added, self.removed, self.transactions):
            known.clear()

    def note_age(self, actions: Sequence[Action]) -> None:
        """Note of a commit behind the checkpoint what it shows of files that are gone."""
        shown = _info(actions).get("generation")
        if isinstance(shown, int):
            self.generation = shown if self.generation is None else min(self.generation, shown)
        for action in actions:
            removed = action.get("remove")
            at = removed.get("deletionTimestamp") if isinstance(removed, dict) else None
            if isinstance(at, int):
                self.removal = at if self.removal is None else min(self.removal, at)

    def take(self, actions: Iterable[Action]) -> None:
        """Replay actions of one commit. Those that say nothing of the snapshot are passed over."""
        for action in actions:
            for kind, what in action.items():
                if kind in ("add", "remove"):
                    there, gone = (self.added, self.removed) if kind == "add" else (self.removed, self.added)
                    there[what["path"]] = what
                    gone.pop(what["path"], None)
                elif kind == "txn":
                    self.transactions[what["appId"]] = what
                elif kind == "protocol":
                    self.protocol = what
                elif kind == "metaData":
                    self.metadata = what


@dataclass(frozen=True)
class Listing:
    """The objects of a log by their versions."""

    commits: dict[int, Entry]
    checkpoints: dict[int, Entry]

    @property
    def version(self) -> int:
        return max((*self.commits, *self.checkpoints), default=-1)

    @property
    def checkpoint(self) -> int:
        return max(self.checkpoints, default=-1)

    @property
    def is_cut(self) -> bool:
        """Whether a commit behind the last checkpoint is gone."""
        return not self.commits.keys() >= {*range(self.checkpoint + 1, self.version + 1)}


def commit_key(table: str, version: int) -> str:
    return f"{log_prefix(table)}{version:020d}.json"


def checkpoint_key(table: str, version: int) -> str:
    return f"{log_prefix(table)}{version:020d}.checkpoint.parquet"


def hint_key(table: str) -> str:
    """The object that says where the last checkpoint is."""
    return f"{log_prefix(table)}_last_checkpoint"


def log_prefix(table: str) -> str:
    """Everything of a table's log; ends in ``/``."""
    return f"{table_prefix(table)}{DELTA_LOG}/"


def shown_by(storage: Storage, table: str) -> str | None:
    """The id of the state that the log of a table shows; None where its last commit is not of this writer, or it has
    none, or others cannot read it. Raises as ``read``."""
    listing = newest(storage, table)
    entry = listing.commits.get(listing.version)
    if entry is None or listing.is_cut:
        return None
    actions = _commit(storage, entry.key)
    return None if actions is None else _shows(actions)


def read(storage: Storage, table: str) -> Log:
    """The log at its newest version. Raises ``CorruptObjectError`` where it is damaged, or others wrote to it in ways
    that are not known here, and what storage raises."""
    listing = newest(storage, table)
    log = Log(version=listing.version, checkpoint=listing.checkpoint)
    if log.checkpoint >= 0:
        key = listing.checkpoints[log.checkpoint].key
        stored = storage.get(key)
        if stored is None:
            raise _damaged(key, "a checkpoint of the Delta log is gone")
        try:
            log.take(actions_in(stored.body))
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise _damaged(key, "not a checkpoint of a Delta log") from error
    known = True
    for version in range(log.checkpoint + 1, log.version + 1):
        key = commit_key(table, version)
        actions = _commit(storage, key) if version in listing.commits else None
        if actions is None:
            # A drop or a collector may delete a log that it listed while a run writes behind it.
            log.cut, known = True, False
            log.forget()
            continue
        log.note_age(actions)
        if _info(actions).get(WHOLE):
            known = True
            log.forget()
        if not known:
            continue
        try:
            log.take(actions)
        except (KeyError, TypeError, AttributeError) as error:
            raise _damaged(key, "not a commit of a Delta log") from error
        log.shows = _shows(actions)
    if log.checkpoint == log.version and log.version in listing.commits:
        log.shows = _shows(_commit(storage, listing.commits[log.version].key) or ())
    _refuse_unknown(log, log_prefix(table))
    return log


def listed(entries: Iterable[Entry]) -> Listing:
    """Objects of a log by what their names say."""
    listing = Listing({}, {})
    for entry in entries:
        name = entry.key.rpartition("/")[2]
        for pattern, known in ((_COMMIT, listing.commits), (_CHECKPOINT, listing.checkpoints)):
            found = pattern.match(name)
            if found:
                known[int(found[1])] = entry
    return listing


def newest(storage: Storage, table: str) -> Listing:
    """The listing from the last checkpoint on, if there is one."""
    hint = storage.get(hint_key(table))
    version = 0
    if hint is not None:
        # It is a hint alone: where it cannot be read, the whole log is listed.
        said = _parsed(hint.body)
        version = said["version"] if isinstance(said, dict) and isinstance(said.get("version"), int) else 0
    if version > 0:
        listing = listed(storage.list(log_prefix(table), start_after=f"{log_prefix(table)}{version:020d}"))
        if version in listing.checkpoints:
            return listing
    return listed(storage.list(log_prefix(table)))


def _commit(storage: Storage, key: str) -> list[Action] | None:
    """None where it is gone."""
    stored = storage.get(key)
    if stored is None:
        return None
    actions = [_parsed(line) for line in stored.body.splitlines() if line.strip()]
    if not all(isinstance(action, dict) for action in actions):
        raise _damaged(key, "not a commit of a Delta log")
    return actions


def _parsed(body: bytes) -> Any:
    """None where it is not JSON."""
    try:
        return decode(body, Any)
    except msgspec.DecodeError:
        return None


def _shows(actions: Sequence[Action]) -> str | None:
    own = _info(actions)
    return str(own.get("id")) if own else None


def _info(actions: Sequence[Action]) -> dict[str, Any]:
    """What this writer says of its commit; nothing where it is another's."""
    for action in actions:
        info = action.get("commitInfo")
        own = info.get(WRITER) if isinstance(info, dict) else None
        if isinstance(own, dict):
            return own
    return {}


def _refuse_unknown(log: Log, key: str) -> None:
    features = {*(log.protocol.get("readerFeatures") or ()), *(log.protocol.get("writerFeatures") or ())}
    vectors = any(each.get("deletionVector") for each in log.added.values())
    if vectors or not features <= _KNOWN_FEATURES or log.protocol.get("minReaderVersion", 1) == 2:
        raise _damaged(key, "another program wrote to the Delta log in ways that are not known here")


def _damaged(key: str, what: str) -> CorruptObjectError:
    return CorruptObjectError(
        what, hint="move the table's folder _delta_log away, and run the table again: it is written anew", key=key
    )


def checkpoint_of(actions: Sequence[Mapping[str, Any]]) -> bytes:
    """The checkpoint that holds these actions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = io.BytesIO()
    schema = _schema()
    rows = [{kind: _stored(what, schema.field(kind).type) for kind, what in action.items()} for action in actions]
    pq.write_table(pa.Table.from_pylist(rows, schema), written, compression="zstd")
    return written.getvalue()


def actions_in(body: bytes) -> Iterator[dict[str, Any]]:
    """The actions that a checkpoint holds, as commits have them: without what is null. Raises ``ValueError`` or
    ``OSError``, as pyarrow does, where it is none."""
    import pyarrow.parquet as pq

    # Not read_table, which reads with threads beside this one.
    rows = pq.ParquetFile(in_arrow_memory(io.BytesIO(body), len(body))).read(use_threads=False)
    names = [field.name for field in _schema() if field.name in rows.column_names]
    for row in rows.select(names).to_pylist():
        yield {kind: _plain(what, rows.schema.field(kind).type) for kind, what in row.items() if what is not None}


def _stored(value: Any, own: pa.DataType) -> Any:
    """A JSON value as Arrow takes one of that type: a map as its pairs."""
    import pyarrow as pa

    if pa.types.is_map(own):
        return None if value is None else list(value.items())
    if pa.types.is_struct(own) and value is not None:
        return {field.name: _stored(value.get(field.name), field.type) for field in own}
    return value


def _plain(value: Any, own: pa.DataType) -> Any:
    """The JSON value that ``_stored`` was given, without fields that are null."""
    import pyarrow as pa

    if pa.types.is_map(own):
        return dict(value)
    if pa.types.is_struct(own):
        return {field.name: _plain(value[field.name], field.type) for field in own if value[field.name] is not None}
    return value


@cache
def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = pa.map_(pa.string(), pa.string())
    strings = pa.list_(pa.string())
    add = {"path": pa.string(), "partitionValues": texts, "size": pa.int64(), "modificationTime": pa.int64()}
    return pa.schema(
        {
            "txn": _struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
            "add": _struct({**add, "dataChange": pa.bool_(), "stats": pa.string(), "tags": texts}),
            "remove": _struct(
                {
                    "path": pa.string(),
                    "deletionTimestamp": pa.int64(),
                    "dataChange": pa.bool_(),
                    "extendedFileMetadata": pa.bool_(),
                    "partitionValues": texts,
                    "size": pa.int64(),
                }
            ),
            "metaData": _struct(
                {
                    "id": pa.string(),
                    "name": pa.string(),
                    "description": pa.string(),
                    "format": _struct({"provider": pa.string(), "options": texts}),
                    "schemaString": pa.string(),
                    "partitionColumns": strings,
                    "createdTime": pa.int64(),
                    "configuration": texts,
                }
            ),
            "protocol": _struct(
                {
                    "minReaderVersion": pa.int32(),
                    "minWriterVersion": pa.int32(),
                    "readerFeatures": strings,
                    "writerFeatures": strings,
                }
            ),
        }
    )


def _struct(fields: Mapping[str, pa.DataType]) -> pa.DataType:
    import pyarrow as pa

    return pa.struct(list(fields.items()))
