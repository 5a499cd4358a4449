"""The golden lakes, which older versions wrote: sound, and the same again from their data files alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.upkeep.verify import verify_metadata, verify_stream

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("format*/lake"))


@pytest.fixture(params=GOLDEN, ids=[path.parent.name for path in GOLDEN])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    shutil.copytree(request.param, tmp_path / "lake")
    return Lake.open(str(tmp_path / "lake"))


def test_there_is_one_for_each_format() -> None:
    assert GOLDEN


def test_it_is_sound(lake: Lake) -> None:
    assert verify_metadata(lake.storage) == ()
    notes = []
    for tap in lake.taps():
        for name in lake.streams(tap):
            notes += verify_stream(lake.storage, tap, name, lake.stream(tap, name).state).findings
    # Of one file, an early writer took the first message's time of receipt and the last one's time of extraction.
    assert [(note.kind, note.problem) for note in notes] == [("times", False)]
    assert "-20260101T000019.000000Z-20260101T000000.001000Z-" in notes[0].key


def test_a_rebuild_gives_the_same_log(lake: Lake) -> None:
    for tap in lake.taps():
        for name in lake.streams(tap):
            before = lake.stream(tap, name).snapshot()
            lake.storage.delete(layout.manifest_key(tap, name))
            after = lake.stream(tap, name).rebuilt(lineage="new")
            facts = (
                "id",
                "path",
                "version",
                "offset",
                "messages",
                "records",
                "bytes",
                "raw_bytes",
                "sha256",
                "members",
            )
            assert [[getattr(file, fact) for fact in facts] for file in after.files] == [
                [getattr(file, fact) for fact in facts] for file in before.files
            ]
            assert (after.versions, after.next_offset) == (before.versions, before.next_offset)
            assert [(gone.id, gone.by) for gone in after.retired] == [(gone.id, gone.by) for gone in before.retired]
