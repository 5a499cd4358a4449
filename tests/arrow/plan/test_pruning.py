"""What is left out by the manifest holds nothing that a filter matches, for any files, rows and filters."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.arrow.plan.pruning import Comparison, Predicate, is_exact, is_prunable, prune
from singerlake.arrow.schema.own import FILE, OFFSET, TIME, VERSION
from singerlake.clock import timestamp
from singerlake.format.lines.times import span
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from tests.format.state.files.lists import BEGIN, Shelf, file_at

START = datetime(2026, 1, 1, tzinfo=UTC)
MOMENTS = [START + timedelta(microseconds=number) for number in range(-2, 9)]
TEXTS = ["", "a", "b", "ab", "ba", "ä"]
COMPARED: dict[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.LESS: operator.lt,
    Comparison.AT_MOST: operator.le,
    Comparison.MORE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
    Comparison.STARTS: str.startswith,
    Comparison.ENDS: str.endswith,
    Comparison.CONTAINS: operator.contains,
}


@dataclass(frozen=True)
class Row:
    """A row as an engine sees it."""

    offset: int
    version: str
    file: str
    time: datetime | None

    def value(self, column: str) -> Any:
        return {OFFSET: self.offset, VERSION: self.version, FILE: self.file, TIME: self.time}.get(column)


def matches(row: Row, condition: Predicate) -> bool:
    """SQL's answer: what is compared with null is neither true nor false."""
    value = row.value(condition.column)
    if condition.test is Comparison.NULL:
        return (value is None) is not condition.negated
    if value is None:
        return False
    if condition.test is Comparison.AMONG:
        if value in condition.values:
            return not condition.negated
        return condition.negated and None not in condition.values
    (wanted,) = condition.values
    return wanted is not None and COMPARED[condition.test](value, wanted) is not condition.negated


def a_file(offset: int, version: str, path: str, times: list[datetime | None]) -> DataFile:
    covered = span(times) or (START, START)
    return DataFile(
        id=f"{offset}",
        path=path,
        version=version,
        offset=offset,
        messages=len(times),
        records=len(times),
        bytes=100,
        raw_bytes=1000,
        sha256="",
        first=timestamp(covered[0]),
        last=timestamp(covered[1]),
        members=((10, len(times)),),
    )


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[DataFile, list[Row]]]:
    found, offset = [], 0
    for _ in range(draw(st.integers(0, 5))):
        times = draw(st.lists(st.none() | st.sampled_from(MOMENTS), min_size=1, max_size=4))
        version, path = draw(st.sampled_from(TEXTS)), draw(st.sampled_from(TEXTS))
        rows = [Row(offset + place, version, path, time) for place, time in enumerate(times)]
        found.append((a_file(offset, version, path, times), rows))
        offset += len(times)
    return found


def conditions() -> st.SearchStrategy[Predicate]:
    def on(column: str, tests: list[Comparison], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Predicate]:
        def of(test: Comparison) -> st.SearchStrategy[Predicate]:
            several: st.SearchStrategy[tuple[Any, ...]] = st.tuples(values)
            if test is Comparison.AMONG:
                several = st.lists(values, max_size=3).map(tuple)
            if test is Comparison.NULL:
                several = st.just(())
            return st.builds(Predicate, st.just(column), st.just(test), several, st.booleans())

        return st.sampled_from(tests).flatmap(of)

    ordered = [
        Comparison.EQUAL,
        Comparison.LESS,
        Comparison.AT_MOST,
        Comparison.MORE,
        Comparison.AT_LEAST,
        Comparison.AMONG,
        Comparison.NULL,
    ]
    return st.one_of(
        on(OFFSET, ordered, st.none() | st.integers(-1, 12)),
        on(TIME, ordered, st.none() | st.sampled_from(MOMENTS)),
        on(VERSION, list(Comparison), st.none() | st.sampled_from(TEXTS)),
        on(FILE, list(Comparison), st.none() | st.sampled_from(TEXTS)),
    )


@given(streams(), st.lists(conditions(), max_size=4), st.integers(0, 12), st.integers(0, 12))
def test_what_is_left_holds_every_row_that_matches(
    stream: list[tuple[DataFile, list[Row]]], asked: list[Predicate], first: int, stop: int
) -> None:
    files = [file for file, _ in stream]
    kept = list(prune(files, first, stop, asked))
    assert all(max(file.offset, first) <= begin < end <= min(file.end, stop) for file, begin, end in kept)
    left = {offset for _, begin, end in kept for offset in range(begin, end)}
    meant = [row for _, rows in stream for row in rows if first <= row.offset < stop]
    wanted = {row.offset for row in meant if all(matches(row, condition) for condition in asked)}
    assert wanted <= left
    exact = [condition for condition in asked if is_exact(condition)]
    assert all(matches(row, condition) for row in meant if row.offset in left for condition in exact)


@given(streams(), st.lists(conditions(), max_size=4), st.integers(0, 12), st.integers(0, 12), st.data())
def test_the_same_is_left_of_a_list_with_segments(
    stream: list[tuple[DataFile, list[Row]]], asked: list[Predicate], first: int, stop: int, data: st.DataObject
) -> None:
    files, shelf = [file for file, _ in stream], Shelf()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(files)), max_size=3)) | {0})
    runs = [run for start, end in pairwise([*cuts, len(files)]) if (run := files[start:end])]
    tail = runs.pop() if runs and data.draw(st.booleans()) else []
    cut = FileList(tail, parts=[shelf.keep(run) for run in runs], source=shelf)
    assert list(cut) == files
    assert list(prune(cut, first, stop, asked)) == list(prune(files, first, stop, asked))


def test_a_segment_that_cannot_match_is_not_read() -> None:
    shelf = Shelf()
    segments = [shelf.keep([file_at(day, day, version="ab"[day % 2])]) for day in range(4)]
    cut = FileList(parts=segments, source=shelf)
    moments = [BEGIN + timedelta(hours=day) for day in range(4)]
    for condition, read in (
        (Predicate(OFFSET, Comparison.EQUAL, (1,)), [1]),
        (Predicate(OFFSET, Comparison.AMONG, (0, 3)), [0, 3]),
        (Predicate(VERSION, Comparison.EQUAL, ("b",)), [1, 3]),
        (Predicate(VERSION, Comparison.STARTS, ("a",), negated=True), [1, 3]),
        (Predicate(FILE, Comparison.EQUAL, (cut[2].path,)), [2]),
        (Predicate(FILE, Comparison.CONTAINS, ("-",)), [0, 1, 2, 3]),
        (Predicate(TIME, Comparison.AT_LEAST, (moments[2],)), [2, 3]),
        (Predicate(TIME, Comparison.AMONG, (moments[0], moments[3])), [0, 3]),
    ):
        shelf.read.clear()
        assert [file.offset for file, _, _ in prune(cut, 0, 4, [condition])] == read
        assert shelf.read == [segments[at].name for at in read]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (Predicate(OFFSET, Comparison.AT_LEAST, (15,)), [(15, 20), (20, 30)]),
        (Predicate(OFFSET, Comparison.MORE, (15,), negated=True), [(0, 10), (10, 16)]),
        (Predicate(OFFSET, Comparison.EQUAL, (29,)), [(29, 30)]),
        (Predicate(OFFSET, Comparison.EQUAL, (30,)), []),
        (Predicate(OFFSET, Comparison.AMONG, (3, 25, 7, 99)), [(3, 8), (25, 26)]),
        (Predicate(OFFSET, Comparison.NULL), []),
        (Predicate(VERSION, Comparison.EQUAL, ("b",)), [(10, 20)]),
        (Predicate(VERSION, Comparison.EQUAL, ("b",), negated=True), [(0, 10), (20, 30)]),
        (Predicate(FILE, Comparison.STARTS, ("p1",)), [(10, 20)]),
        (Predicate(TIME, Comparison.MORE, (START + timedelta(days=1, seconds=2),)), [(20, 30)]),
        (Predicate(TIME, Comparison.LESS, (START - timedelta(seconds=1),)), []),
        (Predicate(TIME, Comparison.AMONG, (START, START + timedelta(days=2))), [(0, 10), (20, 30)]),
    ],
)
def test_what_cannot_match_is_left_out(condition: Predicate, left: list[tuple[int, int]]) -> None:
    files = [
        a_file(10 * day, version, f"p{day}", [START + timedelta(days=day)] * 10) for day, version in enumerate("aba")
    ]
    assert [(begin, end) for _, begin, end in prune(files, 0, 30, [condition])] == left


@pytest.mark.parametrize(
    "condition",
    [
        Predicate("n", Comparison.EQUAL, (1,)),
        Predicate(OFFSET, Comparison.EQUAL, (None,)),
        Predicate(OFFSET, Comparison.EQUAL, (True,)),
        Predicate(OFFSET, Comparison.EQUAL, (1.0,)),
        Predicate(OFFSET, Comparison.AMONG, (1, None)),
        Predicate(OFFSET, Comparison.EQUAL, (1,), negated=True),
        Predicate(VERSION, Comparison.EQUAL, (1,)),
        Predicate(TIME, Comparison.NULL),
        Predicate(TIME, Comparison.NULL, negated=True),
        Predicate(TIME, Comparison.EQUAL, (datetime(1999, 1, 1),)),
        Predicate(TIME, Comparison.EQUAL, ("1999-01-01",)),
        Predicate(TIME, Comparison.EQUAL, (datetime(1999, 1, 1, tzinfo=UTC),), negated=True),
    ],
)
def test_what_says_nothing_leaves_everything(condition: Predicate) -> None:
    assert not is_prunable(condition)
    file = a_file(0, "a", "p", [START] * 10)
    assert list(prune([file], 2, 5, [condition])) == [(file, 2, 5)]


LATER_FIRST = ("2026-01-01T00:00:19.000000Z", "2026-01-01T00:00:00.001000Z")
"""What an early writer gave a file whose first record had no time and whose last one had."""


@pytest.mark.parametrize("test", [Comparison.EQUAL, Comparison.LESS, Comparison.MORE, Comparison.AMONG])
def test_a_row_of_a_file_that_begins_later_than_it_ends_is_found_by_its_time(test: Comparison) -> None:
    """Also where the time that is asked for lies within the two, or outside of them."""
    file = msgspec.structs.replace(a_file(0, "a", "p", [START]), first=LATER_FIRST[0], last=LATER_FIRST[1])
    for seconds in (-1, 0, 0.001, 5, 19, 20):
        asked = Predicate(TIME, test, (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds),))
        assert list(prune([file], 0, 1, [asked])) == [(file, 0, 1)]


@pytest.mark.parametrize(("first", "last"), [("", ""), ("2026", "2026"), ("now", "2026-01-01T00:00:00Z"), LATER_FIRST])
def test_a_file_whose_times_are_not_known_stays(first: str, last: str) -> None:
    file = msgspec.structs.replace(a_file(0, "a", "p", [START]), first=first, last=last)
    asked = [Predicate(TIME, Comparison.MORE, (datetime.max.replace(tzinfo=UTC) - timedelta(1),))]
    assert list(prune([file], 0, 1, asked)) == [(file, 0, 1)]
