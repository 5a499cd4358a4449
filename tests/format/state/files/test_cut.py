"""A long list is cut into segments, which stay as long as their files do, and are taken over from who cut before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.state.files.cut import Sizes, cut, is_whole
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.stores.segments.objects import checksum, to_text
from tests.format.state.files.lists import Shelf, cut_lists, file_at

SIZES = Sizes(whole=6, segment=5, tail=2)


def same(segment: Segment, files: Sequence[DataFile]) -> bool:
    return checksum(to_text(files)) == segment.sha256


def files_from(count: int, start: int = 0) -> list[DataFile]:
    return [file_at(place, place) for place in range(start, start + count)]


def stored(files: FileList, usable: Sequence[Segment], shelf: Shelf, sizes: Sizes = SIZES) -> FileList:
    """The list as it is stored: what is new is put on the shelf."""
    pieces, tail = cut(files, usable, sizes, same)
    parts = [piece if isinstance(piece, Segment) else shelf.keep(piece) for piece in pieces]
    return FileList(tail, parts=parts, source=shelf)


def counts(files: FileList) -> tuple[list[int], int]:
    return [segment.files for segment in files.segments], len(files.tail)


@given(cut_lists(), st.data())
def test_whatever_is_cut_is_the_same_list(made: tuple[list[DataFile], FileList, Shelf], data: st.DataObject) -> None:
    files, given_list, shelf = made
    usable = data.draw(st.lists(st.sampled_from(given_list.segments), unique_by=id)) if given_list.segments else []
    after = stored(given_list, usable, shelf)
    new = set(shelf.files) - {segment.name for segment in given_list.segments}
    assert list(after) == files
    assert all(isinstance(part, Segment) for part in after.parts)
    assert all(0 < segment.files <= SIZES.segment for segment in after.segments if segment.name in new)
    assert len(after.tail) <= SIZES.tail
    assert {segment.name for segment in after.segments} <= new | {segment.name for segment in usable}


def test_a_list_grows_by_its_last_segment() -> None:
    shelf = Shelf()
    files = FileList(files_from(7))
    assert not is_whole(files, SIZES)
    seen = []
    for place in range(7, 20):
        files = stored(files, files.segments, shelf)
        seen.append(counts(files))
        files = files.extended([file_at(place, place)])
    assert seen == [
        ([5, 2], 0),
        ([5, 2], 1),
        ([5, 2], 2),
        ([5, 5], 0),
        ([5, 5], 1),
        ([5, 5], 2),
        ([5, 5, 3], 0),
        ([5, 5, 3], 1),
        ([5, 5, 3], 2),
        ([5, 5, 5, 1], 0),
        ([5, 5, 5, 1], 1),
        ([5, 5, 5, 1], 2),
        ([5, 5, 5, 4], 0),
    ]
    assert list(files) == files_from(20)


def test_full_segments_are_never_written_again_as_a_list_grows() -> None:
    shelf = Shelf()
    files = stored(FileList(files_from(20)), (), shelf)
    first = files.segments
    for place in range(20, 60):
        files = stored(files.extended([file_at(place, place)]), files.segments, shelf)
    assert files.segments[:4] == first
    assert len(shelf.files) < 4 + 40


def test_who_holds_an_older_list_takes_over_what_others_cut() -> None:
    shelf = Shelf()
    theirs = stored(FileList(files_from(19)), (), shelf)
    before = set(shelf.files)
    for own in (
        FileList(files_from(23)),
        FileList(files_from(9, 14), parts=[shelf.keep(files_from(14), "x" * 37)], source=shelf),
    ):
        after = stored(own, theirs.segments, shelf)
        assert list(after) == files_from(23)
        assert after.segments[:3] == theirs.segments[:3]
    assert len(set(shelf.files) - before - {"x" * 37}) == 2 * 2


def test_a_segment_that_cannot_be_used_is_written_under_another_name() -> None:
    shelf = Shelf()
    files = stored(FileList(files_from(10)), (), shelf)
    after = stored(files, files.segments[1:], shelf)
    assert list(after) == files_from(10)
    assert after.segments[0].name != files.segments[0].name
    assert after.segments[0].sha256 == files.segments[0].sha256
    assert after.segments[1] == files.segments[1]


def test_one_that_another_usable_one_equals_is_not_read() -> None:
    shelf = Shelf()
    own = FileList(parts=[shelf.keep(files_from(5, start), f"own-{start}") for start in (0, 5)], source=shelf)
    usable = [shelf.keep(files_from(5), "theirs"), shelf.keep([file_at(place + 500, place) for place in range(5, 10)])]
    shelf.read.clear()
    after = stored(own, [usable[0], own.segments[1], usable[1]], shelf)
    assert [segment.name for segment in after.segments] == ["theirs", "own-5"]
    assert not shelf.read


def test_a_segment_with_other_files_of_the_same_offsets_is_not_taken_over() -> None:
    shelf = Shelf()
    others = [file_at(place + 500, place) for place in range(5)]
    theirs = shelf.keep(others)
    after = stored(FileList(files_from(10)), [theirs], shelf)
    assert theirs not in after.segments
    assert list(after) == files_from(10)


def test_what_is_replaced_in_the_midst_changes_its_segment_alone() -> None:
    shelf = Shelf()
    files = stored(FileList(files_from(20)), (), shelf)
    one = file_at(100, 6, messages=2)
    after = stored(files.replaced(6, 8, [one]), files.segments, shelf)
    assert counts(after) == ([5, 4, 5, 5], 0)
    assert [segment for segment in after.segments if segment in files.segments] == [
        files.segments[0],
        files.segments[2],
        files.segments[3],
    ]


def test_small_segments_in_the_midst_are_put_together() -> None:
    shelf = Shelf()
    sizes = Sizes(whole=6, segment=8, tail=2)
    files = stored(FileList(files_from(32)), (), shelf, sizes)
    for start, messages in ((0, 7), (7, 8)):
        place = files.index_behind(start)
        files = files.replaced(place, place + messages, [file_at(200 + start, start, messages=messages)])
        files = stored(files, files.segments, shelf, sizes)
    assert counts(files) == ([3, 1, 8, 8], 0) or counts(files)[0][0] <= 4
    assert sum(counts(files)[0]) == len(files)


@pytest.mark.parametrize(("count", "segments", "whole"), [(6, 0, True), (7, 0, False), (4, 1, False), (3, 1, True)])
def test_a_list_is_kept_whole_up_to_a_size_and_again_below_half_of_it(count: int, segments: int, whole: bool) -> None:
    files = files_from(count)
    shelf = Shelf()
    parts = [shelf.keep(files[:2])] if segments else []
    assert is_whole(FileList(files[2:] if segments else files, parts=parts, source=shelf), SIZES) is whole
