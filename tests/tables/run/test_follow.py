"""Following streams: what is new is run, what fails is tried again later, and nothing but its caller ends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from singerlake.errors import SingerlakeError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.tables.declaration.streams import everything, resolve
from singerlake.tables.project import LONGEST_WAIT, Follower, Looked, run_tables
from singerlake.tables.run.one_table import TableResult
from tests.fakes import FakeClock
from tests.lakes import build_stream
from tests.tables.tables import memory_lake

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}


class EndedError(Exception):
    """The end of a test."""


@dataclass
class Watched:
    """A lake that is followed every 10 seconds. ``meanwhile`` says what happens in the pause that ends at a second;
    what is told is kept with the second at which it was. ``refused`` streams cannot be read."""

    lake: Lake
    meanwhile: dict[int, Callable[[], None]]
    until: int = 60
    told: list[tuple[int, str, str, float | None]] = field(default_factory=list)
    engines: int = 0
    refused: set[str] = field(default_factory=set)
    unlisted: bool = False

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.lake.clock, FakeClock)
        return self.lake.clock

    def follow(self) -> None:
        self.clock.on_sleep = self.pause
        follower = Follower(self.look, self.run, self.note, self.note_look, self.clock)
        with pytest.raises(EndedError):
            follower.follow(self.look(), 10)

    def pause(self, _: float) -> None:
        if self.clock.seconds > self.until:
            raise EndedError
        self.meanwhile.get(int(self.clock.seconds), lambda: None)()

    def look(self) -> Looked:
        if self.unlisted:
            raise StorageUnavailableError("no answer", hint="run again")
        return resolve([everything()], {tap: self.lake.streams(tap) for tap in self.lake.taps()})

    def run(self, tables: object) -> object:
        runner = self.lake.table_runner(self.engine)
        known = runner.manifest

        def manifest(tap: str, stream: str) -> object:
            if stream in self.refused:
                raise StorageUnavailableError("no answer", hint="run again")
            return known(tap, stream)

        object.__setattr__(runner, "manifest", manifest)
        return run_tables(runner, tables)  # type: ignore[arg-type]

    def engine(self, size: int) -> object:
        from singerlake.work.engine import Threads

        self.engines += 1
        return Threads(self.lake.storage)

    def note(self, result: TableResult, wait: float | None) -> None:
        self.told.append((int(self.clock.seconds), result.declaration.name, result.status, wait))

    def note_look(self, error: SingerlakeError, wait: float) -> None:
        self.told.append((int(self.clock.seconds), "", error.kind, wait))


@pytest.fixture
def lake() -> Lake:
    lake = memory_lake()
    capture(lake, "users", 3)
    return lake


def capture(lake: Lake, stream: str, *ids: int) -> None:
    build_stream(lake, "t", stream, SCHEMA, [{"id": n} for n in ids], key_properties=("id",))


def ids(lake: Lake, table: str) -> list[int]:
    return lake.table(table).to_arrow(columns=["id"]).read_all().column("id").to_pylist()  # type: ignore[no-any-return]


def test_a_table_is_run_when_its_stream_has_something_new_and_then_alone(lake: Lake) -> None:
    watched = Watched(lake, {20: lambda: capture(lake, "users", 1, 2), 40: lambda: capture(lake, "orders", 7)})
    watched.follow()
    assert watched.told == [(0, "users", "made", None), (20, "users", "made", None), (40, "orders", "made", None)]
    assert ids(lake, "users") == [1, 2, 3]
    assert ids(lake, "orders") == [7]


def test_without_anything_new_no_engine_is_asked_for(lake: Lake) -> None:
    watched = Watched(lake, {})
    watched.follow()
    first = watched.engines
    again = Watched(lake, {}, until=300)
    again.follow()
    assert (first > 0, again.engines, again.told) == (True, 0, [])


def test_a_table_that_fails_is_tried_again_after_longer_and_longer_and_the_others_go_on(lake: Lake) -> None:
    capture(lake, "orders", 1)
    watched = Watched(lake, {}, until=400)
    watched.meanwhile = {
        50: lambda: capture(lake, "orders", 2),
        150: watched.refused.clear,
        160: lambda: watched.refused.add("users"),
    }
    watched.refused.add("users")
    watched.follow()
    users = [(at, status, wait) for at, name, status, wait in watched.told if name == "users"]
    assert users == [
        (0, "failed", 20),
        (20, "failed", 40),
        (60, "failed", 80),
        (140, "failed", 160),
        (300, "failed", 300),
    ], "each time it waits twice as long, and from the time that it failed"
    assert [(at, status) for at, name, status, _ in watched.told if name == "orders"] == [(0, "made"), (50, "made")]
    assert ids(lake, "orders") == [1, 2]


def test_one_that_did_not_fail_again_begins_anew_with_short_waits(lake: Lake) -> None:
    watched = Watched(lake, {}, until=100)
    watched.refused.add("users")
    watched.meanwhile = {60: watched.refused.clear, 80: lambda: watched.refused.add("users")}
    watched.follow()
    assert [(at, status, wait) for at, _, status, wait in watched.told] == [
        (0, "failed", 20),
        (20, "failed", 40),
        (60, "made", None),
        (80, "failed", 20),
        (100, "failed", 40),
    ]


def test_no_wait_is_longer_than_the_longest(lake: Lake) -> None:
    watched = Watched(lake, {}, until=3000)
    watched.refused.add("users")
    watched.follow()
    assert max(wait or 0 for *_, wait in watched.told) == LONGEST_WAIT
    assert watched.told[-1][0] > 3000 - LONGEST_WAIT


def test_a_lake_that_cannot_be_listed_for_a_while_ends_nothing(lake: Lake) -> None:
    watched = Watched(lake, {}, until=100)

    def away(now: bool) -> None:
        watched.unlisted = now

    watched.meanwhile = {10: lambda: away(True), 50: lambda: (away(False), capture(lake, "users", 9))[0]}
    watched.follow()
    assert watched.told == [
        (0, "users", "made", None),
        (10, "", "storage_unavailable", 20),
        (30, "", "storage_unavailable", 40),
        (70, "users", "made", None),
    ]


def test_a_declared_stream_that_is_not_there_yet_is_waited_for(lake: Lake) -> None:
    from singerlake.tables.declaration.model import TableDeclaration
    from singerlake.tables.declaration.streams import Declared

    class Declaring(Watched):
        def look(self) -> Looked:
            template = TableDeclaration(name="late", tap="", stream="")
            declared = [Declared(name="late", source=("t", "later"), template=template)]
            return resolve(declared, {tap: lake.streams(tap) for tap in lake.taps()})

    watched = Declaring(lake, {15: lambda: None, 30: lambda: capture(lake, "later", 5)})
    watched.follow()
    assert [(at, name, status) for at, name, status, _ in watched.told] == [
        (0, "late", "failed"),
        (20, "late", "failed"),
        (60, "late", "made"),
    ]
