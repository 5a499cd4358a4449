"""What needs a look is found, said, and stands before all that is well."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from singerlake.clock import timestamp
from singerlake.errors import AccessDeniedError
from singerlake.format import layout
from singerlake.format.state.model import Run
from singerlake.lake import Lake
from singerlake.site.attention import Level, of_stream
from singerlake.site.facts import gather
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import MadeFrom, TableRun
from singerlake.upkeep.reports.status import Silence, silence_of
from tests.fakes import START
from tests.site.lakes import built, manifest, memory_lake, put, put_table, table
from tests.site.showcase import showcase
from tests.site.test_build import refusing
from tests.site.test_pages import check
from tests.site.test_tables import said

HOUR = timedelta(hours=1)


def run(hours_ago: float, status: str = "finished", **more: str) -> Run:
    moment = timestamp(START - HOUR * hours_ago)
    return Run(id=f"r{hours_ago}", writer="worker", started=moment, updated=moment, status=status, **more)


def every(hours: float, since: float, runs: int = 6) -> list[Run]:
    """The runs of a stream, so many hours apart, the newest so many ago."""
    return [run(since + hours * n) for n in reversed(range(runs))]


@pytest.mark.parametrize(
    ("hours", "since", "runs", "is_stale"),
    [
        (1, 23, 6, False),  # A day is not long.
        (1, 25, 6, True),
        (24, 47, 6, False),  # Not yet twice as long as usual.
        (24, 49, 6, True),
        (1, 500, 3, False),  # Two pauses are no rhythm.
        (1, 500, 4, True),
        (24, -5, 6, False),  # A writer's clock is ahead.
    ],
)
def test_a_stream_is_stale_when_it_is_silent_for_twice_its_longest_pause(
    hours: float, since: float, runs: int, is_stale: bool
) -> None:
    found = silence_of(every(hours, since, runs), START)
    assert found == (Silence(START - HOUR * since, 3600.0 * hours) if is_stale else None)


def test_one_long_pause_of_the_last_ten_is_part_of_the_rhythm() -> None:
    weekend = [run(300), *every(24, 100, 4)]
    assert silence_of(weekend, START + HOUR * 20) is None
    assert silence_of(weekend[1:], START + HOUR * 20) is not None
    forgotten = [run(2000), *every(24, 100, 10)]
    assert silence_of(forgotten, START) is not None


def test_maintenance_and_times_that_cannot_be_read_are_no_captures() -> None:
    vacuums = [run(n, kind="vacuum") for n in (3, 2, 1)]
    unread = Run(id="x", writer="w", started="yesterday", status="finished")
    found = silence_of([*every(1, 48), unread, *vacuums], START)
    assert found == Silence(START - HOUR * 48, 3600.0)


@pytest.mark.parametrize(
    ("runs", "level", "word", "says"),
    [
        ([], Level.FINE, "no run", ""),
        ([run(9, "failed"), run(3)], Level.FINE, "completed", ""),
        ([run(9), run(3, "failed")], Level.FAILED, "failed", "the run of 2025-12-31 21:00 failed"),
        ([run(9), run(3, "running")], Level.FAILED, "lost", "the run of 2025-12-31 21:00 never said how it ended"),
        ([run(9), run(0.5, "running")], Level.FINE, "running", ""),
        ([run(9), run(3, "stopped")], Level.INTERRUPTED, "interrupted", "a signal ended the run of 2025-12-31 21:00"),
        (every(6, 75), Level.STALE, "stale", "silent for 3 days; its captures were at most 6 hours apart"),
        ([*every(6, 75), run(74, "stopped")], Level.STALE, "stale", "silent for 3 days"),
        ([*every(6, 75), run(74, "failed")], Level.FAILED, "failed", ""),
    ],
)
def test_the_newest_run_and_the_silence_after_it_say_how_a_stream_stands(
    runs: list[Run], level: Level, word: str, says: str
) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s", runs=runs))
    facts = gather(lake)
    found = of_stream(facts, facts.streams[0])
    assert (found.level, found.word) == (level, word)
    assert says in found.says
    assert found.needs_a_look == (level < Level.BEHIND)


def test_a_writer_that_is_at_work_ends_the_silence(tmp_path: Path) -> None:
    lake = memory_lake()
    made = manifest("t", "s", runs=[*every(6, 75), run(74, "running")])
    put(lake, made)
    moment = timestamp(START)
    body = {"writer-id": "worker", "acquired": moment, "refreshed": moment, "nonce": "n"}
    lake.storage.put(layout.version_lock_key("t", "s", next(iter(made.versions))), json.dumps(body).encode())
    facts = gather(lake)
    assert of_stream(facts, facts.streams[0]).word == "running"


def test_the_first_page_begins_with_the_worst(tmp_path: Path) -> None:
    _, pages = built(showcase(), tmp_path / "site")
    check(pages)
    text = said(pages["index.html"])
    worst = [
        "unreadable salesforce / Lead stream written in format 99",
        "unreadable contacts table not the state of a table",
        "lost postgres / public-weather stream the run of 2025-12-31 21:56 never said how it ended",
        "failed salesforce / Opportunity stream the run of 2025-12-31 20:56 failed",
        "check failed flights table dep_delay > -60: 17 rows",
        "stale stripe / charges stream silent for 3 days; its captures were at most 6 hours apart",
        "stale stripe / customers stream",
        "interrupted salesforce / Contact stream a signal ended the run of 2025-12-31 20:56",
    ]
    assert "Needs a look 8, the worst first" in text
    places = [text.index(each) for each in worst]
    assert places == sorted(places)
    assert "All is well" not in text


def test_lists_begin_with_the_worst_and_go_on_by_name(tmp_path: Path) -> None:
    _, pages = built(showcase(), tmp_path / "site")
    streams = ["Lead", "public-weather", "Opportunity", "charges", "customers", "Contact", "public-airlines"]
    tables = ["contacts", "flights", "accounts", "airlines", "charges"]
    for path, names in (("streams.html", streams), ("index.html", streams), ("tables.html", tables)):
        text = pages[path].partition('<table class="list">')[2]
        places = [text.index(f">{name}</bdi></a>") for name in names]
        assert places == sorted(places), path


def test_a_lake_in_order_says_so(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s", runs=every(6, 2)))
    put_table(lake, table("behind", "t", "s"))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    text = said(pages["index.html"])
    assert "All is well: no run failed" in text
    assert "Needs a look" not in text
    assert "1 behind" not in text.partition("Tables")[0], "a table that waits for its next run is no trouble"


def test_what_is_more_than_the_first_page_names_is_counted(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, *(manifest("t", f"s{n:02}", runs=[run(3, "failed")]) for n in range(30)))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    text = said(pages["index.html"])
    assert "Needs a look 30, the worst first" in text
    assert "And 18 more" in text
    assert "All 30 streams" in text
    assert all(f"s{n:02}" in pages["streams.html"] for n in range(30))


def test_a_table_stands_as_its_checks_and_what_it_reads_say(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s", runs=every(6, 2)))
    fine = table("fine", "t", "s")
    failing = TableRun(id="r", at="", kind="run", checks={"id > 0": 3, "id < 9": 0})
    whole = fine.sources[0]
    put_table(lake, replace(table("rebuilt", "t", "s"), sources=(replace(whole, lineage="another"),)))
    put_table(lake, fine, table("checked", "t", "s", runs=(failing,)))
    put_table(lake, table("begun", "t", "s", generation=0, sources=()))
    for name, rows in (("as_it_is", fine.rows_id), ("older", "0")):
        read = (MadeFrom(table="fine", generation=1, number=1, rows=rows),)
        put_table(lake, table(name, "", "", declaration={"sql": "SELECT 1"}, sources=(), made_from=read))
    lake.storage.put(state_key("broken"), b"{")
    assert whole.offset == 10
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    text = said(pages["tables.html"])
    for words in (
        "begun not made begun, and not made yet",
        "broken unreadable not the state of a table",
        "checked of t / s check failed",
        "fine of t / s up to date",
        "rebuilt of t / s outdated",
        "as_it_is a statement over fine up to date",
        "older a statement over fine behind",
    ):
        assert words in text, words
    looks = said(pages["index.html"])
    assert "rebuilt table its stream was rebuilt since it was made; the next run makes it anew" in looks
    assert "made from older rows of fine" in said(pages["tables/older.html"])
    assert "fine older than it has now" in said(pages["tables/older.html"])
    assert "fine as it has now" in said(pages["tables/as_it_is.html"])
    assert "id > 0: 3 rows" in said(pages["tables/checked.html"])


def test_a_tap_that_cannot_be_listed_is_among_the_worst(tmp_path: Path) -> None:
    lake: Lake = memory_lake()
    put(lake, manifest("t", "s"), manifest("u", "s"))
    refusing(lake, layout.tap_prefix("u"), AccessDeniedError("no access", hint="ask"))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert "unreadable u tap no access; ask" in said(pages["index.html"])
    assert "u unreadable never" in said(pages["taps.html"])
