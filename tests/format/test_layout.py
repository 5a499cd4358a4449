"""Names to path segments and back, and what no segment may ever be."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.errors import NameTooLongError, SettingError
from singerlake.format import layout
from singerlake.format.layout import from_segment, to_segment

ANY_NAME = st.text(alphabet=st.characters(codec=None, exclude_categories=()), min_size=1, max_size=40)
SAFE = re.compile(r"[A-Za-z0-9%][A-Za-z0-9%._-]*")


@given(ANY_NAME)
@example("..")
@example("../../etc")
@example("/")
@example(".hidden")
@example("_hidden")
@example("-rf")
@example("catalogue.json")
@example("singerlake.json")
@example("manifest.json")
@example("catalogue%2Ejson")
@example("a=b")
@example("%2e")
@example("\ud800")
@example("\x00")
@example("C:\\Windows")
def test_any_name_makes_one_safe_segment_and_comes_back(name: str) -> None:
    segment = to_segment(name)
    assert from_segment(segment) == name
    assert SAFE.fullmatch(segment)
    assert segment not in (layout.CATALOGUE, layout.ROOT_METADATA, ".", "..")


@given(ANY_NAME, ANY_NAME)
def test_two_names_never_share_a_segment(one: str, other: str) -> None:
    assert (to_segment(one) == to_segment(other)) == (one == other)


@given(st.text(alphabet="aZ0%2EFfe.-_/~", max_size=12))
def test_a_folder_that_no_name_gives_is_no_part_of_the_lake(segment: str) -> None:
    name = from_segment(segment)
    assert name is None or to_segment(name) == segment


@pytest.mark.parametrize("segment", ["", "_log", ".tmp", "-x", "a b", "%2f", "%61", "a%", "catalogue.json", "é", "%FF"])
def test_segments_written_by_nobody_are_not_decoded(segment: str) -> None:
    assert from_segment(segment) is None


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("../../etc", "%2E.%2F..%2Fetc"),
        ("a/b", "a%2Fb"),
        ("catalogue.json", "catalogue%2Ejson"),
        ("singerlake.json", "singerlake%2Ejson"),
        ("test:SpecialChars!in?attributes", "test%3ASpecialChars%21in%3Fattributes"),
        ("tap-github", "tap-github"),
        ("public-flights", "public-flights"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
    ],
)
def test_segments_are_written_as_the_format_says(name: str, segment: str) -> None:
    assert to_segment(name) == segment


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(SettingError, match="must not be empty"):
        to_segment("")


@pytest.mark.parametrize(("tap", "stream"), [("t" * 300, "s"), ("t", "s" * 300), ("t", "日" * 30)])
def test_a_name_that_does_not_fit_is_refused_with_its_length_and_limit(tap: str, stream: str) -> None:
    with pytest.raises(NameTooLongError, match=r"takes \d+ bytes as a path segment, \d+ at most"):
        layout.manifest_key(tap, stream)


@given(st.integers(1, layout.STREAM_LIMIT), st.datetimes())
def test_every_file_of_an_accepted_stream_has_a_name_that_fits(length: int, moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    path = layout.file_path("s" * length, "3)vD5#h", moment, moment, "0123456789abcdef")
    folder, name = path.split("/")
    assert folder == "3%29vD5%23h"
    assert len(name.encode()) <= layout.SEGMENT_LIMIT
    assert layout.file_id_in(path) == "0123456789abcdef"
    assert layout.is_data_file(path)


def test_a_file_name_shows_its_times_in_utc() -> None:
    first = datetime(2026, 1, 1, 2, 0, 0, 1000, tzinfo=timezone(timedelta(hours=2)))
    assert (
        layout.file_path("flights", "abc", first, first, "0" * 16)
        == "abc/flights-20260101T000000.001000Z-20260101T000000.001000Z-0000000000000000.singer.gz"
    )


def test_locks_have_the_names_that_the_format_document_gives_them() -> None:
    # In parts, so that renaming a module of the package does not rename them: other writers look for the same locks.
    name = "singerlake" + "." + "lock"
    assert layout.version_lock_key("t", "s", "abc") == f"raw/t/s/abc/{name}"
    assert layout.stream_lock_key("t", "s") == f"raw/t/s/{name}"


@pytest.mark.parametrize("year", [1, 33, 999, 1000, 9999])
def test_the_years_of_a_file_name_have_four_digits(year: int) -> None:
    moment = datetime(year, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    (first, last) = layout.file_path("s", "abc", moment, moment, "0" * 16).split("-")[1:3]
    assert first == last == f"{year:04}1231T235959.999999Z"


@pytest.mark.parametrize(
    "path",
    [
        "manifest.json",
        "abc/singerlake.lock",
        "abc/sub/x.singer.gz",
        "x.singer.gz",
        "_log/x.singer.gz",
        "abc/._x.singer.gz",
    ],
)
def test_other_objects_are_not_taken_for_data_files(path: str) -> None:
    assert not layout.is_data_file(path)
