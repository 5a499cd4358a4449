"""What a monitor is told of a lake: which findings there are, how grave they are, and the figures for Prometheus."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from singerlake.clock import timestamp
from singerlake.tables.maintain.check import CheckFinding, CheckResult, checked, prometheus
from singerlake.tables.maintain.status import StatusResult, TableStatus
from singerlake.tables.state.model import TableRun
from singerlake.upkeep.reports.status import Silence, StreamStatus, Tracked, UnactivatedVersion
from tests.fakes import START

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
NOW = START + timedelta(days=2)


def a_run(outcome: Any = "completed", *, ago: timedelta = HOUR, kind: str = "capture") -> Tracked:
    at = NOW - ago
    return Tracked("r", "w", outcome, at, at, 0, 1, 1, 1, 1, locked=False, kind=kind)


def stream(*runs: Tracked, name: str = "s", ago: timedelta | None = HOUR, **more: Any) -> StreamStatus:
    last = None if ago is None else NOW - ago
    given = {"unactivated": None, "quarantined": 0, "silence": None, "last_write": last, "trouble": None, **more}
    return StreamStatus("t", name, "log", 1, runs, (), **given)


def table(name: str = "people", *, behind: int | None = 0, checks: dict[str, int] | None = None) -> TableStatus:
    run = TableRun(id="i", at=timestamp(NOW - HOUR), kind="run", checks=checks or {})
    return TableStatus(name, "t", "s", 5, (), behind, 1, (run,), None)


def check(*streams: StreamStatus, tables: tuple[TableStatus, ...] = (), **limits: Any) -> CheckResult:
    return checked(StatusResult("lake", streams, tables), NOW, **limits)


def only(result: CheckResult) -> CheckFinding:
    (finding,) = result.findings
    return finding


def test_a_lake_without_fault_is_ok() -> None:
    found = check(stream(a_run()), tables=(table(),), max_age=2 * HOUR, max_behind=0)
    assert (found.level, found.streams, found.tables, found.findings) == ("ok", 1, 1, ())


def test_a_quarantine_with_records_is_a_warning() -> None:
    found = check(stream(a_run(), name="s__quarantine", quarantined=1200))
    assert (found.level, only(found).kind) == ("warning", "quarantine")
    assert only(found).message == "1,200 records in quarantine; see 'singerlake release'"


@pytest.mark.parametrize("outcome", ["failed", "lost"])
def test_the_newest_capture_that_went_wrong_is_critical_and_an_older_one_is_not(outcome: str) -> None:
    found = check(stream(a_run(outcome), a_run()))
    assert (found.level, only(found).kind, only(found).subject) == ("critical", outcome, "t/s")
    assert check(stream(a_run(), a_run(outcome))).level == "ok"


@pytest.mark.parametrize("outcome", ["running", "interrupted"])
def test_one_that_runs_or_was_interrupted_is_not(outcome: str) -> None:
    assert check(stream(a_run(outcome))).level == "ok"


def test_maintenance_is_not_a_capture() -> None:
    assert check(stream(a_run("failed", kind="vacuum", ago=timedelta()), a_run())).level == "ok"


@pytest.mark.parametrize(("ago", "level"), [(2 * HOUR, "ok"), (2 * HOUR + SECOND, "critical")])
def test_the_last_write_may_be_as_old_as_is_said(ago: timedelta, level: str) -> None:
    assert check(stream(ago=ago), max_age=2 * HOUR).level == level


def test_a_stream_that_was_never_written_is_late_if_an_age_is_given() -> None:
    assert check(stream(ago=None)).level == "ok"
    assert only(check(stream(ago=None), max_age=HOUR)).message == "late: never written"


def test_a_state_that_cannot_be_read_is_one_finding() -> None:
    finding = only(check(stream(trouble="torn \x1b[2J"), max_age=HOUR))
    assert (finding.level, finding.kind, finding.message) == ("critical", "unreadable", "torn \\x1b[2J")


def test_a_stale_stream_and_a_version_that_was_not_activated_are_warnings() -> None:
    silence = Silence(NOW - 48 * HOUR, 3600)
    found = check(stream(a_run(ago=48 * HOUR), silence=silence, unactivated=UnactivatedVersion(2, "r")))
    assert (found.level, [each.kind for each in found.findings]) == ("warning", ["stale", "unactivated"])


@pytest.mark.parametrize(("behind", "most", "level"), [(10, 10, "ok"), (11, 10, "critical"), (11, None, "ok")])
def test_a_table_may_be_so_many_messages_behind(behind: int, most: int | None, level: str) -> None:
    assert check(tables=(table(behind=behind),), max_behind=most).level == level


def test_a_statement_is_never_behind() -> None:
    assert check(tables=(table(behind=None),), max_behind=0).level == "ok"


def test_rows_that_a_check_does_not_hold_for_are_a_warning() -> None:
    found = check(tables=(table(checks={"age >= 0": 3, "id not_null": 0}),))
    assert (found.level, only(found).message) == ("warning", "check age >= 0 does not hold for 3 rows")


def test_what_is_critical_comes_first() -> None:
    warned = table("a", checks={"x": 1})
    found = check(stream(a_run("failed"), name="z"), tables=(warned, table("b", behind=5)), max_behind=0)
    assert [each.level for each in found.findings] == ["critical", "critical", "warning"]


def test_figures_have_names_as_they_are() -> None:
    text = prometheus(check(stream(a_run("failed"), name='"\\\n'), tables=(table("e\u0301", behind=7),), max_behind=0))
    at, odd = f"{(NOW - HOUR).timestamp():.0f}", r'tap="t",stream="\"\\\n"'
    assert text.endswith("\n")
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'singerlake_findings{level="critical"} 2',
        'singerlake_findings{level="warning"} 0',
        f"singerlake_stream_last_write_timestamp_seconds{{{odd}}} {at}",
        f"singerlake_stream_last_capture_ok{{{odd}}} 0",
        'singerlake_table_behind_messages{table="e\u0301"} 7',
        f'singerlake_table_last_run_timestamp_seconds{{table="e\u0301"}} {at}',
    ]


def test_a_stream_that_was_never_written_has_no_figures() -> None:
    assert "singerlake_stream" not in prometheus(check(stream(ago=None)))


def test_moments_have_fractions() -> None:
    moment = NOW - 1.5 * SECOND
    assert f" {moment.timestamp():.3f}\n" in prometheus(check(stream(ago=1.5 * SECOND)))
