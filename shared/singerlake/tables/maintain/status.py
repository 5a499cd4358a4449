"""How a table stands: its figures, its last runs, and how far it is behind its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.arrow.schema.columns import JsonText
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.format.state.model import Manifest
from singerlake.glance import at_a_glance
from singerlake.tables.declaration.stored import declaration_of
from singerlake.tables.rows.columns import columns_of
from singerlake.tables.rows.mixed_keys import MixedKeys, mixed_keys
from singerlake.tables.state.commit import load, tables
from singerlake.tables.state.model import TableRun, TableSource, TableState, source_of
from singerlake.tables.state.types import words_of
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.reports.status import States, StreamStatus, stream_statuses
from singerlake.upkeep.result import FOR_PYTHON
from singerlake.work.parallel import THREADS, in_parallel

BEGUN = "begun, and not made yet; run 'singerlake project run'"
RUNS = ("run", "rebuild")
"""Kinds of writes that took messages in; the others are of maintenance."""
_JSON = words_of(JsonText())


@dataclass(frozen=True, slots=True)
class Standing:
    """A published table, of the stream of ``source``, or of a statement that read the tables ``made_from``. ``behind``
    counts messages of its stream that it does not hold yet, all of them where the stream was rebuilt or erased from
    since; None where the stream's state is not known, and for a statement. ``outdated`` says which of these happened,
    and is empty where none did. ``runs``: the newest first. ``checks`` are ``(column, condition, action)``, and
    ``failing`` counts rows of the last run that one does not hold for."""

    table: str
    declaration: Mapping[str, Any]
    source: TableSource | None
    made_from: tuple[str, ...]
    rows: int
    files: int
    bytes: int
    behind: int | None
    runs: tuple[TableRun, ...]
    outdated: str = ""
    checks: tuple[tuple[str, str, str], ...] = ()
    failing: Mapping[str, int] = field(default_factory=dict)

    @property
    def source_text(self) -> str:
        """How lists call what it is made from."""
        if self.source is not None:
            return f"{self.source.tap}.{self.source.stream}"
        return f"sql of {', '.join(self.made_from)}" if self.made_from else "sql"

    @property
    def last_run(self) -> TableRun | None:
        """The newest one."""
        return self.runs[0] if self.runs else None


def standing_of(state: TableState, newest: TableSource | None) -> Standing:
    """The standing of a table whose stream is like that now; None: it is not known."""
    source = state.sources[0] if state.sources else None
    runs = tuple(run for run in reversed(state.runs) if run.kind in RUNS)
    return Standing(
        table=state.table,
        declaration=state.declaration,
        source=source,
        made_from=tuple(each.table for each in state.made_from),
        rows=state.rows,
        files=len(state.files),
        bytes=state.bytes,
        behind=None if newest is None or source is None else source.behind(newest),
        runs=runs,
        outdated="" if newest is None or source is None else source.outdated(newest),
        checks=tuple((column, text, action) for column, text, action in state.declaration.get("checks", ())),
        failing=dict(runs[0].checks) if runs else {},
    )


@at_a_glance
@dataclass(frozen=True, slots=True)
class TableStatus:
    """How a table stands that is made from a stream up to ``offset``, or from the tables ``made_from``. ``behind``
    counts messages of the stream that it does not hold yet, None where that is not known; ``checks`` are so many. The
    newest of ``runs`` comes first. ``trouble`` says why there are no figures. ``mixed_keys`` has for each property of
    its key that is of several types the label of the version from which on it has a type, with that type. ``source`` is
    how lists call what it is made from."""

    table: str
    tap: str | None
    stream: str | None
    offset: int | None
    made_from: tuple[str, ...]
    behind: int | None
    checks: int | None
    runs: tuple[TableRun, ...]
    trouble: str | None
    mixed_keys: MixedKeys = field(default_factory=dict)
    source: str = field(default="", metadata=FOR_PYTHON)


@at_a_glance
@dataclass(frozen=True, slots=True)
class StatusResult:
    """How each stream stands, and each table that is made from one of them."""

    lake: str
    streams: tuple[StreamStatus, ...]
    tables: tuple[TableStatus, ...]


def status_of(lake: LakeContext, tap: str | None, stream: str | None, *, runs: int) -> StatusResult:
    """The status of the streams that are meant. ``runs``: how many of each stream and kind, and of each table."""
    streams, states = stream_statuses(lake, lake.chosen(tap, stream), runs)
    found = in_parallel(lambda name: _table_status(lake, name, states, runs), tables(lake.storage), threads=THREADS)
    # Of a table that cannot be read nobody knows the stream.
    meant = (
        each for each in found if (tap is None and stream is None) or each.trouble or (each.tap, each.stream) in states
    )
    return StatusResult(lake.storage.url, streams, tuple(meant))


def _table_status(lake: LakeContext, name: str, states: States, last: int) -> TableStatus:
    standing, trouble = None, BEGUN
    mixed: MixedKeys = {}
    try:
        with expected_errors(table=name):
            if (state := _published(lake, name)) is not None:
                manifest = _manifest(lake, state, states)
                standing = standing_of(state, None if manifest is None else source_of(manifest))
                mixed = {} if manifest is None else _mixed_keys(state, manifest)
    except SingerlakeError as error:
        standing, trouble = None, f"{error.message}; {error.hint}"
    source = standing.source if standing else None
    return TableStatus(
        table=name,
        tap=source.tap if source else None,
        stream=source.stream if source else None,
        offset=source.offset if source else None,
        made_from=standing.made_from if standing else (),
        behind=standing.behind if standing else None,
        checks=len(standing.checks) if standing else None,
        runs=standing.runs[:last] if standing else (),
        trouble=None if standing else trouble,
        mixed_keys=mixed,
        source=standing.source_text if standing else "",
    )


def _published(lake: LakeContext, name: str) -> TableState | None:
    found = load(lake.storage, name)
    return found.state if found is not None and found.state.is_published else None


def _manifest(lake: LakeContext, state: TableState, states: States) -> Manifest | None:
    """The state of the stream that a table is made from; None of a statement, and where it is not known."""
    if not state.sources:
        return None
    pair = (state.sources[0].tap, state.sources[0].stream)
    return states[pair] if pair in states else lake.stream(*pair).state()


def _mixed_keys(state: TableState, manifest: Manifest) -> MixedKeys:
    if not any(entry.name in state.key and entry.type == _JSON for entry in state.columns):
        return {}
    try:
        declaration = declaration_of(state)
        columns = columns_of(declaration, manifest)
    except SingerlakeError:
        # The next run ends with it.
        return {}
    key = [each.source for each in columns.records if each.kept and each.name in state.key]
    return mixed_keys(declaration, columns, key, manifest)
