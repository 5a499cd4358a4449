"""Files of every shape that the format allows, with records erased in them: every reader gives what is left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from singerlake.arrow import scan
from singerlake.arrow.plan.splits import Split, splits
from singerlake.format.state import bookmark as bookmarks
from singerlake.format.state import selection
from singerlake.format.state.files.data_file import DataFile
from singerlake.singer_file import Block
from singerlake.stream import LakeStream
from singerlake.upkeep.verify import verify_stream
from tap_singerlake.replay import MessageBlock, Reader
from tests.everywhere.erasing import erase, vacuum
from tests.everywhere.test_file_shapes import ACTIVATE, NUMBERS, WANTED, root, shape, stream
from tests.tap.runs import replay
from tests.upkeep.shelf import STREAM, TAP

__all__ = ["root", "shape", "stream"]  # fixtures

CHOICES = {"first": NUMBERS[:1], "last": NUMBERS[-1:], "every other": NUMBERS[::2], "all": NUMBERS}


def left(gone: list[int]) -> dict[int, bytes]:
    """The messages that are left, by their offsets."""
    return {
        at: line for at, line in enumerate(WANTED) if line == ACTIVATE or json.loads(line)["record"]["n"] not in gone
    }


def numbered(blocks: list[Block]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for block in blocks:
        found |= dict(zip(block.offsets, block.data.splitlines(keepends=True), strict=True))
    return found


def runs_of(
    size: int, files: Iterable[DataFile], first: int, stop: int, target: int, *, attached: bool = False
) -> Iterator[Split]:
    """What a reader goes by, in runs of about this size, whatever ``target`` it asks for."""
    del target
    return splits(files, first, stop, size, attached=attached)


def every_reader_agrees(stream: LakeStream, root: Path, wanted: dict[int, bytes]) -> None:
    manifest = stream.snapshot()
    for first in range(len(WANTED) + 1):
        rest = {at: line for at, line in wanted.items() if at >= first}
        parts = selection.select(manifest, offset=first)
        assert numbered([block for part in parts for block in stream.read(part)]) == rest
        position = bookmarks.Bookmark(lineage=manifest.lineage, offset=first)
        events = Reader(stream, position=position).events(manifest)
        assert numbered([event.block for event in events if isinstance(event, MessageBlock)]) == rest
    records = {at: json.loads(line)["record"]["n"] for at, line in wanted.items() if line != ACTIVATE}
    for target in (1, 1 << 30):
        with patch.object(scan, "splits", partial(runs_of, target)):
            rows = stream.to_arrow(metadata=True).read_all()
        assert rows.column("_singerlake_offset").to_pylist() == list(records)
        assert rows.column("n").to_pylist() == list(records.values())
    mapped = replay(root, tap_id=TAP, include_lake_metadata=True).records()
    assert {row["_singerlake_offset"]: row["n"] for row in mapped} == records
    found = verify_stream(stream.lake.storage, TAP, STREAM, stream.state).findings
    assert [each for each in found if each.problem] == []
    again = stream.rebuilt(lineage="anew")
    # Nobody knows where a file stood that says nothing of itself.
    assert sorted(file.erased for file in again.files) == sorted(file.erased for file in stream.snapshot().files)
    assert again.next_offset == len(WANTED)


@pytest.mark.crossed("shape", "gone")
@pytest.mark.parametrize("gone", CHOICES.values(), ids=CHOICES)
def test_every_reader_gives_what_is_left(stream: LakeStream, root: Path, gone: list[int]) -> None:
    before = [file.messages for file in stream.snapshot().files]
    erase(stream.lake, TAP, STREAM, gone, name="n")
    assert [file.messages for file in stream.snapshot().files] == before
    every_reader_agrees(stream, root, left(gone))
    vacuum(stream.lake, TAP, STREAM)
    every_reader_agrees(stream, root, left(gone))
