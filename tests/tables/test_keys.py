"""Paths of tables: no name and no value leads out of the table's folder."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import NameTooLongError, SettingError
from singerlake.storage.keys import is_key
from singerlake.tables.state.keys import file_path, partition_segment, state_key, table_of, table_segment


@given(st.text(min_size=1, max_size=40))
def test_a_partition_is_one_folder_that_is_read_back(text: str) -> None:
    segment = partition_segment(text)
    assert "/" not in segment
    assert is_key(segment)
    assert unquote(segment, errors="surrogatepass") == text
    assert not segment.startswith(("_", "."))
    assert "=" not in segment


@pytest.mark.parametrize("text", ["..", ".", " ", "../x", ".tmp-1", ".singerlake.flock", "a/b", "a=b", "%2E", "\0"])
def test_hostile_values_stay_in_their_folder(text: str) -> None:
    path = file_path("t", 1, [(text, text)], "0" * 16, "parquet")
    assert is_key(path)
    assert path.count("/") == 2


def test_a_value_that_no_folder_can_be_called_is_named() -> None:
    with pytest.raises(NameTooLongError, match="partition 'note' takes 305 bytes"):
        file_path("t", 1, [("note", "x" * 300)], "0" * 16, "parquet")


def test_a_table_may_have_any_name_but_none() -> None:
    assert table_of(state_key("a/../b").split("/")[1]) == "a/../b"
    with pytest.raises(SettingError, match="empty"):
        table_segment("")
    with pytest.raises(NameTooLongError, match="180 at most"):
        table_segment("x" * 181)
