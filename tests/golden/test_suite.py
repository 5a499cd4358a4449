"""The suite for readers in any language: this project's own readers pass it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.arrow.plan.pruning import Comparison, Predicate, prune
from singerlake.arrow.schema.own import TIME
from singerlake.clock import parse_timestamp
from singerlake.errors import ExpiredMessagesError, LakeError, LostBookmarkError, LostStateError, SingerlakeError
from singerlake.format.layout import to_segment
from singerlake.format.schema_hash import canonical_schema, full_hash, schema_hash
from singerlake.format.state import bookmark as bookmarks
from singerlake.format.state import selection
from singerlake.format.state.features import features_of
from singerlake.lake import Lake
from singerlake.singer_file import Block
from singerlake.stream import LakeStream
from singerlake.upkeep.verify import verify_stream
from tap_singerlake.extent import start_offset
from tap_singerlake.replay import MessageBlock, Reader
from tests.golden.cases import EXPECTED, READABLE, REFUSED, SUITE, having

LARGEST = 1 << 20
"""Bytes of the whole suite: it is copied into other projects."""


@pytest.fixture
def expected(case: str) -> dict[str, Any]:
    return EXPECTED[case]


@pytest.fixture
def lake(case: str, tmp_path: Path) -> Lake:
    """A copy, so that no reader can change the original unseen."""
    shutil.copytree(SUITE / case / "lake", tmp_path / "lake")
    return Lake.open(str(tmp_path / "lake"))


@pytest.fixture
def stream(lake: Lake, expected: dict[str, Any]) -> LakeStream:
    return lake.stream(expected["tap"], expected["stream"])


def everything(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def by_the_library(stream: LakeStream, offset: int = 0) -> dict[int, str]:
    """Messages by their offsets."""
    parts = selection.select(stream.snapshot(), offset=offset)
    return dict(pair for part in parts for block in stream.read(part) for pair in numbered(block))


def by_the_tap(stream: LakeStream) -> dict[int, str]:
    events = Reader(stream).events(stream.snapshot())
    return dict(pair for event in events if isinstance(event, MessageBlock) for pair in numbered(event.block))


def numbered(block: Block) -> Iterator[tuple[int, str]]:
    lines = texts(block.data)
    assert len(lines) == block.messages
    return zip(block.offsets, lines, strict=True)


def texts(lines: bytes) -> list[str]:
    return lines.decode().split("\n")[:-1]


def test_the_suite_is_small_and_of_every_store() -> None:
    files = everything(SUITE)
    assert sum(map(len, files.values())) < LARGEST
    stores = {json.loads(body)["store"] for path, body in files.items() if path.name == "manifest.json"}
    assert stores == {"lockfile", "log", "merge", "dynamodb", "postgres"}


@pytest.mark.parametrize("case", READABLE)
def test_messages_lineage_and_versions_are_those_expected(
    stream: LakeStream, lake: Lake, expected: dict[str, Any]
) -> None:
    before = everything(Path(lake.storage.url))
    wanted = {offset: line for offset, line in enumerate(expected["messages"]) if line is not None}
    assert by_the_library(stream) == by_the_tap(stream) == wanted
    state = stream.snapshot()
    assert (state.lineage, state.next_offset) == (expected["lineage"], len(expected["messages"]))
    for first in range(state.next_offset + 1):
        assert by_the_library(stream, first) == {at: line for at, line in wanted.items() if at >= first}
    floor = expected.get("floor", 0)
    assert state.floor == floor
    holes = state.next_offset - floor - len(wanted)
    assert (list(features_of(state)), sum(file.erased for file in state.files)) == (expected.get("features", []), holes)
    if "versions" in expected:
        assert expected["versions"] == {
            label: {"hash": version, "first_offset": state.schemas[version].first_offset}
            for version, label in state.versions.items()
        }
    rows = stream.to_arrow(metadata=True).read_all().column("_singerlake_offset").to_pylist()
    assert rows == [offset for offset, line in wanted.items() if json.loads(line)["type"] == "RECORD"]
    assert {tap: lake.streams(tap) for tap in lake.taps()} == expected["taps"]
    assert everything(Path(lake.storage.url)) == before, "whoever reads changes nothing"


@pytest.mark.parametrize("case", READABLE)
def test_attached_files_are_those_expected(stream: LakeStream, expected: dict[str, Any]) -> None:
    found = [
        [file.offset + row.message, row.property, row.source, row.sha256, row.bytes, row.media_type, row.path()]
        for file in stream.snapshot().files
        for row in file.attached
    ]
    assert found == expected.get("attached", [])
    for *_, sha256, size, _, path in found:
        if path is not None:
            stored = stream.lake.storage.get(stream.prefix + path)
            assert stored is not None
            assert (hashlib.sha256(stored.body).hexdigest(), len(stored.body)) == (sha256, size)


@pytest.mark.parametrize("case", having("as_of"))
def test_streams_end_as_of_commits_where_expected(lake: Lake, expected: dict[str, Any]) -> None:
    for each in expected["as_of"]:
        if each["ends"] is None:
            with pytest.raises(SingerlakeError):
                lake.snapshot(expected["tap"], as_of=each["commit"])
        else:
            views = lake.snapshot(expected["tap"], as_of=each["commit"])
            assert {stream: view.end for stream, view in views.items()} == each["ends"]


@pytest.mark.parametrize("case", having("paths"))
def test_copies_are_those_expected(stream: LakeStream, expected: dict[str, Any]) -> None:
    assert [file.path for file in stream.snapshot().files] == expected["paths"]


@pytest.mark.parametrize("case", having("runs"))
def test_runs_are_those_expected(stream: LakeStream, expected: dict[str, Any]) -> None:
    names = ("id", "writer", "status", "files", "records", "table_version", "activated")
    runs = [msgspec.to_builtins(run) for run in stream.snapshot().runs]
    assert [[run.get(name) for name in names] for run in runs] == expected["runs"]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_by_all_readers(stream: LakeStream, expected: dict[str, Any]) -> None:
    given: list[str] = []

    def read() -> None:
        for part in selection.select(stream.snapshot()):
            for block in stream.read(part):
                given.extend(texts(block.data))

    with pytest.raises(LakeError):
        read()
    assert given == expected.get("messages", [])[: len(given)]
    with pytest.raises(SingerlakeError):
        by_the_tap(stream)
    with pytest.raises(SingerlakeError):
        stream.to_arrow().read_all()


@pytest.mark.parametrize("case", having("lake_id"))
def test_the_lake_s_id_is_that_expected(lake: Lake, expected: dict[str, Any]) -> None:
    if expected["lake_id"] is None:
        before = everything(Path(lake.storage.url))
        for ask in (lake.known_lake_id, lake.lake_id):
            with pytest.raises(LostStateError, match="several lakes"):
                ask()
        assert everything(Path(lake.storage.url)) == before
    else:
        assert lake.known_lake_id() == lake.lake_id() == expected["lake_id"]


@pytest.mark.parametrize("case", having("bookmarks"))
def test_bookmarks_go_on_where_they_are_expected_to(stream: LakeStream, expected: dict[str, Any]) -> None:
    for each in expected["bookmarks"]:
        bookmark = bookmarks.Bookmark(**each["bookmark"])
        if each["offset"] is None:
            with pytest.raises((LostBookmarkError, ExpiredMessagesError)):
                start_offset(stream, stream.snapshot(), bookmark, None)
        else:
            assert start_offset(stream, stream.snapshot(), bookmark, None) == each["offset"]


@pytest.mark.parametrize("case", having("between", "unknown_times"))
def test_no_record_is_left_out_by_its_time(stream: LakeStream, expected: dict[str, Any]) -> None:
    for each in expected.get("between", ()):
        state = stream.snapshot()
        bounds = [moment(each["from"]), moment(each["to"])]
        asked = [
            Predicate(TIME, Comparison.AT_LEAST, (bounds[0],)),
            Predicate(TIME, Comparison.AT_MOST, (bounds[1],)),
        ]
        left = [range(begin, end) for _, begin, end in prune(state.files, 0, state.next_offset, asked)]
        assert all(any(offset in part for part in left) for offset in each["offsets"])
    if "unknown_times" in expected:
        found = verify_stream(stream.lake.storage, stream.tap, stream.name, stream.state).findings
        assert [each.key.rpartition("-")[2][:16] for each in found if each.kind == "times"] == expected["unknown_times"]


def moment(text: str) -> datetime:
    found = parse_timestamp(text)
    assert found is not None
    return found


def test_the_document_s_vectors_are_those_of_the_suite() -> None:
    text = (SUITE.parents[2] / "shared" / "docs" / "format" / "hash.md").read_text()
    rows = re.findall(r"^\|`(.*)`\|`(0x[0-9a-f]{16})`\|`(.{7})`\|`(\S+)`\|$", text, re.MULTILINE)
    known = json.loads((SUITE / "schema-hashes.json").read_text())["schemas"]
    assert len(rows) >= 5
    assert set(rows) <= {(each["canonical"], each["fingerprint"], each["hash"], each["segment"]) for each in known}


@pytest.mark.parametrize("vector", json.loads((SUITE / "schema-hashes.json").read_text())["schemas"])
def test_the_hashes_of_schemas_are_those_expected(vector: dict[str, str]) -> None:
    schema = json.loads(vector["schema"])
    assert canonical_schema(schema) == vector["canonical"].encode("utf-8", "surrogatepass")
    assert (schema_hash(schema), full_hash(schema)) == (vector["hash"], vector["all_ten"])
    assert to_segment(vector["hash"]) == vector["segment"]
