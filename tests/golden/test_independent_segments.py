"""The document is enough to read a state with segments, and to write one."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import CorruptObjectError
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.gc.expire import Cut, expire_messages
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.upkeep.verify import verify_stream
from tests.golden.independent.reader import Stream
from tests.golden.independent.segments import files_of, may_have, summary
from tests.golden.independent.times import moment
from tests.golden.independent.unreadable import Unreadable
from tests.golden.test_independent_writer import HASH, LINES, NOW, SCHEMA, a_random_id, read, write_file
from tests.lakes import build_stream
from tests.stores.segments.sizes import few_files_make_segments  # noqa: F401

STORES = ("lockfile", "log")
COUNT = 14
OPTIONAL = {
    "erased": 0,
    "attached": 0,
    "first": None,
    "last": None,
    "untimed": 0,
    "ids": None,
    "others": 0,
    "misnamed": 0,
}
"""What may be absent of a segment, and what that means."""


def lines(first: int, last: int) -> list[bytes]:
    return [b'{"type":"RECORD","stream":"s","record":{"id":%d}}' % number for number in range(first, last)]


def from_the_document(root: Path) -> list[bytes]:
    stream = Stream(root, "t", "s")
    return list(stream.messages(stream.state()))


def context(lake: Lake) -> StreamContext:
    return StreamContext(lake.storage, "t", "s", lake.clock, lake.ids, lake.stream("t", "s").store())


def written(root: Path, kind: str) -> Lake:
    """A stream of files of two messages each, in segments, of which the first has expired and some were joined."""
    lake = Lake.open(str(root))
    build_stream(lake, "t", "s", SCHEMA, lines(0, 10), file_size=2, store=kind)
    assert vacuum_stream(context(lake), target_bytes=700).joined.files > 1
    build_stream(lake, "t", "s", SCHEMA, lines(10, COUNT), file_size=2)
    store = lake.stream("t", "s").store()
    loaded = store.load()
    assert loaded is not None
    store.publish(loaded, run_ended=True)
    store.trim(keep=1, dry_run=False)
    build_stream(lake, "t", "s", SCHEMA, lines(COUNT, COUNT + 2), file_size=2)
    return lake


@pytest.mark.parametrize("kind", STORES)
def test_a_reader_from_the_document_reads_what_is_in_segments(kind: str, tmp_path: Path) -> None:
    lake = written(tmp_path, kind)
    stream = Stream(tmp_path, "t", "s")
    assert (stream.folder / "_segments").is_dir()
    state = stream.state()
    every = lines(0, COUNT + 2)
    for offset in range(state["next_offset"] + 1):
        assert list(stream.messages(state, offset)) == every[offset:]
    expire_messages(context(lake), Cut(before=COUNT), dry_run=False)
    state = stream.state()
    assert stream.floor(state) > 0
    assert list(stream.messages(state)) == every[stream.floor(state) :] == read(Lake.open(str(tmp_path)))


def test_a_state_says_of_its_segments_what_the_document_says(tmp_path: Path) -> None:
    written(tmp_path, "lockfile")
    stream = Stream(tmp_path, "t", "s")
    head = json.loads((stream.folder / "manifest.json").read_bytes())
    ids = []
    for segment in head["segments"]:
        files = files_of(segment, stream.folder)
        said = {**OPTIONAL, **{name: value for name, value in segment.items() if name not in ("name", "sha256")}}
        assert said == summary(files, moment)
        assert all(may_have(segment, file["id"]) for file in files)
        ids += [file["id"] for file in files]
    assert len(ids) > 1


def a_segment(folder: Path, files: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """5.3, from the document alone."""
    text = json.dumps(files).encode()
    name = f"{files[0]['offset']:020d}-{number:016d}"
    (folder / "_segments").mkdir(exist_ok=True)
    (folder / "_segments" / f"{name}.json.gz").write_bytes(gzip.compress(text))
    said = {name: value for name, value in summary(files, moment).items() if OPTIONAL.get(name, ...) != value}
    return {"name": name, "sha256": hashlib.sha256(text).hexdigest(), **said}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake whose one stream was written from the document, with two segments and a file behind them."""
    folder = tmp_path / "raw" / "t" / "s"
    files = [write_file(folder, LINES[n : n + 1], n, header=True) for n in range(5)]
    held = {"schema": SCHEMA, "key_properties": ["id"], "bookmark_properties": [], "first_offset": 0, "first_seen": NOW}
    state = {
        "format": 1,
        "features": ["segments"],
        "tap": "t",
        "stream": "s",
        "store": "lockfile",
        "lineage": a_random_id(),
        "created": NOW,
        "transaction": {"number": 2, "id": a_random_id()},
        "next_offset": 5,
        "versions": {HASH: "v1"},
        "schemas": {HASH: held},
        "segments": [a_segment(folder, files[:3], 1), a_segment(folder, files[3:4], 2)],
        "files": files[4:],
    }
    (folder / "manifest.json").write_text(json.dumps(state))
    return tmp_path


def test_what_was_written_from_the_document_is_read_and_continued(root: Path) -> None:
    lake = Lake.open(str(root))
    assert read(lake) == LINES[:5] == from_the_document(root)
    assert verify_stream(lake.storage, "t", "s", lake.stream("t", "s").state).findings == ()
    build_stream(lake, "t", "s", SCHEMA, LINES[5:], key_properties=["id"])
    assert read(Lake.open(str(root))) == LINES == from_the_document(root)


def _gone(folder: Path, head: dict[str, Any]) -> None:
    (folder / "_segments" / f"{head['segments'][1]['name']}.json.gz").unlink()


def _another(folder: Path, head: dict[str, Any]) -> None:
    one, two = (folder / "_segments" / f"{segment['name']}.json.gz" for segment in head["segments"])
    two.write_bytes(one.read_bytes())


def _elsewhere(folder: Path, head: dict[str, Any]) -> None:
    head["segments"][1]["name"] = "../_segments/" + head["segments"][1]["name"]


def _gap(folder: Path, head: dict[str, Any]) -> None:
    del head["segments"][1]


def _short(folder: Path, head: dict[str, Any]) -> None:
    head["segments"][1]["end"] += 1


@pytest.mark.parametrize("damage", [_gone, _another, _elsewhere, _gap, _short])
def test_both_refuse_what_is_damaged(damage: Callable[[Path, dict[str, Any]], None], root: Path) -> None:
    stream = Stream(root, "t", "s")
    path = stream.folder / "manifest.json"
    head = json.loads(path.read_bytes())
    damage(stream.folder, head)
    path.write_text(json.dumps(head))
    with pytest.raises(Unreadable):
        from_the_document(root)
    with pytest.raises(CorruptObjectError):
        read(Lake.open(str(root)))
