"""A sequence that grows shares its items and its index with what it grew from, and each version sees its own."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from tests.format.state.test_fold import born


@dataclass(frozen=True)
class Item:
    id: str


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.booleans()), max_size=8))
def test_each_version_finds_what_it_holds_and_nothing_else(steps: list[tuple[int, int, bool]]) -> None:
    versions: list[tuple[AppendOnlyList[Item], list[Item]]] = [(AppendOnlyList(), [])]
    made = 0
    for origin, count, asked in steps:
        roll, items = versions[origin % len(versions)]
        if asked:
            assert "0" not in roll.by_id or Item("0") in items
        more = [Item(str(made + number)) for number in range(count)]
        made += count
        versions.append((roll.extended(more), items + more))
    for roll, items in versions:
        assert roll == items
        assert dict(roll.by_id) == {item.id: item for item in items}
        assert [str(number) in roll.by_id for number in range(made)] == [
            Item(str(number)) in items for number in range(made)
        ]


def listed(number: int, name: str = "f") -> DataFile:
    return DataFile(
        id=f"{name}{number}",
        path=f"x/{name}{number}",
        version="v",
        messages=1000,
        records=1000,
        bytes=5,
        raw_bytes=6,
        sha256="0" * 64,
        first="2026-01-01",
        last="2026-01-01",
        members=((10, 1000),),
        offset=number * 1000,
    )


def state(*files: DataFile) -> Manifest:
    return msgspec.structs.replace(born(), files=files)


def test_a_listed_file_has_a_place_also_among_others_at_its_offset() -> None:
    one = listed(1)
    files = [listed(0), one, *(listed(2, name) for name in "abc"), listed(3)]
    manifest: Manifest = state(*files)
    assert [manifest.place_of(file) for file in files] == list(range(6))
    assert state(*reversed(files)).place_of(one) == 4
    with pytest.raises(ValueError, match=r"^$"):
        manifest.place_of(listed(4))
