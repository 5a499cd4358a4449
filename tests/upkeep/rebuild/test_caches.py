"""Catalogue and root metadata made again: caches follow the streams, annotations never go."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from singerlake.errors import CorruptObjectError, TooManyConflictsError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.format.metadata import root
from singerlake.format.metadata.root import TapNotes
from singerlake.lake import Lake
from singerlake.upkeep.caches import rebuild_catalogue, rebuild_root
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream, record_line
from tests.storage.memory import MemoryStorage, Step
from tests.upkeep.shelf import OTHER, SCHEMA

ROOT, CATALOGUE = layout.root_metadata_key(), layout.catalogue_key("t")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path))
    for name, schema in (("a", SCHEMA), ("b", OTHER)):
        build_stream(lake, "t", name, schema, [record_line(name, {"n": 1})])
    return lake


def body(lake: Lake, key: str) -> bytes:
    found = lake.storage.get(key)
    assert found is not None
    return found.body


def catalogue_again(lake: Lake, *names: str, whole: bool = True, dry_run: bool = False) -> bool:
    manifests = [lake.stream("t", name).snapshot() for name in names]
    return rebuild_catalogue(lake.storage, "t", manifests, whole=whole, dry_run=dry_run)


def root_again(lake: Lake, *taps: str, dry_run: bool = False) -> bool:
    return rebuild_root(lake.storage, taps, manifest_store="lockfile", lake_id=lake.ids(), dry_run=dry_run)


@pytest.mark.parametrize("before", [None, b"", b"{", b'{"streams":[]}'])
def test_a_lost_or_damaged_catalogue_comes_back(lake: Lake, before: bytes | None) -> None:
    good = body(lake, CATALOGUE)
    lake.storage.delete(CATALOGUE)
    if before is not None:
        lake.storage.put(CATALOGUE, before)
    assert catalogue_again(lake, "a", "b")
    assert body(lake, CATALOGUE) == good


def test_streams_that_are_gone_leave_the_catalogue_only_when_all_were_looked_at(lake: Lake) -> None:
    assert not catalogue_again(lake, "a", whole=False)
    assert catalogue_again(lake, "a", whole=True)
    assert [item["stream"] for item in json.loads(body(lake, CATALOGUE))["streams"]] == ["a"]


def test_annotations_and_taps_without_data_stay(lake: Lake) -> None:
    before = root.from_json(body(lake, ROOT), key=ROOT)
    notes = {"t": TapNotes(owner="ada", links={"wiki": "x"}), "old": TapNotes(description="archived")}
    annotated = msgspec.structs.replace(before, taps=notes)
    lake.storage.put(ROOT, root.to_json(annotated))
    assert not root_again(lake, "t")
    assert root_again(lake, "t", "u")
    made = root.from_json(body(lake, ROOT), key=ROOT)
    assert made == msgspec.structs.replace(annotated, taps={**notes, "u": TapNotes()})


def test_fields_that_nobody_here_knows_stay(lake: Lake) -> None:
    before = json.loads(body(lake, ROOT))
    before["taps"]["t"]["contact"] = before["note"] = "ada@example.org"
    lake.storage.put(ROOT, json.dumps(before).encode())
    assert root_again(lake, "t", "u")
    after = json.loads(body(lake, ROOT))
    del after["taps"]["u"]
    assert after == before


def test_root_metadata_in_somebodys_own_spelling_is_not_rewritten(lake: Lake) -> None:
    spelled = json.dumps(json.loads(body(lake, ROOT)), indent=8).encode()
    lake.storage.put(ROOT, spelled)
    assert not root_again(lake, "t")
    assert body(lake, ROOT) == spelled


@pytest.mark.parametrize(("damaged", "error"), [(b"{", CorruptObjectError), (b'{"format":99}', UnsupportedFormatError)])
def test_root_metadata_that_cannot_be_read_is_left_alone(lake: Lake, damaged: bytes, error: type[Exception]) -> None:
    lake.storage.put(ROOT, damaged)
    with pytest.raises(error):
        root_again(lake, "t")
    assert body(lake, ROOT) == damaged


def test_an_annotation_made_meanwhile_stays() -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    theirs = msgspec.structs.replace(
        root.new(lake_id="l", manifest_store="lockfile"), taps={"t": TapNotes(owner="ada")}
    )

    def annotate(step: Step) -> None:
        if step.operation == "put" and not step.done:
            storage.hook = lambda _: None
            storage.put(ROOT, root.to_json(theirs))

    storage.hook = annotate
    assert rebuild_root(storage, ["u"], manifest_store="lockfile", lake_id="made")
    found = storage.get(ROOT)
    assert found is not None
    assert root.from_json(found.body, key=ROOT).taps == {"t": TapNotes(owner="ada"), "u": TapNotes()}


def test_others_who_never_stop_are_an_error() -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    counter = iter(range(1000))

    def busy(step: Step) -> None:
        if step.operation == "put" and not step.done:
            storage.hook = lambda _: None
            storage.put(ROOT, root.to_json(root.new(lake_id=str(next(counter)), manifest_store="lockfile")))
            storage.hook = busy

    storage.hook = busy
    with pytest.raises(TooManyConflictsError, match=r"singerlake\.json"):
        rebuild_root(storage, ["u"], manifest_store="lockfile", lake_id="made")
