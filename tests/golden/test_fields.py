"""A state that lacks a field which every reader needs, or has one of another kind, is refused by each reader."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import LakeError
from singerlake.format.state import selection
from singerlake.lake import Lake
from tests.golden.cases import SUITE
from tests.golden.independent.reader import Stream
from tests.golden.independent.unreadable import Unreadable

GONE = object()
"""Stands for a field that is left out."""
WRONG: dict[str, list[Any]] = {
    "format": [GONE, None, 1.0, "1"],
    "features": [None, "erased", [1]],
    "tap": [GONE, None, 1],
    "stream": [GONE, None, 1],
    "lineage": [GONE, None, 1],
    "store": [GONE, None, 1],
    "next_offset": [GONE, None, 7.0, "7", -1],
    "versions": [GONE, None, [], {"?#psI{8": 1}],
    "schemas": [GONE, None, []],
    "files": [GONE, None, {}, [None]],
}
WRONG_OF_A_FILE: dict[str, list[Any]] = {
    "path": [GONE, None, 1],
    "version": [GONE, None, 1],
    "offset": [GONE, None, 0.0, "0"],
    "messages": [GONE, None, 2.0, "2"],
    "bytes": [GONE, None, 317.0, "317"],
    "sha256": [GONE, None, 1],
    "members": [GONE, None, {}, [[240]], [["240", 2]]],
}
ROW = [2, "p", None, None, None, None, 1]
"""Of a message that the first file does not have."""
WRONG_OF_A_SCHEMA: dict[str, list[Any]] = {"schema": [GONE], "first_offset": [GONE, None, "0", 0.0]}


def changed(place: dict[str, Any], name: str, value: Any) -> None:
    if value is GONE:
        del place[name]
    else:
        place[name] = value


def edits() -> list[Any]:
    found = []
    for where, wrong in (("state", WRONG), ("file", WRONG_OF_A_FILE), ("schema", WRONG_OF_A_SCHEMA)):
        for name, values in wrong.items():
            for value in values:
                said = "gone" if value is GONE else json.dumps(value)
                found.append(pytest.param(where, name, value, id=f"{where}-{name}-{said}"))
    return found


def refused_by_both(lake: Path) -> None:
    with pytest.raises(Unreadable):
        list(Stream(lake, "t", "s").messages(Stream(lake, "t", "s").state()))
    with pytest.raises(LakeError):
        selection.select(Lake.open(str(lake)).stream("t", "s").snapshot())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    shutil.copytree(SUITE / "lockfile" / "lake", tmp_path / "lake")
    return tmp_path / "lake"


@pytest.mark.parametrize(("where", "name", "value"), edits())
def test_a_field_that_is_missing_or_not_valid_is_refused(lake: Path, where: str, name: str, value: Any) -> None:
    path = lake / "raw" / "t" / "s" / "manifest.json"
    state = json.loads(path.read_bytes())
    before = copy.deepcopy(state)
    places = {"state": state, "file": state["files"][0], "schema": next(iter(state["schemas"].values()))}
    changed(places[where], name, value)
    assert (value is GONE) or json.dumps(state) != json.dumps(before)
    path.write_text(json.dumps(state))
    refused_by_both(lake)


def test_a_row_of_a_message_that_the_file_does_not_have_is_refused(lake: Path) -> None:
    path = lake / "raw" / "t" / "s" / "manifest.json"
    state = json.loads(path.read_bytes())
    assert state["files"][0]["messages"] == ROW[0]
    state |= {"features": ["attached"]}
    state["files"][0] |= {"attached": [ROW]}
    path.write_text(json.dumps(state))
    refused_by_both(lake)


def test_an_integer_with_an_exponent_is_refused(lake: Path) -> None:
    path = lake / "raw" / "t" / "s" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "next_offset": 7}).replace(": 7,", ": 7e0,"))
    assert ": 7e0," in path.read_text()
    refused_by_both(lake)
