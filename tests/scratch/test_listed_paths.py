"""Listed paths answer as dicts of them do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake import scratch
from singerlake.scratch import ListedPaths

PATHS = st.text("ab/é\0\udcff", max_size=4)
SIZES = st.integers(0, 9) | st.integers()


def stamped(path: str, said: bytes) -> bytes:
    return path.encode(errors="surrogatepass") + said


@given(st.lists(st.tuples(PATHS, SIZES, st.binary(max_size=2))), st.lists(PATHS), st.booleans())
def test_paths_answer_as_dicts_do(listed: list[tuple[str, int, bytes]], shown: list[str], with_stamps: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scratch, "_AT_ONCE", 2)
        paths = ListedPaths()
        for path, size, said in listed:
            paths.add(path, size, said)
        count = Counter(path for path, *_ in listed)
        assert paths.all_shown == (not listed)
        for path in shown:
            stamp = (lambda said, path=path: stamped(path, said)) if with_stamps else None
            assert paths.show(path, stamp) == (path in count)
        assert paths.all_shown == (count.keys() <= set(shown))
        known = {path: stamped(path, said) for path, _, said in listed if count[path] == 1 and path in shown}
        for path in {*count, *shown}:
            assert (path in paths) == (path in count)
            assert paths.size(path) == max(
                (size for listed_path, size, _ in listed if listed_path == path), default=None
            )
            assert paths.is_shown(path) == (path in count and path in shown)
            assert paths.stamp(path) == (known.get(path) if with_stamps else None)
