"""No file and no folder grows until nobody finds their way in it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("shared", "tap-singerlake", "target-singerlake", "tests", "tools", "bench", "demo")
LINES = 400
MODULES = 12
"""In a folder, beside its ``__init__.py``."""


def sources(place: str) -> list[Path]:
    return [path for path in (ROOT / place).rglob("*") if path.suffix in {".py", ".c", ".h"}]


@pytest.mark.parametrize("place", PLACES)
def test_no_file_is_longer_than_one_reads_at_once(place: str) -> None:
    found = sources(place)
    assert found
    assert {path: count for path in found if (count := len(path.read_text().splitlines())) > LINES} == {}


@pytest.mark.parametrize("place", PLACES)
def test_no_folder_holds_more_than_one_looks_over(place: str) -> None:
    counts: dict[str, int] = {}
    for path in sources(place):
        folder = path.parent.relative_to(ROOT).as_posix()
        counts[folder] = counts.get(folder, 0) + (path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > MODULES} == {}
