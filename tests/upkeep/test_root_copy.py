"""What people say of a lake outlives the loss of ``singerlake.json``, and of its copy."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from singerlake.format import layout
from singerlake.format.metadata.retention import Retention
from singerlake.lake import Lake
from singerlake.upkeep.annotate import Edit, annotate
from singerlake.upkeep.caches import rebuild_root, use_manifest_store
from singerlake.upkeep.policy import retentions, set_retention
from singerlake.upkeep.root_file import identify, keep_copy, root_findings
from tests.fakes import FakeClock, counting_ids
from tests.lakes import build_stream, record_line
from tests.storage.memory import MemoryStorage, Step
from tests.upkeep.migrate.moving import Killed
from tests.upkeep.shelf import SCHEMA

ROOT, COPY = layout.root_metadata_key(), layout.root_copy_key()
YEAR, MONTH = Retention(older_than="365d"), Retention(older_than="30d")


def memory() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


@pytest.fixture
def lake() -> Lake:
    """One with a tap, of which nothing is said yet."""
    storage = memory()
    lake = Lake(storage, FakeClock(), counting_ids())
    lake.lake_id()
    build_stream(lake, "t", "s", SCHEMA, [record_line("s", {"n": 1})])
    return lake


def opened(lake: Lake) -> Lake:
    """As another process sees it."""
    return Lake(lake.storage, FakeClock(), counting_ids())


def said(lake: Lake, key: str = ROOT) -> dict[str, Any]:
    stored = lake.storage.get(key)
    assert stored is not None
    return dict(json.loads(stored.body))


def say(lake: Lake) -> None:
    """A policy, a note, and what a later version wrote."""
    body = said(lake) | {"later": [1]}
    body["taps"]["t"]["cost"] = "low"
    lake.storage.put(ROOT, json.dumps(body).encode())
    set_retention(lake.storage, "t", "s", YEAR)
    annotate(lake.storage, "t", Edit(owner="Ann"))


def found(lake: Lake) -> list[tuple[str, bool]]:
    return [(finding.key, finding.problem) for finding in root_findings(lake.storage)]


WRITERS: dict[str, Callable[[Lake], object]] = {
    "a run": lambda lake: opened(lake).lake_id(),
    "rebuild": lambda lake: rebuild_root(
        lake.storage, ["t"], manifest_store="lockfile", lake_id=said(lake, COPY)["lake_id"]
    ),
    "migrate": lambda lake: use_manifest_store(lake.storage, "lockfile", lake_id=said(lake, COPY)["lake_id"]),
    "identify": lambda lake: identify(lake.storage, said(lake, COPY)["lake_id"], default_kind="lockfile"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_whoever_writes_it_anew_takes_from_the_copy_what_people_said(
    lake: Lake, writer: str, caplog: pytest.LogCaptureFixture
) -> None:
    say(lake)
    before = said(lake)
    assert said(lake, COPY) == before
    assert found(lake) == []
    lake.storage.delete(ROOT)
    assert found(lake) == [(ROOT, True)]
    # Who only reads goes by the copy.
    assert retentions(opened(lake).root_metadata(), "t") == {"s": YEAR}
    WRITERS[writer](lake)
    assert said(lake) == before
    assert "brought back from its copy" in caplog.text
    assert found(lake) == []


@pytest.mark.parametrize("copy", [None, b"{", b'{"format":1,"lake_id":"another","manifest_store":"log","taps":{}}'])
@pytest.mark.parametrize("writer", ["a run", "rebuild"])
def test_whoever_cannot_bring_it_back_says_so(
    lake: Lake, writer: str, copy: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a lake that earlier versions wrote, or one whose copy is damaged or from elsewhere."""
    say(lake)
    lake.storage.delete(ROOT)
    lake.storage.delete(COPY)
    if copy is not None:
        lake.storage.put(COPY, copy)
    if copy is not None and b"another" in copy:
        # What the streams say counts.
        key = layout.manifest_key("t", "s")
        body = said(lake, key) | {"lake_id": "own"}
        lake.storage.put(key, json.dumps(body).encode())
    if writer == "a run":
        opened(lake).lake_id()
    else:
        rebuild_root(lake.storage, ["t"], manifest_store="lockfile", lake_id="own")
    assert "the policies and notes that it had are gone" in caplog.text
    assert "singerlake policy set" in caplog.text
    assert said(lake)["taps"] in ({}, {"t": {"owner": "", "description": "", "links": {}}})
    assert found(lake) == []


def test_a_lake_that_begins_has_no_copy_and_hears_nothing(caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(memory(), FakeClock(), counting_ids())
    lake.lake_id()
    build_stream(lake, "t", "s", SCHEMA, [record_line("s", {"n": 1})])
    assert opened(lake).lake_id() == said(lake)["lake_id"]
    assert lake.storage.get(COPY) is None
    assert (caplog.text, found(lake)) == ("", [])


def test_what_was_taken_away_on_purpose_does_not_come_back(lake: Lake) -> None:
    say(lake)
    set_retention(lake.storage, "t", "s", None)
    annotate(lake.storage, "t", Edit(owner=""))
    lake.storage.delete(ROOT)
    opened(lake).lake_id()
    assert retentions(opened(lake).root_metadata(), "t") == {}
    assert said(lake)["taps"]["t"] == {"owner": "", "description": "", "links": {}, "cost": "low"}


def test_a_copy_that_is_gone_is_written_again_and_one_that_is_behind_is_found(lake: Lake) -> None:
    say(lake)
    lake.storage.delete(COPY)
    assert found(lake) == []
    assert keep_copy(lake.storage)
    assert said(lake, COPY) == said(lake)
    # An earlier version, or somebody with an editor, writes the one alone.
    body = said(lake)
    body["taps"]["t"]["retention"]["s"] = {"older_than": "30d"}
    lake.storage.put(ROOT, json.dumps(body).encode())
    assert found(lake) == [(COPY, True)]
    assert not rebuild_root(lake.storage, ["t"], manifest_store="lockfile", lake_id="any")
    assert (said(lake, COPY), found(lake)) == (body, [])
    assert not keep_copy(lake.storage)


def test_what_cannot_be_read_is_left_and_not_copied(lake: Lake) -> None:
    say(lake)
    good = said(lake, COPY)
    lake.storage.put(ROOT, b"{")
    assert not keep_copy(lake.storage)
    assert (said(lake, COPY), found(lake)) == (good, [])


def test_a_new_tap_alone_does_not_write_the_copy(lake: Lake) -> None:
    say(lake)
    copied = lake.storage.get(COPY)
    build_stream(lake, "u", "s", SCHEMA, [record_line("s", {"n": 1})])
    assert "u" in said(lake)["taps"]
    assert (lake.storage.get(COPY), found(lake)) == (copied, [])


@pytest.mark.parametrize("killed", [False, True])
def test_of_two_writers_at_any_step_the_copy_has_what_the_last_one_said(killed: bool) -> None:
    """One sets a policy; at each of its steps another one does, once; then the first goes on, or is killed."""
    for at in range(100):
        storage, steps = memory(), 0
        lake = Lake(storage, FakeClock(), counting_ids())
        lake.lake_id()
        set_retention(storage, "t", "s", Retention(keep_versions=9))

        def meanwhile(step: Step, at: int = at, storage: MemoryStorage = storage) -> None:
            nonlocal steps
            steps += 1
            if steps == at + 1:
                storage.hook = lambda _: None
                set_retention(storage, "t", "s", MONTH)
                if killed:
                    raise Killed

        storage.hook = meanwhile
        try:
            set_retention(storage, "t", "s", YEAR)
        except Killed:
            # Nobody was told that this one is set; what was told holds.
            set_retention(storage, "t", "other", MONTH)
        storage.hook = lambda _: None
        assert said(lake, COPY) == said(lake)
        assert retentions(lake.root_metadata(), "t")["s"] in (YEAR, MONTH)
        if steps <= at:
            assert at > 6
            return
    raise AssertionError("never without another writer")


@pytest.mark.parametrize("lost", [ROOT, COPY])
def test_what_was_told_holds_whichever_is_lost_then(lost: str) -> None:
    """A writer is killed at each of its steps behind one that was done; then one of the two objects is gone."""
    for at in range(100):
        storage, steps = memory(), 0
        lake = Lake(storage, FakeClock(), counting_ids())
        lake.lake_id()
        set_retention(storage, "t", "told", MONTH)

        def die(step: Step, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at + 1:
                raise Killed

        storage.hook = die
        with suppress(Killed):
            set_retention(storage, "t", "s", YEAR)
        storage.hook = lambda _: None
        storage.delete(lost)
        opened(lake).lake_id()
        keep_copy(storage)
        assert retentions(lake.root_metadata(), "t")["told"] == MONTH
        assert found(lake) == []
        if steps <= at:
            assert retentions(lake.root_metadata(), "t")["s"] == YEAR
            return
    raise AssertionError("never done")
