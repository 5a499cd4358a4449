"""Replays that end before a stream does: anywhere in a file, by every way of reading."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from singerlake import reading
from singerlake.errors import BrokenFileError, LineageChangedError, MissingFileError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.selection import Slice
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tap_singerlake.replay import FileEnd, MessageBlock, Reader, SchemaLine
from tests.atomic.lakes import SCHEMA, numbers
from tests.everywhere.erasing import erase, vacuum
from tests.lakes import build_stream

TAP, STREAM = "tap-a", "s"


@pytest.fixture(params=["near", "far"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "far":
        monkeypatch.setattr(LocalStorage, "near", property(lambda _: False))
        # So that a file takes several ranges.
        monkeypatch.setattr(reading, "RANGE", 200)
    return str(request.param)


@pytest.fixture(params=["whole members", "pieces of members"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "pieces of members":
        monkeypatch.setattr(reading, "LARGEST", 1)
    return str(request.param)


@pytest.fixture
def three_files(lake: Lake) -> Lake:
    """Ids 0 to 19, ten messages a file, four a member; the id is the offset."""
    build_stream(lake, TAP, STREAM, SCHEMA, numbers(0, 20), file_size=10, member_size=4)
    return lake


def read(lake: Lake, **options: object) -> tuple[list[int], int | None]:
    """The offsets that are given, and the bookmark at the end."""
    stream = lake.stream(TAP, STREAM)
    found: list[int] = []
    reached = None
    for event in Reader(stream, **options).events(stream.snapshot()):  # type: ignore[arg-type]
        if isinstance(event, MessageBlock):
            found += event.block.offsets
            ids = [json.loads(line)["record"]["id"] for line in event.block.data.splitlines()]
            assert ids == list(event.block.offsets)
        elif isinstance(event, FileEnd):
            reached = event.bookmark
            assert reached.offset == lake.stream(TAP, STREAM).snapshot().by_id[str(reached.file)].offset + reached.line
    return found, None if reached is None else reached.offset


def spans() -> Iterator[tuple[int, int]]:
    return itertools.product(range(21), range(23))


def test_each_end_after_each_beginning(three_files: Lake, place: str, way: str) -> None:
    for first, end in spans():
        assert read(three_files, begin=first, end=end) == (
            list(range(first, min(end, 20))),
            min(end, 20) if first < min(end, 20) else None,
        )


def test_the_same_in_a_file_that_a_vacuum_joined(three_files: Lake, place: str) -> None:
    lineage = three_files.stream(TAP, STREAM).snapshot().lineage
    vacuum(three_files, TAP, STREAM)
    assert len(three_files.stream(TAP, STREAM).snapshot().files) == 1
    for first, end in spans():
        found, reached = read(three_files, position=Bookmark(lineage=lineage, offset=first), end=end)
        assert found == list(range(first, min(end, 20)))
        assert reached == (min(end, 20) if found else None)


def test_holes_before_the_end_and_at_it(three_files: Lake, place: str, way: str) -> None:
    erase(three_files, TAP, STREAM, [3, 4, 9, 13])
    for end in range(21):
        found, reached = read(three_files, end=end)
        assert found == [offset for offset in range(end) if offset not in (3, 4, 9, 13)]
        assert reached == (end or None)


def test_a_file_whose_version_is_not_wanted_is_passed_over_up_to_the_end(three_files: Lake) -> None:
    build_stream(three_files, TAP, STREAM, {"type": "object"}, numbers(20, 30))
    assert read(three_files, versions=("v1",), end=25) == (list(range(20)), 25)
    assert read(three_files, versions=("v2",), end=15) == ([], 15)


def test_of_a_file_behind_the_end_nothing_is_read_and_no_schema_is_given(three_files: Lake, root: Path) -> None:
    stream = three_files.stream(TAP, STREAM)
    manifest = stream.snapshot()
    (root / stream.prefix / manifest.files[1].path).unlink()
    events = list(Reader(stream, end=10).events(manifest))
    assert sum(isinstance(event, SchemaLine) for event in events) == 1
    assert list(Reader(stream, end=0).events(manifest)) == []
    with pytest.raises(MissingFileError):
        list(Reader(stream, end=11).events(manifest))


def test_far_storage_is_asked_for_nothing_behind_the_end(three_files: Lake) -> None:
    file = three_files.stream(TAP, STREAM).snapshot().files[0]
    (_, first), (second, _), (third, _) = file.members
    assert first == 4
    assert reading.spans(Slice(file, 0, 4)) == [(0, second)]
    assert reading.spans(Slice(file, 0, 5)) == [(0, third)]
    assert reading.spans(Slice(file, 0, 9)) == [(0, file.bytes + 1)]
    assert reading.spans(Slice(file, 5, 8)) == [(0, file.members[0][0]), (second, third)]


@pytest.mark.parametrize("member", [0, 1, 2])
def test_a_damaged_member_before_the_end_is_an_error_and_one_behind_it_is_not(
    three_files: Lake, root: Path, place: str, way: str, member: int
) -> None:
    stream = three_files.stream(TAP, STREAM)
    file = stream.snapshot().files[0]
    path = root / stream.prefix / file.path
    body = bytearray(path.read_bytes())
    body[file.members[member][0] + 12] ^= 0xFF
    path.write_bytes(body)
    for end in (4, 8):
        if member * 4 < end:
            with pytest.raises(BrokenFileError):
                read(three_files, end=end)
        else:
            assert read(three_files, end=end) == (list(range(end)), end)


def test_a_vacuum_while_it_is_read_changes_nothing(three_files: Lake, root: Path) -> None:
    stream = three_files.stream(TAP, STREAM)
    events = Reader(stream, end=13).events(stream.snapshot())
    found: list[int] = []
    for event in events:
        if isinstance(event, MessageBlock):
            found += event.block.offsets
        if isinstance(event, FileEnd) and event.bookmark.offset == 10:
            old = [root / stream.prefix / file.path for file in stream.snapshot().files]
            vacuum(three_files, TAP, STREAM)
            for path in old:
                path.unlink()
    assert found == list(range(13))


def test_a_stream_that_is_rebuilt_while_it_is_read_in_a_view_is_an_error(three_files: Lake, root: Path) -> None:
    stream = three_files.stream(TAP, STREAM)
    manifest = stream.snapshot()
    events = Reader(stream, end=13).events(manifest)
    for event in events:
        if isinstance(event, FileEnd):
            break
    for file in manifest.files:
        (root / stream.prefix / file.path).unlink()
    three_files.storage.delete(f"{stream.prefix}manifest.json")
    build_stream(three_files, TAP, STREAM, SCHEMA, numbers(0, 3))
    with pytest.raises(LineageChangedError, match=r"rebuilt or dropped while it was read in one view.*run again"):
        list(events)
