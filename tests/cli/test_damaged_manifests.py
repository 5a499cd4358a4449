"""Manifests that can be read and are not right: each command says what is wrong and goes on with the other streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.upkeep.verify.test_verify import body_of

FLIGHTS = layout.manifest_key("t", "flights")
Change = Callable[[dict[str, Any]], object]


def edit(lake: Lake, change: Change) -> None:
    manifest = json.loads(body_of(lake, FLIGHTS))
    change(manifest)
    lake.storage.put(FLIGHTS, json.dumps(manifest).encode())


def newest(manifest: dict[str, Any]) -> str:
    version: str = manifest["files"][-1]["version"]
    return version


def other_schema(manifest: dict[str, Any]) -> None:
    manifest["schemas"][newest(manifest)]["schema"] = {"properties": {"evil": {}}}


WRONG_SCHEMAS: dict[str, Change] = {
    "none": lambda manifest: manifest["schemas"].clear(),
    "the newest is gone": lambda manifest: manifest["schemas"].pop(newest(manifest)),
    "the oldest is gone": lambda manifest: manifest["schemas"].pop(manifest["files"][0]["version"]),
    "another one's": other_schema,
    "no schema": lambda manifest: manifest["schemas"][newest(manifest)].update(schema=5),
}


@pytest.mark.parametrize("change", WRONG_SCHEMAS.values(), ids=WRONG_SCHEMAS.keys())
def test_verify_sees_a_wrong_schema_and_rebuild_takes_it_from_the_files(run: Run, lake: Lake, change: Change) -> None:
    right = json.loads(body_of(lake, FLIGHTS))
    catalogue = body_of(lake, layout.catalogue_key("t"))
    edit(lake, change)
    found = run("verify", lake.storage.url)
    assert found.exit_code == 1
    assert "version: " in found.output
    done = run("rebuild", "--yes", lake.storage.url)
    assert done.exit_code == 0, done.output
    assert "t/flights: was changed (same files)" in done.stdout
    after = json.loads(body_of(lake, FLIGHTS))
    for held in (*right["schemas"].values(), *after["schemas"].values()):
        # By the clock of the run that brought it, or of the file.
        held.pop("first_seen")
    assert after["schemas"] == right["schemas"]
    assert (after["files"], after["versions"], after["lineage"]) == (
        right["files"],
        right["versions"],
        right["lineage"],
    )
    assert body_of(lake, layout.catalogue_key("t")) == catalogue
    assert run("verify", lake.storage.url).exit_code == 0
