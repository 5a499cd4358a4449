"""A set of stamps answers as a set does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from singerlake.work.journal_file import STAMP_BYTES, StampSet

NEAR = st.lists(st.sampled_from((0, 1)), min_size=STAMP_BYTES, max_size=STAMP_BYTES).map(bytes)
"""Stamps that are like parts of one another, wherever these begin."""
ANY = st.binary(min_size=STAMP_BYTES, max_size=STAMP_BYTES)


@given(st.lists(NEAR | ANY), st.lists(NEAR | ANY))
def test_a_set_of_stamps_has_just_those_that_were_added(added: list[bytes], others: list[bytes]) -> None:
    known = StampSet()
    for stamp in added:
        known.add(stamp)
    assert [stamp in known for stamp in (*added, *others)] == [stamp in added for stamp in (*added, *others)]
