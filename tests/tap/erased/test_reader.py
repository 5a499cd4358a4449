"""Reading a stream with erased records from anywhere, from near and far storage: what is left, at its offsets."""

from __future__ import annotations

import pytest

from singerlake import reading
from singerlake.clock import SystemClock, random_id
from singerlake.errors import BrokenFileError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.selection import select
from singerlake.lake import Lake
from singerlake.reading import read_slice, read_slice_by_members
from tap_singerlake.replay import FileEnd, MessageBlock, Reader
from tests.everywhere.erasing import erase, holes_of, ids_in, vacuum
from tests.lakes import activate_version_line, build_stream
from tests.storage.memory import MemoryStorage
from tests.tap.runs import V1, V2
from tests.tap.test_reader import FarStorage

ACTIVATED = 14
GONE = [0, 2, 3, 8, 9, 10, 11, 12, 13, *range(20, 30), 31, 39]
"""At the borders of members and of files, a whole file but for an ACTIVATE_VERSION, and a whole file."""
LEFT = [offset for offset in range(40) if offset not in GONE]


@pytest.fixture(params=[MemoryStorage, FarStorage], ids=["near", "far"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MemoryStorage:
    monkeypatch.setattr(reading, "RANGE", 70)
    made: MemoryStorage = request.param(clock=SystemClock(), ids=random_id)
    return made


@pytest.fixture
def lake(storage: MemoryStorage) -> Lake:
    """Offsets 0 to 19 as v1, 20 to 29 as v2, 30 to 39 as v1 again; ten a file, three a gzip member."""
    made = Lake(storage)
    for schema, numbers in ((V1, range(20)), (V2, range(20, 30)), (V1, range(30, 40))):
        lines = [activate_version_line("s", 1) if n == ACTIVATED else {"id": n} for n in numbers]
        build_stream(made, "tap-a", "s", schema, lines, file_size=10, member_size=3)
    return made


@pytest.fixture
def erased(lake: Lake) -> Lake:
    """The same, twice erased from."""
    erase(lake, "tap-a", "s", GONE[::2])
    erase(lake, "tap-a", "s", GONE[1::2])
    assert holes_of(lake, "tap-a", "s") == [5, 4, 10, 2]
    return lake


def read(lake: Lake, **options) -> list[int]:
    """The offsets of what a reader gives; each record says its own."""
    stream, found = lake.stream("tap-a", "s"), []
    for event in Reader(stream, **options).events(stream.snapshot()):
        if isinstance(event, MessageBlock):
            assert len(event.block.offsets) == event.block.messages
            given = list(zip(event.block.offsets, event.block.data.splitlines(), strict=True))
            assert all(ids_in(line) == [offset] for offset, line in given if offset != ACTIVATED)
            found += [offset for offset, _ in given]
    return found


@pytest.mark.parametrize("way", ["whole members", "pieces of members"])
def test_what_is_left_comes_from_every_offset(erased, way, monkeypatch):
    if way == "pieces of members":
        monkeypatch.setattr(reading, "LARGEST", 1)
    lineage = erased.stream("tap-a", "s").snapshot().lineage
    for first in range(41):
        bookmark = Bookmark(lineage=lineage, offset=first)
        assert read(erased, position=bookmark) == [offset for offset in LEFT if offset >= first]


def test_both_ways_of_reading_members_give_the_same(erased):
    stream = erased.stream("tap-a", "s")
    storage = stream.lake.storage
    for first in range(41):
        for part in select(stream.snapshot(), offset=first):
            by = [
                [
                    (block.offsets[at], line)
                    for block in way(storage, stream.prefix, part)
                    for at, line in lines_of(block)
                ]
                for way in (read_slice, read_slice_by_members)
            ]
            assert by[0] == by[1]


def lines_of(block):
    return enumerate(block.data.splitlines())


def test_a_bookmark_in_a_file_that_is_no_longer_listed_leads_on(lake):
    """Each position that a reader can be in before, by the file's name alone, too."""
    before = lake.stream("tap-a", "s").snapshot()
    erase(lake, "tap-a", "s", GONE, now=True)
    vacuum(lake, "tap-a", "s")
    for file in before.files:
        for line in range(file.messages + 1):
            wanted = [offset for offset in LEFT if offset >= file.offset + line]
            known = Bookmark(lineage=before.lineage, offset=file.offset + line, file=file.id, line=line)
            found = Bookmark(lineage="an-older-one", offset=777, file=file.id, line=line)
            assert read(lake, position=known) == read(lake, position=found) == wanted


def test_versions_pass_over_files_that_are_all_holes(erased):
    assert read(erased, versions=("v1",)) == LEFT
    assert read(erased, versions=("v2",)) == []
    assert read(erased, from_version="v2") == [offset for offset in LEFT if offset >= 20]


def test_an_erasure_while_a_reader_is_at_work_is_gone_on_with(lake):
    """What the reader had not read is read from the new files, once its own are deleted."""
    stream, found, done = lake.stream("tap-a", "s"), [], False
    for event in Reader(stream).events(stream.snapshot()):
        if isinstance(event, MessageBlock):
            found += event.block.offsets
        elif isinstance(event, FileEnd) and not done:
            erase(lake, "tap-a", "s", GONE, now=True)
            done = True
    # Far storage has asked for some of the next file by then.
    ahead = range(10, 10 if lake.storage.near else 20)
    assert found == sorted(set(found))
    assert set(LEFT) | set(range(10)) <= set(found) <= set(LEFT) | set(range(10)) | set(ahead)


def test_every_position_of_a_reader_is_one_to_go_on_from(erased):
    stream = erased.stream("tap-a", "s")
    given: list[int] = []
    for event in Reader(stream).events(stream.snapshot()):
        if isinstance(event, MessageBlock):
            for count in range(1, event.block.messages + 1):
                rest = read(erased, position=event.bookmark(count))
                assert [*given, *event.block.offsets[:count], *rest] == LEFT
            given += event.block.offsets
        elif isinstance(event, FileEnd):
            assert given + read(erased, position=event.bookmark) == LEFT
    assert event.bookmark.offset == 40


def test_a_damaged_member_gives_nothing_whatever_holes_it_has(storage, erased):
    stream = erased.stream("tap-a", "s")
    file = stream.snapshot().files[0]
    body = bytearray(storage.get(stream.prefix + file.path).body)
    body[file.members[-1][0] + 14] ^= 1
    storage.put(stream.prefix + file.path, bytes(body))
    with pytest.raises(BrokenFileError):
        read(erased)


def test_a_file_with_fewer_lines_than_the_manifest_says_is_refused(storage, erased):
    stream = erased.stream("tap-a", "s")
    file = stream.snapshot().files[2]
    body = storage.get(stream.prefix + file.path).body
    storage.put(stream.prefix + file.path, body[: file.members[-1][0]])
    with pytest.raises(BrokenFileError):
        read(erased)
