"""Versions, offsets and bookmarks against one manifest."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import LostBookmarkError, UnknownNameError
from singerlake.format.layout import to_segment
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.bookmark import Bookmark, resume
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import first_offset, resolve_version, select
from tests.format.state.test_fold import SCHEMAS, add, born, done, new_file


def evolved() -> Manifest:
    """v1: 0-2, v2: 3-4, v1 again: 5-8."""
    return done(born(), add(new_file("a", 3, 0), new_file("b", 2, 1), new_file("c", 4, 0)))


@pytest.mark.parametrize("spelling", ["v2", schema_hash(SCHEMAS[1]), to_segment(schema_hash(SCHEMAS[1]))])
def test_a_version_is_named_by_label_hash_or_segment(spelling: str) -> None:
    assert resolve_version(evolved(), spelling) == schema_hash(SCHEMAS[1])


def test_an_unknown_version_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"no version 'v9'.*v1 .*v2"):
        resolve_version(evolved(), "v9")
    with pytest.raises(UnknownNameError, match="no data yet"):
        resolve_version(born(), "v1")


def test_from_a_version_means_everything_from_its_first_message_on_whatever_the_schema() -> None:
    manifest = evolved()
    offset = first_offset(manifest, "v2")
    assert offset == 3
    assert [part.file.id for part in select(manifest, offset=offset)] == ["b", "c"]
    assert first_offset(manifest, None) == 0


def test_versions_keep_the_named_ones_only() -> None:
    assert [part.file.id for part in select(evolved(), versions=["v1"])] == ["a", "c"]
    with pytest.raises(UnknownNameError):
        select(evolved(), versions=["v3"])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.data())
def test_a_selection_begins_exactly_at_its_offset(sizes: list[int], data: st.DataObject) -> None:
    manifest = done(born(), add(*(new_file(f"f{n}", size) for n, size in enumerate(sizes))))
    offset = data.draw(st.integers(0, sum(sizes) + 2))
    parts = select(manifest, offset=offset)
    assert sum(part.file.messages - part.skip for part in parts) == max(0, sum(sizes) - offset)
    if parts:
        assert parts[0].offset == offset
        assert all(part.skip == 0 for part in parts[1:])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_a_slice_begins_in_the_member_that_holds_its_first_message(counts: list[int], data: st.DataObject) -> None:
    members = tuple((100 * number, count) for number, count in enumerate(counts))
    file = msgspec.structs.replace(new_file("a", sum(counts)), members=members)
    skip = data.draw(st.integers(0, sum(counts) - 1))
    (part,) = select(done(born(), add(file)), offset=skip)
    before = sum(counts[: part.member])
    assert before <= skip < before + counts[part.member]


def test_an_end_leaves_out_files_that_begin_at_or_after_it() -> None:
    assert [part.file.id for part in select(evolved(), end=3)] == ["a"]
    assert [part.file.id for part in select(evolved(), end=4)] == ["a", "b"]


def test_within_a_lineage_a_bookmark_is_its_offset() -> None:
    manifest = evolved()
    assert resume(manifest, Bookmark(lineage="l", offset=4, file="b", line=1)) == 4
    assert resume(manifest, Bookmark(lineage="l", offset=4, file="gone", line=1)) == 4
    assert resume(manifest, Bookmark(lineage="l", offset=99, file="future", line=1)) == 99
    assert resume(manifest, Bookmark(lineage=None, offset=0)) == 0


def test_in_another_lineage_a_bookmark_is_its_file_and_line() -> None:
    assert resume(evolved(), Bookmark(lineage="old", offset=40, file="b", line=1)) == 4
    assert resume(evolved(), Bookmark(lineage=None, offset=40, file="c", line=4)) == 9


def test_a_bookmark_whose_file_stands_elsewhere_follows_the_file() -> None:
    assert resume(evolved(), Bookmark(lineage="l", offset=40, file="b", line=1)) == 4


def test_a_vacuumed_file_s_originals_are_found_in_what_it_replaced() -> None:
    origins = [("x", 0, "a"), ("y", 1, "a")]
    assert resume(evolved(), Bookmark(lineage="old", offset=40, file="y", line=1), origins) == 2


def test_a_bookmark_that_names_nothing_known_is_lost_loudly() -> None:
    with pytest.raises(LostBookmarkError, match="no longer holds the file"):
        resume(evolved(), Bookmark(lineage="old", offset=4, file="gone", line=1))
    with pytest.raises(LostBookmarkError):
        resume(evolved(), Bookmark(lineage="old", offset=4))
