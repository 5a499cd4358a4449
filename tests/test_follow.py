"""``LakeStream.follow``: each message once, in order, whatever happens to the stream meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.errors import (
    ExpiredMessagesError,
    LineageChangedError,
    MissingFileError,
    SettingError,
)
from singerlake.format.state.transactions import Rebase
from singerlake.lake import Lake
from singerlake.singer_file import Block
from singerlake.stream import LakeStream
from singerlake.upkeep.gc.expire import Cut, expire_messages
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from tests.lakes import build_stream
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.migrate.moving import migrate

SCHEMA = {"properties": {"n": {"type": "integer"}}}


class Stream:
    """The stream of a place, to which messages come while somebody who follows it sleeps."""

    def __init__(self, kind: str) -> None:
        self.place = Place(kind)
        self.count = 0
        self.coming: list[Callable[[], object]] = []
        self.place.clock.on_sleep = self._slept

    @property
    def stream(self) -> LakeStream:
        return self.place.lake.stream("t", "s")

    def add(self, messages: int = 1) -> None:
        """Records in files of two."""
        first, self.count = self.count, self.count + messages
        lines = [{"n": n} for n in range(first, self.count)]
        store = None if first else self.place.kind
        build_stream(self.place.lake, "t", "s", SCHEMA, lines, store=store, file_size=2)

    def then(self, *steps: Callable[[], object]) -> None:
        """What happens at the next looks, a step at each."""
        self.coming += steps

    def _slept(self, seconds: float) -> None:
        # A store that waits for storage's clock sleeps, too.
        if seconds == EVERY and self.coming:
            self.coming.pop(0)()


EVERY = 0.123


@pytest.fixture(params=ON_THE_LAKE)
def stream(request: pytest.FixtureRequest) -> Stream:
    return Stream(request.param)


def numbers(blocks: Iterator[Block]) -> Iterator[tuple[int, int]]:
    """The offset and the number of each record."""
    for block in blocks:
        for offset, line in block.lines():
            yield offset, json.loads(line)["record"]["n"]


def taken(stream: Stream, count: int, *arguments: Any, **options: Any) -> list[int]:
    """The numbers of the next records, which are at the offsets of the same numbers."""
    found = list(islice(numbers(stream.stream.follow(*arguments, every=EVERY, **options)), count))
    assert all(offset == number for offset, number in found)
    return [number for _, number in found]


def test_what_is_there_comes_first_and_then_what_is_added(stream: Stream) -> None:
    stream.add(3)
    stream.then(lambda: stream.add(4), lambda: None, lambda: None, stream.add)
    assert taken(stream, 8, 0) == list(range(8))


def test_without_an_offset_only_what_comes_is_given(stream: Stream) -> None:
    stream.add(3)
    stream.then(lambda: None, lambda: stream.add(2))
    assert taken(stream, 2) == [3, 4]


@pytest.mark.parametrize("first", range(8))
def test_it_goes_on_from_any_offset(stream: Stream, first: int) -> None:
    stream.add(5)
    stream.then(lambda: stream.add(4))
    assert taken(stream, 9 - first, first) == list(range(first, 9))


def test_a_reader_that_saves_where_it_was_misses_nothing(stream: Stream) -> None:
    stream.add(5)
    block = next(stream.stream.follow(0, every=EVERY))
    stream.add(2)
    lineage = stream.stream.snapshot().lineage
    assert taken(stream, 7 - block.end, block.end, lineage=lineage) == list(range(block.end, 7))


def test_a_stream_that_is_not_there_yet_is_waited_for(stream: Stream) -> None:
    stream.then(lambda: None, lambda: stream.add(2))
    assert taken(stream, 2, 0) == [0, 1]


@pytest.mark.parametrize("trimmed", [False, True])
def test_files_that_are_joined_while_they_are_read_are_read_on_in_the_new_one(stream: Stream, trimmed: bool) -> None:
    """``trimmed``: the log that would tell of it is gone too."""
    stream.add(6)
    found = numbers(stream.stream.follow(0, every=EVERY))
    assert [next(found) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    old = [stream.stream.prefix + file.path for file in stream.stream.snapshot().files]
    vacuum_stream(stream.place.context(), target_bytes=1 << 20, threads=1)
    for key in old:
        stream.place.storage.delete(key)
    if trimmed and stream.place.kind != "lockfile":
        stream.place.store().trim(keep=0, dry_run=False)
    assert [next(found) for _ in range(3)] == [(3, 3), (4, 4), (5, 5)]


def test_a_file_that_is_lost_is_an_error(stream: Stream) -> None:
    stream.add(4)
    found = numbers(stream.stream.follow(0, every=EVERY))
    next(found)
    stream.place.storage.delete(stream.stream.prefix + stream.stream.snapshot().files[1].path)
    with pytest.raises(MissingFileError):
        list(found)


@pytest.mark.parametrize("new", ON_THE_LAKE)
def test_a_stream_that_moves_to_another_store_is_followed(stream: Stream, new: str) -> None:
    def move() -> None:
        if stream.place.kind != new:
            migrate(stream.place, new)
            stream.place.kind = new

    stream.add(2)
    stream.then(move, stream.add)
    assert taken(stream, 3, 0) == [0, 1, 2]


def expire(stream: Stream, before: int) -> None:
    expire_messages(stream.place.context(), Cut(before=before), dry_run=False)


def test_messages_that_expired_unread_are_an_error_or_passed_over(stream: Stream) -> None:
    stream.add(6)
    expire(stream, 4)
    with pytest.raises(ExpiredMessagesError, match="offset 1 to 3 expired"):
        taken(stream, 1, 1)
    assert taken(stream, 2, 1, skip_expired=True) == [4, 5]
    assert taken(stream, 2, 4) == [4, 5]


def test_what_expired_after_it_was_read_is_no_error(stream: Stream) -> None:
    stream.add(4)
    stream.then(lambda: expire(stream, 4), stream.add)
    assert taken(stream, 5, 0) == [0, 1, 2, 3, 4]


def made_anew(stream: Stream) -> None:
    base = stream.place.store().load()
    assert base is not None
    stream.place.committed(base, Rebase(manifest=msgspec.structs.replace(base.manifest, lineage="another")))


def test_a_stream_that_is_made_anew_is_an_error(stream: Stream) -> None:
    stream.add(2)
    lineage = stream.stream.snapshot().lineage
    stream.then(lambda: made_anew(stream))
    with pytest.raises(LineageChangedError, match="rebuilt or dropped"):
        taken(stream, 3, 0)
    with pytest.raises(LineageChangedError):
        taken(stream, 1, 0, lineage=lineage)
    assert taken(stream, 2, 0, lineage="another") == [0, 1]


def test_it_ends_when_it_is_told_to(stream: Stream) -> None:
    stream.add(5)
    until = threading.Event()
    found = stream.stream.follow(0, every=60, until=until)
    assert next(found).messages == 2
    until.set()
    assert list(found) == []


def test_where_it_is_told_to_end_before_it_begins_it_gives_nothing(stream: Stream) -> None:
    stream.add(5)
    until = threading.Event()
    until.set()
    assert list(stream.stream.follow(0, every=60, until=until)) == []


def test_it_ends_while_it_waits(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", SCHEMA, [{"n": 0}])
    until, found = threading.Event(), list[tuple[int, int]]()
    reader = threading.Thread(
        target=lambda: found.extend(numbers(lake.stream("t", "s").follow(0, every=0.01, until=until)))
    )
    reader.start()
    build_stream(lake, "t", "s", SCHEMA, [{"n": 1}])
    while len(found) < 2 and reader.is_alive():
        until.wait(0.01)
    until.set()
    reader.join(30)
    assert not reader.is_alive()
    assert found == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    "wrong", [{"from_offset": -1}, {"every": 0}, {"every": -1.0}, {"every": float("nan")}, {"every": float("inf")}]
)
def test_wrong_arguments_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Stream("lockfile").stream.follow(**wrong)


def test_looks_that_find_nothing_ask_for_one_object_each(stream: Stream) -> None:
    stream.add(4)
    asked: list[str] = []
    stream.then(
        lambda: None,
        asked.clear,
        *[lambda: None] * 5,
        lambda: setattr(stream.place.storage, "hook", lambda step: None),
        stream.add,
    )
    stream.place.storage.hook = lambda step: None if step.done else asked.append(step.operation)
    assert taken(stream, 5, 0) == [0, 1, 2, 3, 4]
    assert asked == ["head"] * 6
