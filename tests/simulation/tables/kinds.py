"""Tables under simulation, and such with a known hole each."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from unittest import mock

from singerlake.errors import UnknownOutcomeError
from singerlake.storage.port import Refused, Storage
from singerlake.stores.port import ManifestStore
from singerlake.tables.declaration.model import TableDeclaration
from singerlake.tables.run import one_table, publish
from singerlake.tables.run.one_table import TableRunner
from singerlake.tables.state.commit import StoredState, commit, load
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import COLLECT, REBUILD, TableState, to_json
from tests.simulation.stores.kinds import Kind
from tests.simulation.tables import delta
from tests.simulation.tables.jobs import TableAuditor, table_cast
from tests.simulation.tables.watch import TableWatch
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


def _no_store(world: World, process: Process) -> ManifestStore:
    raise AssertionError("a table has no manifest store")


TABLES = Kind("tables", _no_store, TableWatch, cast=table_cast, auditor=TableAuditor)
DELTA, _FAULTY_DELTA = delta.kinds(TABLES)


def _unconditional(storage: Storage, base: StoredState | None, state: TableState) -> StoredState | None:
    """Looks before it writes, and writes whatever came between."""
    now = load(storage, state.table)
    if (now and now.etag) != (base and base.etag):
        return None
    storage.put(state_key(state.table), to_json(state))
    return load(storage, state.table)


def _without_reading_back(storage: Storage, base: StoredState | None, state: TableState) -> StoredState | None:
    """Takes each refusal for another one's success."""
    etag = base.etag if base else None
    answer = storage.put(state_key(state.table), to_json(state), if_absent=base is None, if_match=etag)
    return None if isinstance(answer, Refused) else StoredState(state, answer.etag)


def _tidy(storage: Storage, base: StoredState | None, state: TableState) -> StoredState | None:
    """Takes an outcome that nobody knows for a failure, and cleans up."""
    try:
        return commit(storage, base, state)
    except UnknownOutcomeError:
        return None


def _with(other: object) -> AbstractContextManager[object]:
    patched = ExitStack()
    for module in (one_table, publish):
        patched.enter_context(mock.patch.object(module, "commit", other))
    return patched


_announce = TableRunner.announce


def _as_if_new(runner: TableRunner, declaration: TableDeclaration, *, again: bool) -> None:
    """Takes a table that was dropped for one that nobody made yet."""
    _announce(runner, declaration, again=False)


def _blindly(storage: Storage, made: TableState, paths: object, base: TableState, now: StoredState) -> bool:
    """Takes each collector for one that spared its files."""
    since = now.state.since(base.id)
    anew = made.runs[-1].kind == REBUILD
    return since is not None and (anew or all(each.kind == COLLECT for each in since))


FAULTY_TABLES = (
    replace(TABLES, name="tables-files-first"),
    replace(TABLES, name="tables-blind", patched=lambda: mock.patch.object(publish, "may_rebase", _blindly)),
    replace(TABLES, name="tables-back", patched=lambda: mock.patch.object(TableRunner, "announce", _as_if_new)),
    replace(TABLES, name="tables-unfenced"),
    replace(TABLES, name="tables-unconditional", patched=lambda: _with(_unconditional)),
    replace(TABLES, name="tables-no-look", patched=lambda: _with(_without_reading_back)),
    replace(TABLES, name="tables-tidy", patched=lambda: _with(_tidy)),
    *_FAULTY_DELTA,
)
