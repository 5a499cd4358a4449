"""How the runs that wrote to streams, or looked after them, went, from what they committed of themselves (Sleeper's job
trackers).

A run says how it ended in its last commit. One that was killed cannot: it is *lost* once it has been silent for long in
every stream it wrote to and holds no live lock. All times are the writers' own clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from singerlake.clock import parse_timestamp
from singerlake.format.state.model import CAPTURE, Manifest, Run
from singerlake.upkeep.lock_files import STALE, LockFile

SILENT = timedelta(hours=1)
"""How long a run may commit nothing to any stream before it counts as lost. Targets commit what they have read at least
every 5 minutes unless told otherwise; a tap may well be silent for longer."""

Outcome = Literal["running", "lost", "completed", "failed", "interrupted"]
_OUTCOMES: dict[str, Outcome] = {"finished": "completed", "failed": "failed", "stopped": "interrupted"}


@dataclass(frozen=True, slots=True)
class Tracked:
    """One run of a writer, as far as one stream knows it. ``started`` and ``updated`` (its last commit) are UTC on the
    writer's clock, None where they cannot be read; ``seconds`` lie between them. ``bytes`` are as stored. ``locked``:
    it holds a live lock of the stream. A writer that has committed nothing yet has no ``id``."""

    id: str | None
    writer: str
    outcome: Outcome
    started: datetime | None
    updated: datetime | None
    seconds: float | None
    files: int
    messages: int
    records: int
    bytes: int
    locked: bool
    kind: str = CAPTURE


def last_signs(manifests: Iterable[Manifest]) -> dict[str, datetime]:
    """When each run last committed to any of the streams: run id -> moment."""
    latest: dict[str, datetime] = {}
    for manifest in manifests:
        for run in manifest.runs:
            moment = parse_timestamp(run.updated or run.started)
            if moment is not None:
                latest[run.id] = max(moment, latest.get(run.id, moment))
    return latest


def track(
    manifest: Manifest,
    locks: Sequence[LockFile],
    signs: Mapping[str, datetime],
    *,
    now: datetime,
    last: int,
    maintenance: bool = True,
) -> tuple[Tracked, ...]:
    """The last ``last`` captures of a stream and, with ``maintenance``, as many of its other runs, the newest first,
    after the live writers that have committed nothing to it yet. ``signs`` are ``last_signs`` of the streams that its
    runs may have written to."""
    live = {held.body.writer_id: held for held in locks if held.body and not held.free and now - held.changed < STALE}
    captures = [run for run in manifest.runs if run.captures][-last:]
    others = [run for run in manifest.runs if not run.captures and maintenance][-last:]
    shown = {run.id for run in (*captures, *others)} if last else ()
    runs = [run for run in manifest.runs if run.id in shown]
    tracked = [_tracked(run, run.writer in live, signs.get(run.id), now) for run in reversed(runs)]
    known = {run.writer for run in manifest.runs}
    return (*(_seen_by_lock_alone(held) for writer, held in live.items() if writer not in known), *tracked)


def _tracked(run: Run, locked: bool, last_seen: datetime | None, now: datetime) -> Tracked:
    started, updated = parse_timestamp(run.started), parse_timestamp(run.updated)
    outcome = _OUTCOMES.get(run.status)
    if outcome is None:
        silent = last_seen is None or now - last_seen >= SILENT
        outcome = "lost" if silent and not locked else "running"
    return Tracked(
        id=run.id,
        writer=run.writer,
        outcome=outcome,
        started=started,
        updated=updated,
        seconds=max(0.0, (updated - started).total_seconds()) if started and updated else None,
        files=run.files,
        messages=run.messages,
        records=run.records,
        bytes=run.bytes,
        locked=locked,
        kind=run.kind,
    )


def _seen_by_lock_alone(held: LockFile) -> Tracked:
    """A writer that the lock alone tells of: it is uploading its first file of the stream, or repairs it."""
    assert held.body is not None
    started = parse_timestamp(held.body.acquired)
    return Tracked(None, held.body.writer_id, "running", started, None, None, 0, 0, 0, 0, locked=True)
