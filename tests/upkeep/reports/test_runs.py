"""How runs went, from what they committed of themselves and the locks they hold."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from singerlake.clock import timestamp
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, Run
from singerlake.lock_file import LockBody
from singerlake.upkeep.lock_files import LockFile
from singerlake.upkeep.reports.status import SILENT, STALE, StreamStatus, Tracked, last_signs, runs_of, track
from tests.fakes import START

NOW = START + timedelta(days=1)
SECOND = timedelta(seconds=1)


def a_run(run_id: str = "r", *, status: str = "running", ago: timedelta = SECOND, took: int = 90) -> Run:
    updated = NOW - ago
    return Run(
        id=run_id,
        writer=f"host-{run_id}",
        started=timestamp(updated - took * SECOND),
        updated=timestamp(updated),
        status=status,
        files=2,
        messages=7,
        records=6,
        bytes=5,
    )


def stream(*runs: Run, name: str = "s") -> Manifest:
    empty = fold.empty(tap="t", stream=name, store="log", lineage="l", created="2026", transaction_id="0")
    return msgspec.structs.replace(empty, runs=runs)


def a_lock(writer: str, *, ago: timedelta = SECOND, released: str | None = None) -> LockFile:
    moment = timestamp(NOW - 5 * SECOND)
    body = LockBody(writer_id=writer, acquired=moment, refreshed=moment, nonce="n", released=released)
    return LockFile("raw/t/s/v/singerlake.lock", body, NOW - ago, "etag")


def tracked(
    manifest: Manifest, *locks: LockFile, others: tuple[Manifest, ...] = (), now: datetime = NOW, last: int = 9
) -> tuple[Tracked, ...]:
    return track(manifest, locks, last_signs((manifest, *others)), now=now, last=last)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [("finished", "completed"), ("failed", "failed"), ("stopped", "interrupted"), ("running", "running")],
)
def test_a_run_is_told_by_how_it_said_it_ended(status: str, outcome: str) -> None:
    (run,) = tracked(stream(a_run(status=status)))
    assert run == Tracked(
        id="r",
        writer="host-r",
        outcome=outcome,  # type: ignore[arg-type]
        started=NOW - 91 * SECOND,
        updated=NOW - SECOND,
        seconds=90.0,
        files=2,
        messages=7,
        records=6,
        bytes=5,
        locked=False,
    )


@pytest.mark.parametrize(("ago", "outcome"), [(SILENT - SECOND, "running"), (SILENT, "lost")])
def test_a_run_that_was_silent_for_long_is_lost(ago: timedelta, outcome: str) -> None:
    assert tracked(stream(a_run(ago=ago)))[0].outcome == outcome


def test_a_run_that_said_how_it_ended_is_never_lost() -> None:
    assert tracked(stream(a_run(status="failed", ago=99 * SILENT)))[0].outcome == "failed"


def test_a_run_that_is_heard_of_in_another_stream_is_not_lost() -> None:
    quiet, loud = stream(a_run(ago=3 * SILENT)), stream(a_run(ago=SECOND), name="other")
    assert tracked(quiet)[0].outcome == "lost"
    assert tracked(quiet, others=(loud,))[0].outcome == "running"


@pytest.mark.parametrize(
    ("lock", "outcome", "locked"),
    [
        (a_lock("host-r"), "running", True),
        (a_lock("host-r", ago=STALE), "lost", False),
        (a_lock("host-r", released="2026"), "lost", False),
        (a_lock("another"), "lost", False),
        (None, "lost", False),
    ],
    ids=["live", "stale", "released", "another's", "unreadable"],
)
def test_a_live_lock_of_its_writer_keeps_a_run_from_being_lost(
    lock: LockFile | None, outcome: str, locked: bool
) -> None:
    held = lock or LockFile("raw/t/s/v/singerlake.lock", None, NOW, "etag")
    run = tracked(stream(a_run(ago=2 * SILENT)), held)[-1]
    assert (run.outcome, run.locked) == (outcome, locked)


def test_a_live_writer_that_committed_nothing_yet_comes_first() -> None:
    new, old = tracked(stream(a_run(status="finished")), a_lock("newcomer"), a_lock("newcomer"))
    assert (new.writer, new.outcome, new.id, new.records, new.locked) == ("newcomer", "running", None, 0, True)
    assert new.started == NOW - 5 * SECOND
    assert old.writer == "host-r"


def test_the_last_runs_come_first_and_older_ones_are_left_out() -> None:
    manifest = stream(*(a_run(f"r{number}", status="finished") for number in range(5)))
    assert [run.id for run in tracked(manifest, last=2)] == ["r4", "r3"]
    assert [run.id for run in tracked(manifest, last=99)] == ["r4", "r3", "r2", "r1", "r0"]


def test_the_lock_of_an_older_run_is_not_a_newcomer_s() -> None:
    manifest = stream(a_run("r0"), a_run("r1"))
    assert [run.id for run in tracked(manifest, a_lock("host-r0"), last=1)] == ["r1"]


@pytest.mark.parametrize("text", ["", "yesterday", "2026-99-99T00:00:00Z"])
def test_times_that_cannot_be_read_are_left_out(text: str) -> None:
    run = msgspec.structs.replace(a_run(), started=text, updated=text)
    (found,) = tracked(stream(run))
    assert (found.started, found.updated, found.seconds, found.outcome) == (None, None, None, "lost")


def test_a_clock_that_went_back_gives_no_negative_time() -> None:
    assert tracked(stream(a_run(took=-30)))[0].seconds == 0.0


def test_a_run_of_the_first_format_without_update_counts_from_its_start() -> None:
    run = msgspec.structs.replace(a_run(took=0), updated="")
    (found,) = tracked(stream(run))
    assert (found.outcome, found.seconds) == ("running", None)


def test_an_unknown_status_is_taken_for_running() -> None:
    assert tracked(stream(a_run(status="pausing")))[0].outcome == "running"


def status(name: str, *runs: Run, tap: str = "t") -> StreamStatus:
    return StreamStatus(tap, name, "log", 1, tracked(stream(*runs, name=name)), (), None, None, None, None)


def test_a_run_is_one_over_all_of_its_streams_and_the_newest_comes_first() -> None:
    old, new = a_run("old", status="finished", ago=3 * SILENT), a_run("new", status="finished", took=30)
    found = runs_of([status("a", old, new), status("b", new), status("a", old, tap="u")])
    assert [(run.tap, run.id, run.streams) for run in found] == [
        ("t", "new", ("a", "b")),
        ("t", "old", ("a",)),
        ("u", "old", ("a",)),
    ]
    assert (found[0].files, found[0].messages, found[0].records, found[0].bytes) == (4, 14, 12, 10)
    assert found[0].seconds == 30


def test_a_run_lasts_from_its_first_stream_to_its_last() -> None:
    (run,) = runs_of([status("a", a_run(ago=60 * SECOND, took=60)), status("b", a_run(took=5))])
    assert (run.started, run.updated, run.seconds) == (NOW - 120 * SECOND, NOW - SECOND, 119)


@pytest.mark.parametrize(
    ("one", "other", "whole"),
    [
        ("finished", "failed", "failed"),
        ("stopped", "finished", "interrupted"),
        ("failed", "stopped", "failed"),
        ("running", "failed", "running"),
    ],
)
def test_of_the_outcomes_of_a_run_the_gravest_counts(one: str, other: str, whole: str) -> None:
    (run,) = runs_of([status("a", a_run(status=one)), status("b", a_run(status=other))])
    assert run.outcome == whole


def test_a_run_without_a_time_comes_last() -> None:
    unknown = msgspec.structs.replace(a_run("unknown"), started="?", updated="?")
    assert [run.id for run in runs_of([status("a", unknown, a_run("known"))])] == ["known", "unknown"]
