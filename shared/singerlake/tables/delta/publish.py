"""Bringing a table's Delta log to its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from singerlake.clock import Clock
from singerlake.errors import TooManyConflictsError, UnknownOutcomeError
from singerlake.format.exact_json import encode
from singerlake.storage.port import Storage
from singerlake.tables.declaration.model import Format
from singerlake.tables.declaration.stored import declaration_of
from singerlake.tables.delta.checkpoint import checkpoint_of
from singerlake.tables.delta.commit import checkpoint_actions, columns_of, new_files, next_commit, path_in_log
from singerlake.tables.delta.log import (
    Log,
    checkpoint_key,
    commit_key,
    hint_key,
    read,
    shown_by,
)
from singerlake.tables.delta.schema import schema_string
from singerlake.tables.delta.stats import stats
from singerlake.tables.state.commit import load
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import TableFile, TableState
from singerlake.work.parallel import THREADS, in_parallel

CHECKPOINT_AFTER = 10
"""Commits behind the last checkpoint: what Delta's own writers leave to readers."""
ATTEMPTS = 10


def has_log(state: TableState) -> bool:
    """Whether a Delta log goes with the table."""
    return state.is_published and state.declaration.get("format") == Format.DELTA


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
        # The log first: what it shows was a state of the table then, so the state read after it is no older.
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
