"""The names of attached files: what a row says, and what a listing shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format import layout

SHA = "0123456789abcdef" * 4
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)


@given(DIGESTS, st.integers(1, layout.MOST_COPIES))
def test_a_path_tells_its_name_and_is_no_other_object_s(sha256: str, copy: int) -> None:
    path = layout.attached_path(sha256, copy)
    assert layout.attached_name_in(path) == layout.attached_name(sha256, copy)
    assert path.startswith(f"_files/{sha256[:2]}/{sha256}")
    assert not layout.is_data_file(path)
    assert not layout.is_kept_schema(path)
    assert layout.file_id_in(path) is None


@given(DIGESTS, st.integers(1, 10**9 - 1), DIGESTS, st.integers(1, 10**9 - 1))
def test_two_objects_have_two_names(one: str, first: int, other: str, second: int) -> None:
    same = (one, first) == (other, second)
    assert (layout.attached_name(one, first) == layout.attached_name(other, second)) is same


def test_the_first_copy_has_no_number() -> None:
    assert layout.attached_path(SHA, 1) == f"_files/01/{SHA}"
    assert layout.attached_path(SHA, 2) == f"_files/01/{SHA}.2"
    assert layout.attached_path(SHA, 10) == f"_files/01/{SHA}.10"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "_files",
        "_files/",
        "_files/01",
        "_files/01/",
        f"_files/{SHA}",
        f"_files/02/{SHA}",
        f"_files/0/{SHA}",
        f"_files/01/x/{SHA}",
        f"_files/01/{SHA}/x",
        f"files/01/{SHA}",
        f"_log/01/{SHA}",
        f"x/_files/01/{SHA}",
        f"/_files/01/{SHA}",
        f"_files//{SHA}",
        f"_files/01/{SHA[:-1]}",
        f"_files/01/{SHA}0",
        f"_files/AB/{SHA.upper()}",
        f"_files/01/{SHA}\n",
        f"_files/01/{SHA}.",
        f"_files/01/{SHA}.0",
        f"_files/01/{SHA}.1",
        f"_files/01/{SHA}.02",
        f"_files/01/{SHA}.2.3",
        f"_files/01/{SHA}.2\n",
        f"_files/01/{SHA}.x",
        f"_files/01/{SHA}.1000000000",
        f"_files/01/{SHA}.٣",
        f"_files/01/.tmp-{SHA}",
        f"_files/01/{SHA}.singer.gz",
        "_files/01/x-20260101T000000.000000Z-20260101T000000.000000Z-0000000000000001.singer.gz",
        "_files/schema.json",
    ],
)
def test_other_objects_are_not_taken_for_attached_files(path: str) -> None:
    assert layout.attached_name_in(path) is None
    assert not layout.is_kept_schema(path)
    assert not layout.is_data_file(path)


def test_the_folder_is_no_name_s_segment() -> None:
    """So no version's folder is taken for it."""
    assert layout.from_segment("_files") is None
    assert layout.to_segment("_files") == "%5Ffiles"
