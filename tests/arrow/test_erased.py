"""A stream with erased records as Arrow batches: the rows of the stream before, without the erased ones."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.arrow import scan
from singerlake.arrow.plan.splits import Split, splits
from singerlake.errors import BrokenFileError, ValueDoesNotFitError
from singerlake.format.state.files.data_file import DataFile
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from tests.everywhere.erasing import erase, holes_of, vacuum
from tests.lakes import activate_version_line, build_stream, record_line

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}
NEWER = {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string"}, "more": {}}}
OFFSET = "_singerlake_offset"


def a_stream(root: Path, kinds: Sequence[str], *, file_size: int = 100, member_size: int = 7) -> LakeStream:
    """A message of each kind, its id its offset."""

    def line(kind: str, number: int) -> bytes:
        if kind == "activate":
            return activate_version_line("s", number)
        record: dict[str, Any] = {"id": number, "text": f"text {number}"}
        if kind == "odd":
            record["text"] = number
        elif kind == "more":
            record["undeclared"] = [number]
        return record_line("s", record, time_extracted="2026-01-01T00:00:00Z", version=3)

    lake = Lake.open(str(root))
    lines = [line(kind, number) for number, kind in enumerate(kinds)]
    build_stream(lake, "t", "s", SCHEMA, lines, file_size=file_size, member_size=member_size)
    return lake.stream("t", "s")


def without(table: pa.Table, erased: Collection[int]) -> pa.Table:
    gone = pc.is_in(table.column(OFFSET), pa.array(sorted(erased), pa.int64()))
    return table.filter(pc.invert(gone))


def rows(stream: LakeStream, **options: Any) -> pa.Table:
    """All that does not name a file, which an erasure changes."""
    found = stream.to_arrow(metadata=True, record=True, **options)
    return found.read_all().drop_columns(["_singerlake_file"]).combine_chunks()


KINDS = st.lists(st.sampled_from(["plain", "plain", "plain", "odd", "more", "activate"]), min_size=1, max_size=30)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(KINDS, st.data())
def test_rows_are_those_of_before_without_the_erased_ones(kinds: list[str], data: st.DataObject) -> None:
    sizes = st.integers(1, 12)
    ids = st.sets(st.sampled_from([at for at, kind in enumerate(kinds) if kind != "activate"] or [len(kinds)]))
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        stream = a_stream(Path(root), kinds, file_size=data.draw(sizes), member_size=data.draw(sizes))
        before = {kind: rows(stream, messages=kind) for kind in ("records", "all")}
        erased: set[int] = set()
        for _ in range(data.draw(st.integers(1, 2))):
            gone = data.draw(ids)
            erase(stream.lake, "t", "s", gone or {len(kinds)})
            erased |= gone - {len(kinds)}
            if data.draw(st.booleans()):
                vacuum(stream.lake, "t", "s")
        patch.setattr(scan, "CHUNK_BYTES", data.draw(st.sampled_from([1, 60, 300, 1 << 18])))
        assert sum(holes_of(stream.lake, "t", "s")) == len(erased)
        for kind, table in before.items():
            assert rows(stream, messages=kind).equals(without(table, erased))
        first = data.draw(st.integers(0, len(kinds)))
        stop = data.draw(st.integers(first, len(kinds)))
        part = without(before["all"], erased | set(range(first)) | set(range(stop, len(kinds))))
        assert rows(stream, messages="all", from_offset=first, to_offset=stop).equals(part)


@pytest.fixture
def stream(tmp_path: Path) -> LakeStream:
    """Ids 0 to 59 in two files of members of seven; of the first one 0, 6 to 14 and 27 to 29 are holes, all of the
    second one are."""
    made = a_stream(tmp_path / "lake", ["plain"] * 60, file_size=30)
    erase(made.lake, "t", "s", [0, *range(6, 15), 27, 28, 29, *range(30, 60)])
    return made


LEFT = [1, 2, 3, 4, 5, *range(15, 27)]
pytestmark = pytest.mark.usefixtures("either_reader")


def offsets(stream: LakeStream, **options: Any) -> list[int]:
    found = stream.to_arrow(columns=["id", OFFSET], metadata=True, **options).read_all()
    assert found.column("id").to_pylist() == found.column(OFFSET).to_pylist()
    return [int(offset) for offset in found.column(OFFSET).to_pylist()]


@pytest.mark.parametrize(
    ("first", "stop"), [(0, 1), (0, 60), (1, 2), (6, 15), (7, 16), (8, 10), (13, 20), (26, 28), (28, 45), (40, 60)]
)
def test_a_range_may_begin_and_end_within_holes(stream: LakeStream, first: int, stop: int) -> None:
    wanted = [offset for offset in LEFT if first <= offset < stop]
    assert offsets(stream, from_offset=first, to_offset=stop) == wanted


@pytest.mark.parametrize("target", [1, 300, 1000, 1 << 20])
def test_partitions_of_any_size_hold_the_same(stream: LakeStream, target: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(files: Sequence[DataFile], first: int, stop: int, _: int, *, attached: bool) -> Iterator[Split]:
        found = list(splits(files, first, stop, target, attached=attached))
        assert all(split.holes for split in found)
        return iter(found)

    monkeypatch.setattr(scan, "splits", parts)
    assert offsets(stream) == LEFT
    assert offsets(stream, from_offset=8, to_offset=20) == [15, 16, 17, 18, 19]


def test_a_version_and_nothing_else_is_read(stream: LakeStream) -> None:
    build_stream(stream.lake, "t", "s", NEWER, [{"id": number} for number in range(60, 63)])
    erase(stream.lake, "t", "s", [60, 62])
    assert offsets(stream, from_version="v2") == [61]
    assert offsets(stream, versions=["v1"]) == LEFT
    assert offsets(stream) == [*LEFT, 61]


def test_holes_do_not_cut_a_chunk_into_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "BATCH_ROWS", 1)
    stream = a_stream(tmp_path / "lake", ["plain"] * 1500, file_size=1500, member_size=1500)
    assert len(list(stream.to_arrow())) == 1
    erase(stream.lake, "t", "s", range(0, 1500, 10))
    assert [batch.num_rows for batch in stream.to_arrow()] == [1350]


def test_an_error_names_the_place_behind_holes(tmp_path: Path) -> None:
    stream = a_stream(tmp_path / "lake", [*["plain"] * 8, "odd", "plain"])
    erase(stream.lake, "t", "s", [2, 3, 7])
    with pytest.raises(ValueDoesNotFitError, match=r"line=10, offset=8\b"):
        stream.to_arrow(mode="FAILFAST").read_all()
    assert rows(stream, mode="DROPMALFORMED").column(OFFSET).to_pylist() == [0, 1, 4, 5, 6, 9]


def test_holes_that_the_manifest_does_not_know_are_no_rows_unseen(tmp_path: Path) -> None:
    stream = a_stream(tmp_path / "lake", ["plain"] * 4)
    erase(stream.lake, "t", "s", [2])
    path = tmp_path / "lake" / "raw" / "t" / "s" / "manifest.json"
    state = json.loads(path.read_text())
    del state["files"][0]["erased"]
    path.write_text(json.dumps(state))
    with pytest.raises(BrokenFileError, match="not a Singer message"):
        stream.to_arrow().read_all()
