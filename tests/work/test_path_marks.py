"""Marks answer as a dict of the paths does, and repeated texts are found exactly, whatever their hashes are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.work import path_marks
from singerlake.work.path_marks import PathMarks, Repeats

PATHS = st.text("ab/é\udcff", max_size=4)
COUNTS = st.sampled_from((0, 1, 100, 10_000))


@given(st.dictionaries(PATHS, st.integers(0, 2**64 - 1)), st.lists(PATHS), COUNTS)
def test_marks_answer_as_a_dict_does(paths: dict[str, int], shown: list[str], count: int) -> None:
    marks = PathMarks(count=count)
    for path, number in paths.items():
        marks.add(path, number)
    assert marks.left == len(paths)
    for path in shown:
        assert marks.mark(path) == (path in paths)
    for path in {*paths, *shown}:
        assert (path in marks) == (path in paths)
        assert marks.number(path) == paths.get(path)
        assert marks.is_marked(path) == (path in paths and path in shown)
    assert marks.left == len(paths.keys() - set(shown))


def test_of_a_path_that_comes_twice_the_greatest_number_counts() -> None:
    marks = PathMarks(count=3)
    for number in (2, 3, 1):
        marks.add("a", number)
    assert marks.left == 1
    assert marks.number("a") == 3


@pytest.mark.parametrize("alike", [False, True], ids=["hashes that differ", "hashes that are alike"])
@given(texts=st.lists(PATHS), count=COUNTS)
def test_texts_that_came_before_are_found(alike: bool, texts: list[str], count: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if alike:
            patch.setattr(path_marks, "hash", len, raising=False)
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
