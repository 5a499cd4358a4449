"""How a table stands: its figures, its last runs, and how far it is behind its stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.format.state.model import Manifest
from singerlake.tables.state.model import Source, TableRun, TableState

RUNS = ("run", "rebuild")
"""Kinds of writes that took messages in; the others are of maintenance."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A published table, of the stream of ``source``, or of a statement that read the tables ``made_from``. ``behind``
    counts messages of its stream that it does not hold yet, all of them where the stream was rebuilt or erased from
    since; None where the stream's state is not known, and for a statement. ``runs``: the newest first. ``checks`` are
    ``(column, condition, action)``, and ``failing`` counts rows of the last run that one does not hold for."""

    table: str
    declaration: Mapping[str, Any]
    source: Source | None
    made_from: tuple[str, ...]
    rows: int
    files: int
    bytes: int
    behind: int | None
    runs: tuple[TableRun, ...]
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


def standing_of(state: TableState, manifest: Manifest | None) -> Standing:
    """The standing of a table whose stream has that state now; None: it is not known."""
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
        behind=None if manifest is None or source is None else source.behind(manifest),
        runs=runs,
        checks=tuple((column, text, action) for column, text, action in state.declaration.get("checks", ())),
        failing=dict(runs[0].checks) if runs else {},
    )
