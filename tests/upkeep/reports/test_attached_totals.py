"""The figures of attached files: each object once, whatever records have it."""

from __future__ import annotations

import msgspec

from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.upkeep.reports.census import AttachedTotals, Kind, attached_totals
from tests.format.state.test_fold import new_file

A, B, C = "a" * 64, "b" * 64, "c" * 64


def listed(*rows: Attached) -> DataFile:
    return DataFile(**{**msgspec.structs.asdict(new_file("f", 9)), "attached": rows}, offset=0)


def row(sha256: str | None, size: int | None, kind: str | None, copy: int = 1) -> Attached:
    return Attached(0, "photo", "x", sha256, size, kind, copy)


def test_a_stream_without_files_has_none() -> None:
    assert attached_totals([listed()]) == attached_totals([]) == AttachedTotals()


def test_each_object_counts_once_under_the_kind_that_it_was_first_given() -> None:
    files = [
        listed(row(A, 10, "image/jpeg"), row(B, 500, "application/pdf"), row(A, 10, "image/png")),
        listed(row(A, 10, "image/jpeg"), row(A, 10, "image/jpeg", copy=2), row(C, 0, "image/jpeg")),
    ]
    kinds = (Kind("application/pdf", 1, 500), Kind("image/jpeg", 3, 20))
    assert attached_totals(files) == AttachedTotals(4, 520, 0, kinds)


def test_files_that_could_not_be_read_are_counted_apart() -> None:
    assert attached_totals([listed(row(None, None, None), row(None, None, None))]) == AttachedTotals(unread=2)
