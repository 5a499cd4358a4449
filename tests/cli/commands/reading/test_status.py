"""``singerlake status``: the last runs of each stream."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from singerlake.clock import SystemClock, random_id, timestamp
from singerlake.format import layout
from singerlake.format.state.model import Run as TargetRun
from singerlake.format.state.transactions import Transaction
from singerlake.lake import Lake
from singerlake.lock_file import Lock, LockSettings
from singerlake.stores.port import Loaded
from tests.cli.conftest import Run
from tests.cli.terminals import on_a_terminal
from tests.format.state.test_fold import add, new_file
from tests.lakes import build_stream

CLOCK = SystemClock()


def record(lake: Lake, run_id: str, status: str, *, stream: str = "flights", ago: int = 1, took: int = 3723) -> None:
    """Have a run commit how it stands, ``ago`` seconds before now."""
    updated = CLOCK.now() - timedelta(seconds=ago)
    writer = lake.stream("t", stream).writer(writer_id=f"host-{run_id}")
    started = timestamp(updated - timedelta(seconds=took))
    run = TargetRun(id=run_id, writer=f"host-{run_id}", started=started, updated=timestamp(updated), status=status)
    writer.settled(writer.record(run))


def rows(text: str) -> list[list[str]]:
    """The cells of each row but the caption; the time that a run started is cut off."""
    return [line.split() for line in text.partition("\n\n")[0].splitlines()[1:-1]]


def test_every_stream_has_its_last_runs_the_newest_first(run: Run, lake: Lake) -> None:
    for run_id, status in (("r0", "finished"), ("r1", "failed"), ("r2", "stopped"), ("r3", "running")):
        record(lake, run_id, status)
    result = run("status", lake.storage.url, "--runs", 3)
    assert result.exit_code == 0
    header = result.stdout.splitlines()[0].split()
    assert header == [
        "TAP",
        "STREAM",
        "KIND",
        "STARTED",
        "(UTC)",
        "TOOK",
        "OUTCOME",
        "FILES",
        "RECORDS",
        "BYTES",
        "WRITER",
    ]
    found = rows(result.stdout)
    assert [row[:2] for row in found] == [["t", "a/b"], *[["t", "flights"]] * 3, ["u", "x"]]
    assert [row[5:] for row in found[1:4]] == [
        ["1:02:03", "running", "0", "0", "0", "B", "host-r3"],
        ["1:02:03", "interrupted", "0", "0", "0", "B", "host-r2"],
        ["1:02:03", "failed", "0", "0", "0", "B", "host-r1"],
    ]
    assert result.stdout.splitlines()[-3:] == [
        f"{lake.storage.url}: 3 streams; newest captures: 1 running",
        "",
        "nothing needs a look",
    ]


def test_what_a_run_moved_is_counted(run: Run, lake: Lake) -> None:
    store = lake.stream("t", "flights").store()
    moving = TargetRun(id="r", writer="host-r", started="2026-01-01T00:00:00Z", updated="2026-01-01T00:00:09Z")
    for file_id in ("f1", "f2"):
        base = store.load()
        assert base is not None
        change = add(new_file(file_id, 700), run=moving)
        assert isinstance(store.commit(base, Transaction(id=file_id, at="2026", change=change)), Loaded)
    (row,) = [each for each in rows(run("status", lake.storage.url, "--runs", 3).stdout) if each[-1] == "host-r"]
    assert row[2:] == ["capture", "2026-01-01", "00:00:00", "0:00:09", "lost", "2", "1,400", "14.0", "kB", "host-r"]
    (found,) = json.loads(run("status", lake.storage.url, "--json").stdout)["streams"][1]["runs"]
    assert (found["files"], found["messages"], found["records"], found["bytes"]) == (2, 1400, 1400, 14_000)


@pytest.mark.parametrize(("runs", "ids"), [(1, ["r2"]), (2, ["r2", "r1"]), (9, ["r2", "r1", "r0"])])
def test_so_many_runs_are_shown_as_wanted(run: Run, lake: Lake, runs: int, ids: list[str]) -> None:
    for number in range(3):
        record(lake, f"r{number}", "finished")
    listed = json.loads(run("status", lake.storage.url, "--runs", runs, "--json").stdout)
    assert [each["id"] for each in listed["streams"][1]["runs"]] == ids
    assert run("status", lake.storage.url, "--runs", 0).exit_code == 2


def test_a_run_that_never_said_how_it_ended_is_lost_unless_it_lives_elsewhere(run: Run, lake: Lake) -> None:
    record(lake, "gone", "running", ago=7200)
    record(lake, "busy", "running", ago=7200)
    record(lake, "busy", "running", stream="a/b", ago=1)
    found = {row[-1]: row[6] for row in rows(run("status", lake.storage.url, "--tap", "t", "--runs", 3).stdout)}
    assert found == {"host-gone": "lost", "host-busy": "running"}


def test_a_writer_with_a_lock_is_seen_before_its_first_commit(run: Run, lake: Lake) -> None:
    key = layout.version_lock_key("t", "flights", "aaaaaaa")
    lock = Lock(lake.storage, key, "newcomer", LockSettings(), CLOCK, random_id)
    lock.acquire()
    (found,) = [row for row in rows(run("status", lake.storage.url, "--runs", 3).stdout) if row[1] == "flights"]
    assert found[5:] == ["running", "*", "0", "0", "0", "B", "newcomer"]
    flights = json.loads(run("status", lake.storage.url, "--json").stdout)["streams"][1]
    assert [(each["key"], each["writer"]) for each in flights["locks"]] == [(key, "newcomer")]
    assert [(each["id"], each["locked"], each["seconds"]) for each in flights["runs"]] == [(None, True, None)]
    lock.release()
    assert "newcomer" not in run("status", lake.storage.url, "--runs", 3).stdout


def test_runs_in_the_tail_of_a_log_are_seen(run: Run, lake: Lake) -> None:
    assert run("store", "migrate", "--yes", lake.storage.url, "--to", "log").exit_code == 0
    record(lake, "tail", "finished")
    published = lake.storage.get(layout.manifest_key("t", "flights"))
    assert published is not None
    assert b"host-tail" not in published.body
    assert "host-tail" in run("status", lake.storage.url, "--runs", 1).stdout


def noted(lake: Lake, stream: str = "flights") -> list[tuple[str, int]]:
    """Kind and files of what maintenance noted."""
    state = lake.stream("t", stream).state()
    assert state is not None
    return [(run.kind, run.files) for run in state.runs if not run.captures]


def test_a_stream_that_is_silent_for_longer_than_usual_is_stale(run: Run, lake: Lake) -> None:
    for days in (4, 3, 2, 1):
        record(lake, f"r{days}", "finished", ago=86_400 * days)
    assert "stale" not in run("status", lake.storage.url).stdout
    for hours in (30, 29, 28, 27):
        record(lake, f"h{hours}", "finished", ago=3600 * hours, stream="a/b")
    result = run("status", lake.storage.url)
    assert result.exit_code == 0
    assert "completed; 1 stale" in result.stdout
    line = next(line for line in result.stdout.splitlines() if "silent since" in line)
    assert line.startswith("t/a/b: stale: silent since ")
    assert line.endswith(" UTC; its captures were at most 1 hour apart")
    found = json.loads(run("status", lake.storage.url, "--json").stdout)["streams"]
    assert [each["silence"] and each["silence"]["pause"] for each in found] == [pytest.approx(3600, abs=60), None, None]
    record(lake, "now", "running", stream="a/b")
    assert "stale" not in run("status", lake.storage.url).stdout


def test_without_runs_each_stream_is_a_line_with_its_newest_capture(run: Run, lake: Lake) -> None:
    for run_id, status in (("r1", "failed"), ("r2", "finished"), ("r3", "running")):
        record(lake, run_id, status)
    lake.drop("u", "x", dry_run=False)
    first, *found = [line.split() for line in run("status", lake.storage.url).stdout.partition("\n\n")[0].splitlines()]
    assert first == ["TAP", "STREAM", "STARTED", "(UTC)", "OUTCOME"]
    assert [[*row[:2], *row[4:]] for row in found[1:2]] == [["t", "flights", "running"]]
    assert found[0] == ["t", "a/b", "no", "capture"]
    assert len(found) == 3


def test_what_needs_a_look_comes_last_and_alone_where_it_is_quiet(run: Run, lake: Lake) -> None:
    record(lake, "r1", "failed")
    root = lake.storage.url
    told = run("status", root)
    assert told.exit_code == 1
    *_, empty, head, last = told.stdout.splitlines()
    assert (empty, head) == ("", "1 finding:")
    assert last.startswith("t/flights: the newest capture, which began ")
    assert run("status", root, "-q").stdout == f"{last}\n"
    assert last in run("check", root).stdout


def test_at_80_columns_many_streams_of_long_names_leave_the_end_to_what_needs_a_look(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    lake = Lake.open(str(root))
    for number in range(28):
        build_stream(lake, "tap-of-a-long-name", f"customers_of_the_shop_{number:02}", {"type": "object"}, [{"n": 1}])
    name = "customers_of_the_shop_07"
    failed = TargetRun(id="r", writer="w", started=timestamp(CLOCK.now()), updated="", status="failed")
    writer = lake.stream("tap-of-a-long-name", name).writer(writer_id="w")
    writer.settled(writer.record(failed))
    lines = on_a_terminal(monkeypatch, 80, "status", root).splitlines()
    assert len(lines) == 28 + 5
    assert lines[-2] == "1 finding:"
    assert lines[-1].startswith(f"tap-of-a-long-name/{name}: the newest capture")
