"""A list with segments is the list of its files, and reads no more of them than it is asked for."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.exact_json import encode
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.files.totals import totals_of
from tests.format.state.files.lists import Shelf, cut_lists, file_at, lists_of_files

Cut = tuple[list[DataFile], FileList, Shelf]
INDEX = st.integers(-20, 20)


@given(cut_lists(), INDEX, INDEX, st.sampled_from((None, 1, 2, -1)))
def test_it_is_a_sequence_of_its_files(made: Cut, start: int, stop: int, step: int | None) -> None:
    files, cut, _ = made
    assert len(cut) == len(files)
    assert list(cut) == files
    assert cut == files
    assert cut == FileList(files)
    assert FileList(files) == cut
    assert cut != [*files, file_at(99, 99)]
    assert cut[start:stop:step] == tuple(files[start:stop:step])
    assert cut[start:] == tuple(files[start:])
    assert [cut[place] for place in range(-len(files), len(files))] == files + files
    assert encode(cut) == encode(files)
    assert pickle.loads(pickle.dumps(cut)) == files
    for outside in (len(files), -len(files) - 1):
        with pytest.raises(IndexError):
            cut[outside]


@given(cut_lists(), INDEX, INDEX)
def test_a_part_of_it_reads_no_segment_but_those_that_are_cut(made: Cut, start: int, stop: int) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    part = cut.between(start, stop)
    assert len(shelf.read) <= 2
    assert part == files[start:stop]
    assert len(part) == len(files[start:stop])
    assert cut.between(start) == files[start:]


@given(cut_lists(), st.sets(st.sampled_from("vw")))
def test_the_files_of_some_versions_are_those(made: Cut, versions: set[str]) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    found = cut.of_versions(versions)
    of_both = [part.name for part in cut.segments if len(part.versions) == 2]
    assert shelf.read == (of_both if versions and versions != {"v", "w"} else [])
    assert list(found) == [file for file in files if file.version in versions]
    assert totals_of(found).versions == totals_of(FileList(found)).versions


@given(cut_lists(), st.integers(0, 5))
def test_segments_that_are_ruled_out_are_not_read(made: Cut, least: int) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    found = list(cut.matching(lambda segment: segment.files >= least))
    assert shelf.read == [part.name for part in cut.segments if part.files >= least]
    kept = [file for file in files if file in found]
    assert found == kept
    assert len(found) == len(files) - sum(part.files for part in cut.segments if part.files < least)


@given(cut_lists(), st.integers(-1, 60))
def test_a_place_is_found_by_offset(made: Cut, offset: int) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    assert cut.index_behind(offset) == sum(file.end <= offset for file in files)
    assert len(shelf.read) <= 1
    assert (cut.begin, cut.end) == ((files[0].offset, files[-1].end) if files else (None, None))


@given(cut_lists(), st.integers(-1, 50), st.integers(-1, 50) | st.none())
def test_the_files_that_touch_some_offsets_are_those(made: Cut, start: int, stop: int | None) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    found = cut.touching(start, stop)
    assert set(shelf.read) <= {part.name for part in cut.segments if part.offset < start or part.end > (stop or 0)}
    assert len(shelf.read) <= (1 if stop is None else 2)
    assert found == [file for file in files if file.end > start and (stop is None or file.offset < stop)]
    if start <= 0 and stop is None:
        assert found.parts == cut.parts


@given(cut_lists())
def test_every_file_is_found_by_its_id_and_by_its_path_and_nothing_else_is(made: Cut) -> None:
    files, cut, _ = made
    by_id = cut.by_id
    assert dict(by_id) == {file.id: file for file in files}
    assert len(by_id) == len(files)
    others = [file_at(place, 0, timed=timed) for place in range(90, 93) for timed in (True, False)]
    for file in others:
        assert file.id not in by_id
        assert by_id.get(file.id) is None
    with pytest.raises(KeyError):
        by_id[others[0].id]
    assert 7 not in by_id
    paths = [file.path for file in (*files, *others)]
    assert cut.with_path(paths) == {file.path for file in files}
    assert cut.with_ids(file.id for file in (*files, *others)) == by_id


@given(cut_lists(), st.sets(st.integers(0, 20), max_size=4))
def test_some_are_found_together_and_no_segment_is_read_twice(made: Cut, places: set[int]) -> None:
    files, cut, shelf = made
    meant = [file for place, file in enumerate(files) if place in places]
    shelf.read.clear()
    assert cut.with_ids(file.id for file in meant) == {file.id: file for file in meant}
    assert len(shelf.read) == len(set(shelf.read))
    shelf.read.clear()
    assert cut.with_path(file.path for file in meant) == {file.path for file in meant}
    assert len(shelf.read) == len(set(shelf.read))
    if not meant:
        assert shelf.read == []


def test_a_new_id_reads_no_older_segment() -> None:
    shelf = Shelf()
    files = [file_at(place, place) for place in range(100)]
    cut = FileList(
        files[90:], parts=[shelf.keep(files[start : start + 10]) for start in range(0, 90, 10)], source=shelf
    )
    new = file_at(200, 100)
    assert new.id not in cut.by_id
    assert cut.with_path([new.path]) == set()
    assert shelf.read == []
    assert cut.by_id[files[33].id] == files[33]
    assert shelf.read == [f"{30:020d}-{3:016d}"]


@given(cut_lists(), lists_of_files(most=3))
def test_it_grows_and_stays_as_it_was(made: Cut, more: list[DataFile]) -> None:
    files, cut, _ = made
    grown = cut.extended(more)
    assert list(grown) == files + more
    assert list(cut) == files
    assert (grown is cut) == (not more)
    assert list(grown.extended(more)) == files + more + more


@given(cut_lists(), st.data(), lists_of_files(most=3))
def test_neighbours_are_replaced(made: Cut, data: st.DataObject, by: list[DataFile]) -> None:
    files, cut, shelf = made
    if not files:
        return
    start = data.draw(st.integers(0, len(files) - 1))
    stop = data.draw(st.integers(start + 1, len(files)))
    shelf.read.clear()
    after = cut.replaced(start, stop, by)
    assert len(shelf.read) <= 2, "a segment that goes as a whole was read"
    assert list(after) == files[:start] + by + files[stop:]
    assert list(cut) == files
    assert all(len(part) for part in after.parts if isinstance(part, AppendOnlyList))


@given(cut_lists())
def test_sums_are_known_without_a_look_at_a_segment(made: Cut) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    assert totals_of(cut) == totals_of(FileList(files))
    assert shelf.read == []
    totals = totals_of(cut)
    assert totals.bytes == sum(file.bytes for file in files)
    assert totals.records == sum(file.records for file in files)
    assert totals.raw_bytes == sum(file.raw_bytes for file in files)
    assert {version: each.end for version, each in totals.versions.items()} == {
        file.version: file.end for file in files
    }


@given(cut_lists())
def test_files_with_rows_are_found_in_segments_that_have_some(made: Cut) -> None:
    files, cut, shelf = made
    shelf.read.clear()
    found = list(cut.with_rows())
    assert [file for file in found if file.attached] == [file for file in files if file.attached]
    having = {segment.name for segment in cut.segments if segment.attached}
    assert set(shelf.read) == having


@given(cut_lists(), st.data())
def test_a_gap_between_parts_shows(made: Cut, data: st.DataObject) -> None:
    _, cut, shelf = made
    assert cut.gap is None
    if len(cut.parts) < 3:
        return
    out = data.draw(st.integers(1, len(cut.parts) - 2))
    parts = [part for place, part in enumerate(cut.parts) if place != out]
    before = cut.parts[out - 1]
    end = before.end if isinstance(before, Segment) else before[-1].end
    assert FileList(cut.tail, parts=parts, source=shelf).gap == end


def test_a_list_with_segments_and_no_place_to_read_them_from_says_so() -> None:
    shelf = Shelf()
    cut = FileList(parts=[shelf.keep([file_at(0, 0)])])
    assert len(cut) == 1
    with pytest.raises(RuntimeError, match="no place to read them from"):
        list(cut)
    assert list(cut.with_source(shelf)) == [file_at(0, 0)]
