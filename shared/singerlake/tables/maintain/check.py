"""What a monitor is to be told of a lake: one finding for each thing that is wrong, made of its status alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from singerlake.clock import parse_timestamp
from singerlake.format.state.model import CAPTURE
from singerlake.glance import at_a_glance
from singerlake.humanize import counted, second, shown
from singerlake.tables.maintain.status import StatusResult, TableStatus
from singerlake.tables.rows.mixed_keys import in_words
from singerlake.upkeep.reports.status import StreamStatus, Tracked
from singerlake.upkeep.result import FOR_PYTHON

Level = Literal["ok", "warning", "critical"]
CheckKind = Literal[
    "ahead", "behind", "checks", "failed", "key", "late", "lost", "quarantine", "stale", "unactivated", "unreadable"
]
_BAD = ("failed", "lost")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What is wrong with one stream, by ``tap`` and ``stream``, or with one ``table``."""

    level: Level
    kind: CheckKind
    tap: str | None
    stream: str | None
    table: str | None
    message: str

    @property
    def subject(self) -> str:
        """What it is about, as lists name it."""
        return shown(self.table) if self.table is not None else f"{shown(self.tap or '')}/{shown(self.stream or '')}"


@at_a_glance
@dataclass(frozen=True, slots=True)
class CheckResult:
    """The findings about some ``streams`` and ``tables``, which are counted; the critical ones come first. ``level`` is
    the gravest of theirs."""

    lake: str
    level: Level
    streams: int
    tables: int
    findings: tuple[CheckFinding, ...]
    status: StatusResult = field(metadata=FOR_PYTHON, repr=False)


def checked(
    status: StatusResult, now: datetime, *, max_age: timedelta | None = None, max_behind: int | None = None
) -> CheckResult:
    """What is wrong at the moment ``now``. ``max_age``: the last write to each stream may be that old;
    ``max_behind``: a table may lack so many messages. None: neither is looked at."""
    streams = [each for each in status.streams if not each.dropped]
    found = [finding for each in streams for finding in of_stream(each)]
    if max_age is not None:
        found += [finding for each in streams for finding in late(each, now, max_age)]
    found += [finding for each in status.tables for finding in of_table(each, max_behind)]
    critical = tuple(each for each in found if each.level == "critical")
    warnings = tuple(each for each in found if each.level == "warning")
    level: Level = "critical" if critical else "warning" if warnings else "ok"
    return CheckResult(status.lake, level, len(streams), len(status.tables), critical + warnings, status)


def newest_capture(status: StreamStatus) -> Tracked | None:
    """The newest capture that is known of a stream."""
    return next((run for run in status.runs if run.kind == CAPTURE), None)


def of_stream(status: StreamStatus) -> Iterator[CheckFinding]:
    """What is wrong with a stream, whatever the time is."""

    def finding(level: Level, kind: CheckKind, message: str) -> CheckFinding:
        return CheckFinding(level, kind, status.tap, status.stream, None, message)

    if status.trouble:
        yield finding("critical", "unreadable", shown(status.trouble))
    capture = newest_capture(status)
    if capture is not None and capture.outcome in _BAD:
        began = f", which began {second(capture.started)} UTC" if capture.started else ""
        kind: CheckKind = "failed" if capture.outcome == "failed" else "lost"
        yield finding("critical", kind, f"the newest capture{began}: {capture.outcome}")
    if status.quarantined:
        kept = counted(status.quarantined, "record")
        yield finding("warning", "quarantine", f"{kept} in quarantine; see 'singerlake release'")
    if status.silence:
        since = f"{second(status.silence.since)} UTC"
        yield finding("warning", "stale", f"stale: silent since {since}; {status.silence.rhythm}")
    if left := status.unactivated:
        yield finding(
            "warning",
            "unactivated",
            f"records of run {shown(left.run)} have version {left.version}, and no ACTIVATE_VERSION followed, so "
            "tables keep rows that are gone at the source; a mapper may have dropped it",
        )


def late(status: StreamStatus, now: datetime, max_age: timedelta) -> Iterator[CheckFinding]:
    """That the last write to a stream is too old, or that there is none; nothing where its state is not known."""
    last = status.last_write
    if not status.trouble and (last is None or now - last > max_age):
        what = f"last written {second(last)} UTC" if last else "never written"
        yield CheckFinding("critical", "late", status.tap, status.stream, None, f"late: {what}")


def of_table(status: TableStatus, max_behind: int | None = None) -> Iterator[CheckFinding]:
    """What is wrong with a table."""

    def finding(level: Level, kind: CheckKind, message: str) -> CheckFinding:
        return CheckFinding(level, kind, None, None, status.table, message)

    if status.trouble:
        yield finding("critical", "unreadable", shown(status.trouble))
    if max_behind is not None and (status.behind or 0) > max_behind:
        yield finding("critical", "behind", f"behind: {counted(status.behind or 0, 'message')} of its stream are new")
    if status.behind is not None and status.behind < 0:
        more = counted(-status.behind, "message")
        yield finding(
            "critical", "ahead", f"has read {more} more than its stream has; was the lake restored from an older copy?"
        )
    for check, rows in sorted(status.runs[0].checks.items()) if status.runs else ():
        if rows:
            yield finding("warning", "checks", f"check {shown(check)} does not hold for {counted(rows, 'row')}")
    for key, types in status.mixed_keys.items():
        yield finding("warning", "key", in_words(key, types))


def prometheus(result: CheckResult) -> str:
    """The figures in the text format of Prometheus (version 0.0.4), for its textfile collector."""
    last, ok, behind, ran = [], [], [], []
    for stream in result.status.streams:
        if stream.dropped:
            continue
        labels = {"tap": stream.tap, "stream": stream.stream}
        capture = newest_capture(stream)
        if stream.last_write is not None:
            last.append((labels, stream.last_write.timestamp()))
        if capture is not None:
            ok.append((labels, float(capture.outcome not in _BAD)))
    for table in result.status.tables:
        labels = {"table": table.table}
        if table.behind is not None:
            behind.append((labels, float(table.behind)))
        at = parse_timestamp(table.runs[0].at) if table.runs else None
        if at is not None:
            ran.append((labels, at.timestamp()))
    counts = [({"level": str(level)}, float(sum(each.level == level for each in result.findings))) for level in _LEVELS]
    families = (
        ("singerlake_findings", "What singerlake check found.", counts),
        ("singerlake_stream_last_write_timestamp_seconds", "When messages were last committed to a stream.", last),
        ("singerlake_stream_last_capture_ok", "0 if the newest capture failed or is lost.", ok),
        ("singerlake_table_behind_messages", "Messages of its stream that a table lacks.", behind),
        ("singerlake_table_last_run_timestamp_seconds", "When a table last took in messages.", ran),
    )
    lines: list[str] = []
    for name, about, samples in families:
        if samples:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{_labels(labels)}}} {_number(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


_LEVELS: tuple[Level, ...] = ("critical", "warning")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _number(value: float) -> str:
    return f"{value:.0f}" if value.is_integer() else f"{value:.3f}"
