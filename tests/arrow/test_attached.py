"""The column of attached files: those of each record, whatever of the stream is read and however."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from singerlake.arrow.decode.rows import files_array, files_by_offset
from singerlake.arrow.plan.splits import Split, splits
from singerlake.errors import SettingError, UnknownNameError
from singerlake.format.state.attached import Attached
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from tests.attached.lakes import SCHEMA, attach, sha256
from tests.everywhere.erasing import erase, vacuum
from tests.lakes import activate_version_line, build_stream, record_line

FILES = "_singerlake_files"
BODIES = [b"0", b"1", b"2" * 1000]
ATTACHED = [[0], [1, 0], [], [None], [2], [], [1]]
"""Which bodies the records with the offsets 0 to 6 have; None for a file that could not be read."""
TYPE = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                ("property", pa.string()),
                ("source", pa.string()),
                ("sha256", pa.string()),
                ("bytes", pa.int64()),
                ("media_type", pa.string()),
                ("path", pa.string()),
            ]
        ),
    )
)


def fill(lake: Lake, **more: Any) -> LakeStream:
    files = [[None if number is None else BODIES[number] for number in numbers] for numbers in ATTACHED]
    attach(lake, "t", "a/b", files, **{"file_size": 4, "member_size": 2, **more})
    return lake.stream("t", "a/b")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"))


def found(stream: LakeStream, **options: Any) -> dict[int, list[int | None]]:
    """Which bodies each row has, by its offset; all of what a file's row says is checked."""
    table = stream.to_arrow(files=True, metadata=True, **options).read_all()
    column = table.column(FILES)
    assert (column.type, column.null_count) == (TYPE, 0)
    place = {sha256(body): number for number, body in enumerate(BODIES)}
    rows: dict[int, list[int | None]] = {}
    for offset, files in zip(table.column("_singerlake_offset").to_pylist(), column.to_pylist(), strict=True):
        for file in files:
            number = place.get(file["sha256"])
            said = [file[name] for name in ("property", "source", "bytes", "media_type")]
            if number is None:
                assert [*said, file["path"]] == ["photo", f"{offset}.jpg", None, None, None]
            else:
                assert said == ["photo", f"{offset}.jpg", len(BODIES[number]), "image/jpeg"]
                assert Path(file["path"]).read_bytes() == BODIES[number]
        rows[offset] = [place.get(file["sha256"]) for file in files]
    return rows


def test_each_record_has_its_files(lake: Lake) -> None:
    assert found(fill(lake)) == dict(enumerate(ATTACHED))


def test_without_the_option_nothing_is_added(lake: Lake) -> None:
    stream = fill(lake)
    assert stream.to_arrow().schema.names == ["id", "n", "photo", "_rescued_data"]
    assert stream.to_arrow(files=True).schema.names == ["id", "n", "photo", FILES, "_rescued_data"]
    every = stream.to_arrow(files=True, metadata=True, record=True, messages="all").schema.names
    assert every[-4:] == ["_singer_type", "_singerlake_record", FILES, "_rescued_data"]


@pytest.mark.parametrize("begin", range(8))
@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_a_part_of_the_stream_has_its_own_files(lake: Lake, begin: int, size: int) -> None:
    end = min(7, begin + size)
    rows = found(fill(lake), from_offset=begin, to_offset=end) if begin <= end else {}
    assert rows == {offset: ATTACHED[offset] for offset in range(begin, end)}


def test_the_column_can_be_named_or_left_out(lake: Lake) -> None:
    stream = fill(lake)
    only = stream.to_arrow(files=True, columns=[FILES]).read_all()
    assert [len(files) for files in only.column(FILES).to_pylist()] == list(map(len, ATTACHED))
    assert stream.to_arrow(files=True, columns=["id"]).schema.names == ["id"]
    with pytest.raises(UnknownNameError, match="set option 'files' to true to have it"):
        stream.to_arrow(columns=[FILES])


@pytest.mark.parametrize("files", ["true", 1, None])
def test_the_option_is_true_or_false(lake: Lake, files: Any) -> None:
    with pytest.raises(SettingError, match="files is neither True nor False"):
        fill(lake).to_arrow(files=files)


def test_a_stream_without_files_has_empty_lists(lake: Lake) -> None:
    build_stream(lake, "t", "bare", SCHEMA, [{"id": 1}, {"id": 2}])
    table = lake.stream("t", "bare").to_arrow(files=True).read_all()
    assert (table.column(FILES).to_pylist(), table.column(FILES).type) == ([[], []], TYPE)


def test_a_property_of_that_name_excludes_the_option(lake: Lake) -> None:
    schema = {"properties": {FILES: {"type": "string"}}}
    build_stream(lake, "t", "own", schema, [{FILES: "mine"}])
    stream = lake.stream("t", "own")
    assert stream.to_arrow().read_all().column(FILES).to_pylist() == ["mine"]
    with pytest.raises(SettingError, match=f"a property '{FILES}' of their own; leave option 'files' out"):
        stream.to_arrow(files=True)


ODD = {2: {"photo": 5}, 4: {"more": 1}}
"""Offsets of records that only the slow way reads: of a value that does not fit, and of a property not declared."""


def odd_line(stream: str, id: int) -> bytes:
    if id == 5:
        return activate_version_line(stream, 1)
    return record_line(stream, {"id": id, "photo": f"{id}.jpg", **ODD.get(id, {})})


def test_odd_records_and_other_messages_leave_each_file_at_its_record(lake: Lake) -> None:
    stream = fill(lake, line=odd_line)
    rest = {offset: files for offset, files in enumerate(ATTACHED) if offset != 5}
    assert found(stream) == rest
    assert found(stream, messages="all") == dict(enumerate(ATTACHED))
    assert found(stream, mode="DROPMALFORMED") == {offset: files for offset, files in rest.items() if offset != 2}


def test_erased_records_take_their_files_with_them(lake: Lake) -> None:
    stream = fill(lake)
    erase(lake, "t", "a/b", [1, 2, 6])
    rest = {offset: files for offset, files in enumerate(ATTACHED) if offset not in (1, 2, 6)}
    assert found(stream) == rest
    assert found(stream, from_offset=3, to_offset=5) == {3: [None], 4: [2]}


def test_a_vacuumed_stream_has_the_same_files(lake: Lake) -> None:
    stream = fill(lake, file_size=2)
    before = found(stream)
    vacuum(lake, "t", "a/b")
    assert len(stream.snapshot().files) == 1
    assert found(stream) == before


def test_versions_have_their_own_files(lake: Lake) -> None:
    stream = fill(lake)
    other = {**SCHEMA, "title": "another"}
    attach(lake, "t", "a/b", [[BODIES[2]]], schema=other, first_id=7)
    assert found(stream, versions=["v2"]) == {7: [2]}
    assert found(stream, from_version="v2") == {7: [2]}


@pytest.mark.parametrize("target", [1, 300, sys.maxsize])
@pytest.mark.parametrize(("first", "stop"), [(0, 7), (1, 6), (3, 4), (5, 5)])
def test_each_row_is_in_the_run_of_its_message(lake: Lake, target: int, first: int, stop: int) -> None:
    files = fill(lake).snapshot().files
    parts = list(splits(files, first, stop, target, attached=True))
    rows = [(part.file_offset + row.message, row.sha256) for part in parts for row in part.attached]
    expected = [
        (offset, None if number is None else sha256(BODIES[number]))
        for offset in range(first, stop)
        for number in ATTACHED[offset]
    ]
    assert rows == expected
    assert all(part.first <= part.file_offset + row.message < part.stop for part in parts for row in part.attached)
    assert [msgspec.structs.replace(part, attached=()) for part in parts] == list(splits(files, first, stop, target))
    packed = msgspec.msgpack.encode(tuple(parts))
    assert msgspec.msgpack.decode(packed, type=tuple[Split, ...]) == tuple(parts)


def test_a_name_that_no_engine_takes_is_shown_with_question_marks() -> None:
    row = Attached(0, "a\ud800", "\udfff/é", "0" * 64, 1, "image/jpeg", 1)
    [[file]] = files_array([5], files_by_offset([row], 5, "folder/"), TYPE).to_pylist()
    assert (file["property"], file["source"]) == ("a?", "?/é")
    assert file["path"] == f"folder/_files/00/{'0' * 64}"
