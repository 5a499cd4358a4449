"""The page of the Python API shows what a user calls, and all that it names is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import singerlake

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/python.md").read_text()
SHOWN = dict(re.findall(r"^::: (\S+)\n(?: +options:\n +members: \[(.*)\])?", PAGE, re.MULTILINE))


@pytest.mark.parametrize("path", SHOWN)
def test_what_the_page_shows_is_there(path: str) -> None:
    if path == "singerlake.errors":
        import_module(path)
        return
    module, name = path.rsplit(".", 1)
    shown = getattr(import_module(module), name)
    assert shown is getattr(singerlake, name)
    members = SHOWN[path].split(", ") if SHOWN[path] else []
    assert [member for member in members if not getattr(shown, member).__doc__] == []


@pytest.mark.parametrize("path", ["lake.Lake", "stream.LakeStream", "tables.read.LakeTable"])
def test_of_a_class_with_internals_only_chosen_members_are_shown(path: str) -> None:
    members = SHOWN[f"singerlake.{path}"]
    assert members
    assert not {"announce", "is_unborn", "rebuilt", "store", "writer", "table_runner", "state", "read"} & set(
        members.split(", ")
    )
