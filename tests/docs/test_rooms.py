"""CONTRIBUTING's map of the tree names every folder, and every module that stands beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = re.search(r"^## Where things are\n\n((?: {4}.*\n|\n)+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
PACKAGES = (
    "shared/singerlake",
    "shared/pyspark_singerlake",
    "tap-singerlake/tap_singerlake",
    "target-singerlake/target_singerlake",
)


def named() -> set[str]:
    assert MAP is not None
    return set(re.findall(r"[\w./-]+(?:/|\.py)|[\w-]+/", MAP[1]))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_names_every_folder(package: str) -> None:
    parts = {part for name in named() for part in name.rstrip("/").split("/")}
    folders = {path.parent for path in (ROOT / package).rglob("__init__.py")}
    assert folders
    assert {str(folder.relative_to(ROOT)) for folder in folders if folder.name not in parts} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_names_every_module_of_a_package_s_first_level(package: str) -> None:
    names = {name.rpartition("/")[2] for name in named()}
    modules = {path.name for path in (ROOT / package).glob("*.py") if not path.name.startswith("__")}
    assert modules - names == set()


def test_the_map_names_nothing_that_is_gone() -> None:
    there = {path.name for place in (*PACKAGES, "tests", "bench") for path in (ROOT / place).rglob("*")}
    there |= {
        "shared",
        "tap-singerlake",
        "target-singerlake",
        "docs",
        "tests",
        "bench",
        "demo",
        "tools",
        "findings",
        "examples",
    }
    there |= {part for package in PACKAGES for part in package.split("/")}
    parts = {part for name in named() for part in name.strip("/").split("/") if part not in ("", ".")}
    assert parts - there - {path.name for path in (ROOT / "docs").iterdir()} == set()
