"""Repeated texts are found exactly, whatever their hashes are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.work import repeats as module
from singerlake.work.repeats import Repeats

PATHS = st.text("ab/é\udcff", max_size=4)
COUNTS = st.sampled_from((0, 1, 100, 10_000))


@pytest.mark.parametrize("alike", [False, True], ids=["hashes that differ", "hashes that are alike"])
@given(texts=st.lists(PATHS), count=COUNTS)
def test_texts_that_came_before_are_found(alike: bool, texts: list[str], count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if alike:
            patch.setattr(module, "hash", len, raising=False)
        repeats = Repeats(count=count)
        for text in texts:
            repeats.add(text)
        found = list(repeats.among(lambda: texts))
    assert found == [text for place, text in enumerate(texts) if text in texts[:place]]


def test_what_was_added_is_not_given_again_where_none_can_be_repeated() -> None:
    repeats = Repeats(count=2)
    repeats.add("a")
    repeats.add("b")
    assert list(repeats.among(lambda: pytest.fail("nothing is repeated"))) == []
