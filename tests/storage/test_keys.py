"""Which keys there are: the rule by its parts, against the one expression that every key is held to."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.errors import CorruptObjectError
from singerlake.storage.keys import FLOCK_NAME, TEMPORARY_PREFIX, check_key, is_hidden

PARTS = st.sampled_from(
    ["", ".", "..", "...", "a", "/", "//", "\0", "\n", TEMPORARY_PREFIX, FLOCK_NAME, ".tmp", "ü", "\udcff", "\ud800"]
)


def allowed(key: str) -> bool:
    return (
        not any(part in ("", ".", "..") or "\0" in part or is_hidden(part) for part in key.split("/"))
        and "\ud800" not in key
    )


@given(st.lists(PARTS, max_size=7).map("".join) | st.text("./\0a\n-tmp", max_size=9))
@example(FLOCK_NAME + "\n")
@example(f"a/{FLOCK_NAME}x")
@example(f"a/x{TEMPORARY_PREFIX}")
@example(f"{TEMPORARY_PREFIX}\n/a")
@example("..\n")
def test_a_key_is_refused_where_one_of_its_parts_is(key: str) -> None:
    if allowed(key):
        assert check_key(key) == key
    else:
        with pytest.raises(CorruptObjectError):
            check_key(key)
