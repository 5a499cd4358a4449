"""Stamps answer as a set and a dict of them do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.work import stamps as module
from singerlake.work.stamps import STAMP_BYTES, PathStamps, StampSet

PATHS = st.text("ab/é\udcff", max_size=4)
NEAR = st.lists(st.sampled_from((0, 1)), min_size=STAMP_BYTES, max_size=STAMP_BYTES).map(bytes)
"""Stamps that are like parts of one another, wherever these begin."""
ANY = st.binary(min_size=STAMP_BYTES, max_size=STAMP_BYTES)


@given(st.lists(NEAR | ANY), st.lists(NEAR | ANY))
def test_a_set_of_stamps_has_just_those_that_were_added(added: list[bytes], others: list[bytes]) -> None:
    known = StampSet()
    for stamp in added:
        known.add(stamp)
    assert [stamp in known for stamp in (*added, *others)] == [stamp in added for stamp in (*added, *others)]


@pytest.mark.parametrize("alike", [False, True], ids=["hashes that differ", "hashes that are alike"])
@given(
    added=st.lists(st.tuples(PATHS, ANY), max_size=8),
    shown=st.lists(PATHS),
    count=st.sampled_from((0, 1, 100, 10_000)),
)
def test_a_path_has_a_stamp_once_it_is_shown_and_only_if_it_is_one_path(
    alike: bool, added: list[tuple[str, bytes]], shown: list[str], count: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if alike:
            patch.setattr(module, "hash", lambda path: len(path), raising=False)
        stamps = PathStamps(count=count)
        for path, said in added:
            stamps.add(path, said)
        listed = list(dict.fromkeys(shown))
        for path in listed:
            stamps.show(path, lambda said, path=path: (path.encode(errors="surrogatepass") + said)[:STAMP_BYTES])
        hashes = Counter(len(path) if alike else hash(path) for path, _ in added)
        seen = Counter(len(path) if alike else hash(path) for path in listed)
        for path, said in added:
            hashed = len(path) if alike else hash(path)
            if hashes[hashed] == 1 == seen[hashed] and path in listed:
                assert stamps.get(path) == (path.encode(errors="surrogatepass") + said)[:STAMP_BYTES]
            elif hashes[hashed] > 1 or seen[hashed] != 1:
                assert stamps.get(path) is None
        assert all(stamps.get(path) is None for path in ("never", "x" * 9))
