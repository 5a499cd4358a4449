"""How streams stand: their last runs, who writes to them now, which are silent, and what a tap forgot.

Runs are known from what they committed of themselves (Sleeper's job trackers). A run says how it ended in its last
commit. One that was killed cannot: it is *lost* once it has been silent for long in every stream it wrote to and holds
no live lock. All times are the writers' own clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

from singerlake.clock import parse_timestamp
from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.quarantine import is_quarantine
from singerlake.format.state.model import CAPTURE, Manifest, Run
from singerlake.format.state.table_versions import unactivated
from singerlake.glance import at_a_glance
from singerlake.humanize import lasting
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.lock_files import STALE, LockFile, locks_of
from singerlake.upkeep.reports.census import last_write_of
from singerlake.upkeep.result import Finding
from singerlake.work.parallel import THREADS, in_parallel

NO_MANIFEST = "no manifest; run 'singerlake rebuild'"
States = Mapping[tuple[str, str], Manifest | None]
"""The state of each stream by tap and name; None where it has none that can be read."""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock at ``key`` that ``writer`` holds, None where it cannot be read. ``changed`` is the storage's time."""

    key: str
    writer: str | None
    changed: datetime


@dataclass(frozen=True, slots=True)
class UnactivatedVersion:
    """Records of ``run`` (its id) came with this table ``version``, and no ACTIVATE_VERSION followed."""

    version: int
    run: str


@dataclass(frozen=True, slots=True)
class Silence:
    """A stream is stale: its last capture ended at ``since``, and the ones before were at most ``pause`` seconds
    apart."""

    since: datetime
    pause: float

    @property
    def rhythm(self) -> str:
        """Why it is stale, in words."""
        return f"its captures were at most {lasting(timedelta(seconds=self.pause))} apart"


@at_a_glance
@dataclass(frozen=True, slots=True)
class StreamStatus:
    """``store`` keeps the stream's state, whose newest ``transaction`` has that number. ``runs``: the newest first.
    ``last_write`` is as in ``Census``. ``silence`` is that of a stale stream (see ``silence_of``) that no run writes
    to. ``quarantined``: how many messages a quarantine has. ``trouble`` says why there are no figures. ``dropped`` is
    as in ``Manifest.is_dropped``."""

    tap: str
    stream: str
    store: str | None
    transaction: int | None
    runs: tuple[Tracked, ...]
    locks: tuple[HeldLock, ...]
    unactivated: UnactivatedVersion | None
    quarantined: int
    silence: Silence | None
    last_write: datetime | None
    trouble: str | None
    dropped: bool = False


def stream_statuses(
    lake: LakeContext, pairs: Sequence[tuple[str, str]], runs: int
) -> tuple[tuple[StreamStatus, ...], States]:
    """The status of each stream, with the states that it is from. ``runs``: how many of each kind."""
    looked_at = list(in_parallel(lambda pair: _look(lake, *pair), pairs, threads=THREADS))
    states = {pair: manifest for pair, (manifest, *_) in zip(pairs, looked_at, strict=True)}
    signs = last_signs(manifest for manifest in states.values() if manifest)
    now = lake.clock.now()
    statuses = []
    for (tap, stream), (manifest, locks, last_write, trouble) in zip(pairs, looked_at, strict=True):
        left = unactivated(manifest) if manifest else None
        tracked = track(manifest, locks, signs, now=now, last=runs) if manifest else ()
        is_written = any(run.outcome == "running" for run in tracked)
        statuses.append(
            StreamStatus(
                tap=tap,
                stream=stream,
                store=manifest.store if manifest else None,
                transaction=manifest.transaction.number if manifest else None,
                runs=tracked,
                locks=tuple(
                    HeldLock(held.key, held.body.writer_id if held.body else None, held.changed)
                    for held in locks
                    if not held.free
                ),
                unactivated=UnactivatedVersion(left.version, left.run.id) if left else None,
                quarantined=manifest.next_offset - manifest.floor if manifest and is_quarantine(stream) else 0,
                silence=silence_of(manifest.runs, now) if manifest and not is_written else None,
                last_write=last_write,
                trouble=trouble,
                dropped=manifest is not None and manifest.is_dropped,
            )
        )
    return tuple(statuses), states


_Looked = tuple[Manifest | None, tuple[LockFile, ...], datetime | None, str | None]


def _look(lake: LakeContext, tap: str, stream: str) -> _Looked:
    """State, locks, last write, and why there is no state."""
    locks = tuple(locks_of(lake.storage, tap, stream))
    try:
        # Never from the data files: nothing but a state remembers runs.
        manifest = lake.stream(tap, stream).state()
    except LakeError as error:
        return None, locks, None, f"{error.message}; {error.hint}"
    if manifest is None:
        return None, locks, None, NO_MANIFEST
    return manifest, locks, last_write_of(lake.storage, manifest), None


_CAPTURES = 10
"""The newest captures of a stream, whose pauses are its rhythm."""
_PAUSES = 3
"""Pauses that a rhythm needs at least."""
_TIMES = 2
_AT_LEAST = timedelta(days=1)
"""A shorter silence is not reported: nobody looks every hour."""


def silence_of(runs: Sequence[Run], now: datetime) -> Silence | None:
    """The silence of a stream that is stale: one of a day or more, and of more than twice the longest pause between its
    last ten captures. None where it is not stale, or has too few captures for a rhythm. A setting would have to be
    right for each stream; what a stream did so far is."""
    moments = [parse_timestamp(run.updated or run.started) for run in runs if run.captures][-_CAPTURES:]
    known = sorted(moment for moment in moments if moment is not None)
    pauses = [after - before for before, after in pairwise(known)]
    if len(pauses) < _PAUSES:
        return None
    is_stale = now - known[-1] > max(_AT_LEAST, _TIMES * max(pauses))
    return Silence(known[-1], max(pauses).total_seconds()) if is_stale else None


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


_GRAVEST: tuple[Outcome, ...] = ("running", "lost", "failed", "interrupted", "completed")


@dataclass(frozen=True, slots=True)
class LakeRun:
    """One run over all of its ``streams``, whose figures are added up. Of its outcomes in them the gravest counts: it
    runs while it runs in one of them. ``id``, times and ``bytes`` are as in ``Tracked``."""

    tap: str
    id: str | None
    writer: str
    kind: str
    outcome: Outcome
    started: datetime | None
    updated: datetime | None
    seconds: float | None
    streams: tuple[str, ...]
    files: int
    messages: int
    records: int
    bytes: int


@at_a_glance
@dataclass(frozen=True, slots=True)
class RunsResult:
    """The runs that the states of streams remember, the newest first. A state that cannot be read is a finding."""

    lake: str
    runs: tuple[LakeRun, ...]
    findings: tuple[Finding, ...]


_REMEMBERED = 1_000_000
"""More runs than any stream's state has."""


def runs_in(lake: LakeContext, tap: str | None, stream: str | None, last: int) -> RunsResult:
    """The ``last`` runs of the streams that are meant."""
    statuses, _ = stream_statuses(lake, lake.chosen(tap, stream), _REMEMBERED)
    findings = (
        Finding("manifest", layout.stream_prefix(each.tap, each.stream), each.trouble)
        for each in statuses
        if each.trouble
    )
    return RunsResult(lake.storage.url, runs_of(statuses)[:last], tuple(findings))


def runs_of(statuses: Iterable[StreamStatus]) -> tuple[LakeRun, ...]:
    """The runs of several streams, the newest first; one without a time comes last. Pure."""
    shares: dict[tuple[str, str, str | None], list[tuple[str, Tracked]]] = {}
    for status in statuses:
        for run in status.runs:
            shares.setdefault((status.tap, run.writer, run.id), []).append((status.stream, run))
    runs = [_whole(tap, each) for (tap, _, _), each in shares.items()]
    return tuple(sorted(runs, key=lambda run: (run.started is not None, run.started), reverse=True))


def _whole(tap: str, shares: Sequence[tuple[str, Tracked]]) -> LakeRun:
    runs = [run for _, run in shares]
    started = min((run.started for run in runs if run.started), default=None)
    updated = max((run.updated for run in runs if run.updated), default=None)
    return LakeRun(
        tap=tap,
        id=runs[0].id,
        writer=runs[0].writer,
        kind=runs[0].kind,
        outcome=min((run.outcome for run in runs), key=_GRAVEST.index),
        started=started,
        updated=updated,
        seconds=max(0.0, (updated - started).total_seconds()) if started and updated else None,
        streams=tuple(stream for stream, _ in shares),
        files=sum(run.files for run in runs),
        messages=sum(run.messages for run in runs),
        records=sum(run.records for run in runs),
        bytes=sum(run.bytes for run in runs),
    )
