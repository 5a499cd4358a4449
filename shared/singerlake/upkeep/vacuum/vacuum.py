"""Vacuuming a lake, one stream after the other."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import LakeError, SettingError
from singerlake.format import layout
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.progress import Report, reporting
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.vacuum.apply import Vacuumed, vacuum_stream
from singerlake.upkeep.vacuum.plan import VacuumPlan
from singerlake.upkeep.verify.findings import Finding


@dataclass(frozen=True, slots=True)
class Join:
    """Neighbouring files of one version from an offset on, that become one file."""

    offset: int
    version: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Joins:
    """What was to be joined, in offset order, and why other files were not: ``large`` ones are large enough,
    ``between`` are alone beside files of other versions, ``others`` have too little beside them, and ``later`` ones are
    joined when a collection has made room."""

    runs: tuple[Join, ...]
    large: Tally
    between: Tally
    others: Tally
    later: Tally

    @property
    def joined(self) -> Tally:
        """The files of all joins."""
        return sum((Tally(run.files, run.bytes) for run in self.runs), NONE)


@dataclass(frozen=True, slots=True)
class StreamVacuum:
    """What was done to one stream. ``joined`` files were replaced by ``into`` new ones. Files ``apart`` have neighbours
    with other SCHEMA messages, which the files alone tell; others replaced the files ``overtaken`` meanwhile. With
    ``dry_run`` there is the ``plan`` alone."""

    tap: str
    stream: str
    plan: Joins
    joined: Tally
    into: Tally
    apart: Tally
    overtaken: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumResult:
    """What was done to each stream. ``findings`` are files that are not what the manifest says, and streams whose state
    cannot be read."""

    lake: str
    dry_run: bool
    streams: tuple[StreamVacuum, ...]
    findings: tuple[Finding, ...]


def vacuum_lake(
    lake: LakeContext,
    tap: str | None,
    stream: str | None,
    *,
    target_bytes: int,
    most_waiting: int,
    dry_run: bool,
    threads: int,
    progress: Report | None,
) -> VacuumResult:
    """Vacuum the streams that are meant. One whose state cannot be read stops no other."""
    done, unread, findings = list[StreamVacuum](), list[Finding](), list[Finding]()
    for name, each in lake.chosen(tap, stream):
        started = lake.clock.now()
        bar = reporting(progress, f"{name}/{each}")
        try:
            context = lake.stream(name, each).context()
            vacuumed = vacuum_stream(
                context,
                target_bytes=target_bytes,
                most_waiting=most_waiting,
                dry_run=dry_run,
                threads=threads,
                progress=bar,
            )
            if vacuumed.joined.files:
                record_run(context, "vacuum", vacuumed.joined, started=started)
        except (LakeError, SettingError) as error:
            unread.append(Finding("manifest", layout.stream_prefix(name, each), f"{error.message}; {error.hint}"))
            continue
        findings += vacuumed.findings
        done.append(_done(name, each, vacuumed))
    return VacuumResult(lake=lake.storage.url, dry_run=dry_run, streams=tuple(done), findings=(*unread, *findings))


def _done(tap: str, stream: str, vacuumed: Vacuumed) -> StreamVacuum:
    return StreamVacuum(
        tap, stream, _joins(vacuumed.plan), vacuumed.joined, vacuumed.into, vacuumed.apart, vacuumed.overtaken
    )


def _joins(plan: VacuumPlan) -> Joins:
    """The plan without the files themselves, which may be millions."""
    runs = tuple(Join(run.offset, run.version, len(run), run.bytes) for run in plan.runs)
    return Joins(runs, plan.large, plan.between, plan.others, plan.later)
