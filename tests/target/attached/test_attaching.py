"""How much is under way at once, and what becomes of it where something goes wrong or the run ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

import pytest

from singerlake.attached.keep import Fetched, Kept
from singerlake.attached.property_path import parse_path
from singerlake.attached.sources.locations import Allowed
from singerlake.attached.sources.source import Deadline
from singerlake.clock import SystemClock
from singerlake.errors import SettingError, StorageFullError, UnreadableSourceError
from target_singerlake.attaching import Attaching
from target_singerlake.files.growing import RecordFiles
from target_singerlake.input.messages import Records
from target_singerlake.settings import FileProperty, FileSettings
from tests.target.attached.files import person
from tests.target.support import text

THREADS, ROOM = 2, 100


@dataclass
class Gate:
    """Stands for what reads files and for what keeps them. Each file waits at the gate; ``most`` is how many stood
    there at once. Which files fail, and how, is in ``fails``."""

    opened: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    clock: SystemClock = field(default_factory=SystemClock)
    begun: list[str] = field(default_factory=list)
    fails: dict[str, Exception] = field(default_factory=dict)
    inside: int = 0
    most: int = 0
    closed: bool = False

    @property
    def sources(self) -> Gate:
        return self

    def close(self) -> None:
        self.closed = True

    def fetch(self, location: str, deadline: Deadline) -> Fetched:
        with self.lock:
            self.begun.append(location)
            self.inside += 1
            self.most = max(self.most, self.inside)
        while not self.opened.wait(0.01):
            deadline.left()
        with self.lock:
            self.inside -= 1
        if location in self.fails:
            raise self.fails[location]
        return Fetched("0" * 64, 1, "image/jpeg", location.encode())

    def keep(self, tap: str, stream: str, fetched: Fetched, state: Any) -> Kept:
        state()
        return Kept(1, new=True)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def made(gate: Gate, *, record: bool = False, holds: Any = "location", woken: Any = lambda: None) -> Attaching:
    property = FileProperty("photo", parse_path("photo", lambda _: SettingError("")), holds)
    settings = FileSettings(
        properties={"users": [property]},
        allowed=Allowed(),
        private_addresses=False,
        record_missing=record,
        most_bytes=1000,
        seconds=60,
        threads=THREADS,
    )
    logger = logging.getLogger("attaching")
    return Attaching(
        settings=settings,
        tap="t",
        room=ROOM,
        fetcher=gate,  # type: ignore[arg-type]
        keeper=gate,  # type: ignore[arg-type]
        state_of=lambda stream: lambda: None,  # type: ignore[arg-type,return-value]
        wake=woken,
        logger=logger,
    )


def records(*values: Any) -> Records:
    data = text(person(at, photo=value) for at, value in enumerate(values))
    return Records("users", data, len(values), 1, [])


def taken(attaching: Attaching, *values: Any, waiting: Any = lambda: None) -> list[RecordFiles]:
    return [files for _, _, files in attaching.records(records(*values), waiting, lambda: None) if files is not None]


class Full(Exception):
    """There was no room for another file."""


def full() -> None:
    raise Full


@pytest.fixture
def attaching(gate: Gate) -> Iterator[Attaching]:
    attaching = made(gate)
    yield attaching
    attaching.close()
    assert gate.closed


def test_no_more_are_under_way_than_twice_the_threads(gate: Gate, attaching: Attaching) -> None:
    found = taken(attaching, *(f"/{at}" for at in range(2 * THREADS)))
    with pytest.raises(Full):
        taken(attaching, "/more", waiting=full)
    gate.opened.set()
    found += taken(attaching, "/more")
    assert [[row.source for row in record.rows()] for record in found] == [["/0"], ["/1"], ["/2"], ["/3"], ["/more"]]
    assert gate.most == THREADS


def test_a_list_counts_by_its_files(gate: Gate, attaching: Attaching) -> None:
    with pytest.raises(Full):
        taken(attaching, [f"/{at}" for at in range(2 * THREADS + 1)], waiting=full)
    gate.opened.set()
    assert len(taken(attaching, [f"/{at}" for at in range(100)])[0].rows()) == 100


def test_texts_that_hold_files_count_by_their_length_but_one_of_any_is_taken(gate: Gate) -> None:
    attaching = made(gate, holds="base64")
    hold = threading.Event()
    gate.keep = lambda *_: (hold.wait(30), Kept(1, new=True))[1]  # type: ignore[method-assign]
    found = taken(attaching, "A" * 1000)
    with pytest.raises(Full):
        taken(attaching, "AAAA", waiting=full)
    hold.set()
    found += taken(attaching, "AAAA", "A" * 1000)
    assert [row.bytes for record in found for row in record.rows()] == [750, 3, 750]
    attaching.close()


def test_rows_stand_where_their_files_stood_whatever_comes_first(gate: Gate, attaching: Attaching) -> None:
    gate.opened.set()
    (record,) = taken(attaching, [f"/{at}" for at in range(50)])
    record.message = 7
    assert [(row.message, row.source) for row in record.rows()] == [(7, f"/{at}") for at in range(50)]
    assert record.done


def test_an_error_ends_what_waits_and_what_comes_and_wakes_the_reader(gate: Gate) -> None:
    woken = threading.Event()
    attaching = made(gate, woken=woken.set)
    gate.fails["/0"] = UnreadableSourceError("gone")
    found = taken(attaching, "/0", "/1", "/2", "/3")
    gate.opened.set()
    assert woken.wait(30)
    for failing in (attaching.check, found[0].rows, lambda: taken(attaching, "/4")):
        with pytest.raises(UnreadableSourceError, match="cannot be kept: gone"):
            failing()
    attaching.close()


def test_trouble_of_the_lake_is_no_missing_file(gate: Gate) -> None:
    attaching = made(gate, record=True)
    gate.opened.set()
    gate.fails["/0"] = UnreadableSourceError("gone")
    assert taken(attaching, "/0")[0].rows()[0].sha256 is None

    def full_lake(*_: Any) -> Kept:
        raise StorageFullError("no space is left")

    gate.keep = full_lake  # type: ignore[method-assign]
    (record,) = taken(attaching, "/1")
    with pytest.raises(StorageFullError):
        record.rows()
    attaching.close()


def test_the_end_of_a_run_gives_up_what_is_under_way(gate: Gate) -> None:
    attaching = made(gate)
    found = taken(attaching, "/0", "/1", "/2", "/3")
    told: list[type[BaseException]] = []

    def wait() -> None:
        try:
            found[3].rows()
        except BaseException as error:
            told.append(type(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    attaching.close()
    waiting.join(30)
    assert told == [CancelledError]
    assert len(gate.begun) <= THREADS


def test_a_reason_is_told_once_for_each_stream(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    attaching = made(gate, record=True)
    gate.opened.set()
    gate.fails = {f"/{at}": UnreadableSourceError("gone" if at % 2 else "lost") for at in range(10)}
    for record in taken(attaching, *gate.fails):
        record.rows()
    attaching.summary()
    assert caplog.text.count("cannot be kept: gone") == caplog.text.count("cannot be kept: lost") == 1
    assert "10 files could not be read" in caplog.text
    attaching.close()
