"""Manifests that can be read and are not right: each command says what is wrong and goes on with the other streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
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


def test_labels_that_are_gone_come_back_without_taking_another_s(run: Run, lake: Lake) -> None:
    edit(lake, lambda manifest: manifest["versions"].pop(manifest["files"][0]["version"]))
    assert run("rebuild", "--yes", lake.storage.url).exit_code == 0
    assert sorted(json.loads(body_of(lake, FLIGHTS))["versions"].values()) == ["v1", "v2"]
    assert run("verify", lake.storage.url).exit_code == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [(("versions",), 1), (("export",), 1), (("diff", "v1", "v2", "--tap=t", "--stream=flights"), 1)],
)
def test_a_version_without_a_schema_is_named_with_the_next_step(
    run: Run, lake: Lake, command: tuple[str, ...], code: int
) -> None:
    edit(lake, lambda manifest: manifest["schemas"].clear())
    name, *rest = command
    result = run(name, lake.storage.url, *rest)
    assert result.exit_code == code
    assert "no schema for a version" in result.output
    assert "singerlake rebuild" in result.output


def test_versions_shows_the_other_streams(run: Run, lake: Lake) -> None:
    lake.storage.put(FLIGHTS, b"{")
    result = run("versions", lake.storage.url)
    assert result.exit_code == 1
    assert "a/b" in result.stdout
    assert "manifest: " in result.output
    said = json.loads(run("versions", lake.storage.url, "--json").stdout)
    assert [finding["kind"] for finding in said["findings"]] == ["manifest"]
    assert {each["stream"]: len(each["versions"]) for each in said["streams"]} == {"a/b": 1, "flights": 0, "x": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["files"][1].update(offset=5),
        lambda manifest: manifest.update(next_offset=3),
        lambda manifest: manifest["files"].append(manifest["files"][0]),
    ],
    ids=["offset", "next offset", "twice"],
)
def test_rebuild_says_what_it_does_not_mend(run: Run, lake: Lake, change: Change) -> None:
    edit(lake, change)
    result = run("rebuild", "--yes", lake.storage.url)
    assert result.exit_code == 1
    assert "offsets: " in result.output
    assert run("rebuild", "--yes", lake.storage.url, "--discard-manifest").exit_code == 0
    assert run("verify", lake.storage.url).exit_code == 0


def test_a_discard_that_drops_a_listed_file_says_so(run: Run, lake: Lake) -> None:
    file = lake.stream("t", "flights").snapshot().files[0]
    place = Path(lake.storage.url) / layout.stream_prefix("t", "flights")
    (place / file.path).rename(place / Path(file.path).name)
    result = run("rebuild", lake.storage.url, "--discard-manifest", "--dry-run")
    assert result.exit_code == 1
    assert f"missing: {layout.stream_prefix('t', 'flights')}{file.path}" in result.output


def test_a_discard_of_what_is_right_changes_no_file(run: Run, lake: Lake) -> None:
    edit(lake, lambda manifest: [file.update(first="2020-01-01T00:00:00.000000Z") for file in manifest["files"]])
    result = run("rebuild", "--yes", lake.storage.url, "--discard-manifest", "--tap=t", "--stream=flights")
    assert "was changed (same files, under a new lineage)" in result.stdout


@pytest.mark.parametrize("store", ["postgres", "nosuch"])
@pytest.mark.parametrize("command", ["rebuild", "vacuum"])
def test_a_stream_whose_store_cannot_be_reached_keeps_none_of_the_others_back(
    run: Run, lake: Lake, store: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SINGERLAKE_POSTGRES_URL", raising=False)
    edit(lake, lambda manifest: manifest.update(store=store))
    result = run(command, lake.storage.url, "--yes")
    assert result.exit_code == 1
    assert "manifest: raw/t/flights/" in result.output
    assert store in result.output
    assert "u/x: " in result.stdout
