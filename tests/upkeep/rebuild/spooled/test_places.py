"""Numbers are found under the hashes that they were added with."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.upkeep.rebuild.spooled import places
from singerlake.upkeep.rebuild.spooled.places import Places

HASHES = st.one_of(st.integers(-(1 << 63), (1 << 64) - 1), st.integers(0, 5))


@given(st.lists(st.tuples(HASHES, st.integers(0, (1 << 48) - 1)), max_size=60), st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_each_number_is_found_in_its_turn(added: list[tuple[int, int]], in_bucket: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(places, "_FIRST", 1)
        patched.setattr(places, "_IN_BUCKET", in_bucket)
        made = Places()
        expected: dict[int, list[int]] = defaultdict(list)
        for hashed, number in added:
            made.add(hashed, number)
            expected[hashed % (1 << 48)].append(number)
            assert made.find(hashed) == expected[hashed % (1 << 48)]
        assert len(made) == len(added)
        for hashed in [*range(-3, 9), *(hashed for hashed, _ in added)]:
            assert made.find(hashed) == expected[hashed % (1 << 48)]
