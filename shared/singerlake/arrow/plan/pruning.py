"""Leaving out what a filter on the lake's own columns cannot match, by the manifest alone. Pure.

A file's version and path are those of all its rows, its rows' offsets lie in a known range, and their times in a known
span. So a condition on an offset, a version or a path can be kept exactly; one on the time leaves out whole files and
has to be asked of each row again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from singerlake.arrow.schema.own import FILE, OFFSET, TIME, VERSION
from singerlake.format.lines.times import known_span
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.files.wanted_ids import WantedIds

_ROUNDING = timedelta(microseconds=1)
"""What nanoseconds, cut here and rounded there, may differ by."""


class Comparison(StrEnum):
    """What a condition asks of a value."""

    EQUAL = "="
    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    AMONG = "in"
    NULL = "is null"
    STARTS = "starts with"
    ENDS = "ends with"
    CONTAINS = "contains"


_OPPOSITE = {
    Comparison.LESS: Comparison.AT_LEAST,
    Comparison.AT_MOST: Comparison.MORE,
    Comparison.MORE: Comparison.AT_MOST,
    Comparison.AT_LEAST: Comparison.LESS,
}
_HOLDS: dict[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQUAL: lambda value, wanted: bool(value == wanted),
    Comparison.LESS: lambda value, wanted: bool(value < wanted),
    Comparison.AT_MOST: lambda value, wanted: bool(value <= wanted),
    Comparison.MORE: lambda value, wanted: bool(value > wanted),
    Comparison.AT_LEAST: lambda value, wanted: bool(value >= wanted),
    Comparison.STARTS: lambda value, wanted: bool(value.startswith(wanted)),
    Comparison.ENDS: lambda value, wanted: bool(value.endswith(wanted)),
    Comparison.CONTAINS: lambda value, wanted: wanted in value,
}


@dataclass(frozen=True, slots=True)
class Predicate:
    """A filter on one column: ``test`` of ``values``, several for ``AMONG``, none for ``NULL``, otherwise one.
    As in SQL, a null value in the row, or to compare with, matches nothing, negated or not."""

    column: str
    test: Comparison
    values: tuple[Any, ...] = ()
    negated: bool = False


def is_prunable(condition: Predicate) -> bool:
    """Whether anything can be left out for it; values of another type than the column's own say nothing."""
    if condition.test is Comparison.NULL:
        return condition.column in (OFFSET, VERSION, FILE)
    if condition.column in (VERSION, FILE):
        return all(isinstance(value, str) for value in condition.values)
    if condition.test in _OPPOSITE or (
        condition.test in (Comparison.EQUAL, Comparison.AMONG) and not condition.negated
    ):
        if condition.column == OFFSET:
            return all(type(value) is int for value in condition.values)
        if condition.column == TIME:
            return all(isinstance(value, datetime) and value.tzinfo is not None for value in condition.values)
    return False


def is_exact(condition: Predicate) -> bool:
    """Whether ``prune`` leaves no row that it does not match."""
    inexact = condition.column == TIME or (condition.column == OFFSET and condition.test is Comparison.AMONG)
    return is_prunable(condition) and not inexact


def prune(
    files: Iterable[DataFile], first: int, stop: int, conditions: Sequence[Predicate] = ()
) -> Iterator[tuple[DataFile, int, int]]:
    """The ``files`` that may hold a message with an offset in [``first``, ``stop``) that matches all ``conditions``,
    each with the range of offsets where such a one may be. Conditions that are not prunable are looked past. Of a
    ``FileList`` no segment is read that has no such file by what the state says of it."""
    known = [condition for condition in conditions if is_prunable(condition)]
    offsets = [condition for condition in known if condition.column == OFFSET]
    others = [condition for condition in known if condition.column != OFFSET]
    sets = [sorted(set(condition.values)) for condition in offsets if condition.test is Comparison.AMONG]
    for condition in offsets:
        first, stop = _narrowed(condition, first, stop)

    def left(part: DataFile | Segment) -> tuple[int, int]:
        begin, end = max(first, part.offset), min(stop, part.end)
        for among in sets:
            inside = among[bisect_left(among, begin) : bisect_left(among, end)]
            begin, end = (inside[0], inside[-1] + 1) if inside else (begin, begin)
        return begin, end

    def may_match(segment: Segment) -> bool:
        begin, end = left(segment)
        return begin < end and all(_segment_may_match(segment, condition) for condition in others)

    for file in files.matching(may_match) if isinstance(files, FileList) else files:
        begin, end = left(file)
        if begin < end and all(_may_match(file, condition) for condition in others):
            yield file, begin, end


def _narrowed(condition: Predicate, first: int, stop: int) -> tuple[int, int]:
    test = condition.test
    if test is Comparison.NULL:
        return (first, stop) if condition.negated else (first, first)
    if test is Comparison.AMONG:
        return first, stop
    (value,) = condition.values
    if condition.negated:
        test = _OPPOSITE[test]
    low = {Comparison.EQUAL: value, Comparison.MORE: value + 1, Comparison.AT_LEAST: value}.get(test, first)
    high = {Comparison.EQUAL: value + 1, Comparison.LESS: value, Comparison.AT_MOST: value + 1}.get(test, stop)
    return max(first, low), min(stop, high)


def _segment_may_match(segment: Segment, condition: Predicate) -> bool:
    """Whether one of its files may: of those at a path, by the id at its end."""
    if condition.column == TIME:
        return segment.untimed > 0 or _time_may_match(segment.first, segment.last, condition)
    if condition.column == VERSION:
        return any(_text_may_match(version, condition) for version in segment.versions)
    if condition.test in (Comparison.EQUAL, Comparison.AMONG) and not condition.negated:
        return WantedIds.of_paths(condition.values).may_name_one_in(segment)
    return True


def _may_match(file: DataFile, condition: Predicate) -> bool:
    if condition.column == TIME:
        return _time_may_match(file.first, file.last, condition)
    return _text_may_match(file.version if condition.column == VERSION else file.path, condition)


def _text_may_match(value: str, condition: Predicate) -> bool:
    if condition.test is Comparison.NULL:
        return condition.negated
    if condition.test is Comparison.AMONG:
        return (value in condition.values) is not condition.negated
    return _HOLDS[condition.test](value, condition.values[0]) is not condition.negated


def _time_may_match(first: str, last: str, condition: Predicate) -> bool:
    earliest, latest = _bounds(first, last)
    test = _OPPOSITE[condition.test] if condition.negated else condition.test
    if test in (Comparison.EQUAL, Comparison.AMONG):
        return any(earliest <= value <= latest for value in condition.values)
    bound = earliest if test in (Comparison.LESS, Comparison.AT_MOST) else latest
    return _HOLDS[test](bound, condition.values[0])


def _bounds(first: str, last: str) -> tuple[datetime, datetime]:
    """The span of rows' times, a little wider; all of time where it is unknown, or at an end of ``datetime``."""
    span = known_span(first, last)
    if span is not None:
        with suppress(OverflowError):
            return span[0] - _ROUNDING, span[1] + _ROUNDING
    return datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
