"""Which messages a moment means."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from msgspec import structs

from singerlake.clock import timestamp
from singerlake.conditions import parse_where
from singerlake.errors import SettingError
from singerlake.format.decision import Brought, Decision
from singerlake.format.file_id import timed_id
from singerlake.format.state.model import Manifest, Run
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.defaults import TARGET_BYTES
from singerlake.upkeep.erase.erase import erase_messages
from singerlake.upkeep.reports.moment import end_at, moment_of, offset_at
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from tests.atomic.lakes import commit_together, numbers
from tests.fakes import START, FakeClock, counting_ids
from tests.lakes import build_stream
from tests.storage.memory import MemoryStorage

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
TAP, STREAM = "t", "s"
HOUR = 3600


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def made(clock: FakeClock, ids: Callable[[], str]) -> Lake:
    """Ten messages in two files each hour, at 0:00, 1:00 and 2:00."""
    lake = Lake(MemoryStorage(clock=clock, ids=counting_ids()), clock=clock, ids=ids)
    for _ in range(3):
        build_stream(lake, TAP, STREAM, SCHEMA, [{"id": n} for n in range(10)], file_size=5)
        clock.seconds += HOUR
    return lake


def timed(clock: FakeClock) -> Callable[[], str]:
    ids = counting_ids()
    return lambda: timed_id(clock.now(), ids())


@pytest.fixture(params=["random", "timed"])
def lake(clock: FakeClock, request: pytest.FixtureRequest) -> Lake:
    return made(clock, counting_ids() if request.param == "random" else timed(clock))


def ends(lake: Lake, *seconds: float) -> list[int]:
    """Where the stream ended so long after the start."""
    manifest = lake.stream(TAP, STREAM).snapshot()
    return [offset_at(lake.storage, manifest, START + timedelta(seconds=each)) for each in seconds]


def vacuum(lake: Lake) -> None:
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    vacuum_stream(context, target_bytes=TARGET_BYTES, threads=1)
    assert len(lake.stream(TAP, STREAM).snapshot().files) == 1


def test_what_was_begun_by_then_counts_to_the_microsecond(lake: Lake) -> None:
    assert ends(lake, -1, -1e-6, 0, HOUR - 1e-6, HOUR, HOUR + 1, 3 * HOUR) == [0, 0, 10, 10, 20, 20, 30]


def test_a_vacuum_leaves_two_minutes_of_doubt(clock: FakeClock) -> None:
    lake = made(clock, timed(clock))
    vacuum(lake)
    assert ends(lake, -1, 128, HOUR - 1, HOUR + 128, 2 * HOUR - 1, 2 * HOUR + 128) == [0, 10, 10, 20, 20, 30]
    clock.seconds += HOUR
    build_stream(lake, TAP, STREAM, SCHEMA, [{"id": 1}])
    assert ends(lake, HOUR - 1, 3 * HOUR + 200, 4 * HOUR - 1, 4 * HOUR) == [10, 30, 30, 31]


def test_an_erasure_moves_no_moment(lake: Lake, clock: FakeClock) -> None:
    asked = HOUR - 1, HOUR + 128, 2 * HOUR - 1, 2 * HOUR + 128
    before = ends(lake, *asked)
    clock.seconds += HOUR
    context = StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, lake.stream(TAP, STREAM).store())
    assert erase_messages(context, parse_where("id = 3", "--where"), who="a-test", dry_run=False)
    assert ends(lake, *asked) == before == [10, 20, 20, 30]


def test_a_later_moment_never_means_less(lake: Lake) -> None:
    found = ends(lake, *range(0, 3 * HOUR, 60))
    assert found == sorted(found)


def test_a_file_without_a_header_counts_by_its_first_record(lake: Lake) -> None:
    for entry in lake.storage.list(lake.stream(TAP, STREAM).prefix):
        if entry.key.endswith(".gz"):
            stored = lake.storage.get(entry.key)
            assert stored is not None
            lake.storage.put(entry.key, stored.body.replace(b"SL", b"XX", 1))
    assert ends(lake, HOUR - 1, HOUR, HOUR + 1) == [10, 20, 20]


def with_run(lake: Lake, ended: float) -> Manifest:
    """The stream as if one run had brought all of it, and ended so long after the start."""
    run = Run(
        id="a-test-run",
        writer="w",
        started=timestamp(START),
        updated=timestamp(START + timedelta(seconds=ended)),
    )
    return structs.replace(lake.stream(TAP, STREAM).snapshot(), runs=(run,))


@pytest.mark.parametrize(
    ("seconds", "end"), [(0, 5), (HOUR, 15), (HOUR + 1, 15), (2 * HOUR, 25), (2 * HOUR + 59, 25), (2 * HOUR + 60, 30)]
)
def test_the_file_that_a_run_was_writing_was_not_there_yet(lake: Lake, seconds: float, end: int) -> None:
    manifest = with_run(lake, 2 * HOUR + 60)
    assert offset_at(lake.storage, manifest, START + timedelta(seconds=seconds)) == end


def test_an_atomic_run_counts_as_a_whole_from_its_commit(clock: FakeClock) -> None:
    lake = Lake(MemoryStorage(clock=clock, ids=counting_ids()), clock=clock, ids=counting_ids())
    moments = []
    for number in range(3):
        commit_together(lake, TAP, {STREAM: numbers(4 * number, 4 * number + 4)}, run=f"r{number}")
        moments.append(clock.now())
        clock.seconds += HOUR
    manifest = lake.stream(TAP, STREAM).snapshot()
    just = timedelta(microseconds=1)

    def end(moment: datetime) -> int:
        return offset_at(lake.storage, manifest, moment)

    assert [end(each) for each in moments] == [4, 8, 12]
    assert [end(each - just) for each in moments] == [0, 4, 8]


def test_a_commit_that_came_long_after_its_files_counts_when_it_was_made(clock: FakeClock) -> None:
    lake = made(clock, counting_ids())
    manifest = lake.stream(TAP, STREAM).snapshot()
    assert manifest.lineage is not None
    late = Decision(
        id="c",
        at=timestamp(START + timedelta(hours=2.5)),
        run=None,
        writer="w",
        committed=True,
        streams={STREAM: Brought(lineage=manifest.lineage, offset=10, end=20)},
    )
    other = structs.replace(late, streams={STREAM: Brought(lineage="other", offset=10, end=20)})

    def end(hours: float, decision: Decision) -> int:
        return end_at(manifest, START + timedelta(hours=hours), lambda file: b"", [decision])

    assert [end(hours, late) for hours in (0.5, 2.4, 2.5)] == [10, 10, 30]
    assert end(2.4, other) == 30


@pytest.mark.parametrize("text", ["2026-01-01T01:00:00Z", "2026-01-01T01:00", "2026-01-01 02:00+01:00"])
def test_a_moment_without_a_zone_is_utc(text: str) -> None:
    assert moment_of(text) == START + timedelta(hours=1)


@pytest.mark.parametrize("text", ["", "2026-01-01", "yesterday", "12", "2026-13-01T00:00Z", "2026-01-01T00:00:00Z; x"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="not a moment"):
        moment_of(text)
