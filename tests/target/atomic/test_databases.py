"""The target with ``atomic_run`` on lakes whose streams are in a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from singerlake.adapters import ATOMIC_STORES, ON_THE_LAKE
from singerlake.errors import InvalidMessageError, SettingError
from singerlake.format.state.features import features_of
from singerlake.lake import Lake
from singerlake.stores.dynamodb import store as dynamodb
from singerlake.upkeep.verify import verify_metadata
from tests.processes.killed import Killed
from tests.target.support import TAP, config, environment, ingest, manifest, records, schema, state, text

DATABASES = [kind for kind in ATOMIC_STORES if kind not in ON_THE_LAKE]
STREAMS = ("users", "orders", "items")
LINES = [
    *(schema(stream) for stream in STREAMS),
    *(line for place, stream in enumerate(STREAMS) for line in records(*range(3 + place), stream=stream)),
    state({"at": 1}),
]
WHOLE = {"users": 3, "orders": 4, "items": 5}
MOMENTS = {
    "before an upload": ("singerlake.storage.local.storage:LocalStorage.upload", "before"),
    "before something is put": ("singerlake.storage.local.storage:LocalStorage.put", "before"),
    "after something is put": ("singerlake.storage.local.storage:LocalStorage.put", "after"),
    "before the commit": ("singerlake.stores.{kind}.store:{store}.commit_together", "before"),
    "after the commit": ("singerlake.stores.{kind}.store:{store}.commit_together", "after"),
    "before the decision": ("singerlake.stores.atomic.decisions:Decisions.decide", "before"),
    "after the decision": ("singerlake.stores.atomic.decisions:Decisions.decide", "after"),
    "before a stream is published": ("singerlake.stores.atomic.commit_run:_publish", "before"),
    "before it is said to be shown": ("singerlake.stores.atomic.decisions:Decisions.say_shown", "before"),
    "before the STATE": ("target_singerlake.state:StateOutput.write", "before"),
}
STORES = {"postgres": "PostgresStore", "dynamodb": "DynamoStore"}

Config = Callable[[str], dict[str, str]]


@pytest.fixture(params=DATABASES)
def atomic(request: pytest.FixtureRequest, store_config: Config) -> dict[str, Any]:
    """The settings of an atomic run in each database."""
    return {"atomic_run": True, "max_file_records": 2, **store_config(request.param)}


def viewed(root: Path) -> dict[str, int]:
    """What a reader of the lake alone sees of the streams that are there."""
    lake = Lake.open(str(root))
    if TAP not in lake.taps():
        return {}
    return {name: view.end for name, view in lake.snapshot(TAP).items() if view.end}


def test_a_run_is_one_commit_over_its_streams(tmp_path: Path, atomic: dict[str, Any]) -> None:
    assert ingest(tmp_path, LINES, **atomic) == ['{"at": 1}']
    assert viewed(tmp_path) == WHOLE
    (commit,) = Lake.open(str(tmp_path)).commits(TAP)
    assert {name: brought.messages for name, brought in commit.streams.items()} == WHOLE
    for stream in STREAMS:
        found = manifest(tmp_path, stream)
        assert (features_of(found), found.settled) == (("atomic",), commit.name)
        assert [(run.id, run.status) for run in found.runs] == [(commit.run, "finished")]
    assert verify_metadata(Lake.open(str(tmp_path)).storage) == ()


def test_a_plain_run_and_another_atomic_one_go_on(tmp_path: Path, atomic: dict[str, Any]) -> None:
    for settings in (atomic, {**atomic, "atomic_run": False}, atomic):
        assert ingest(tmp_path, LINES, **settings) == ['{"at": 1}']
    assert viewed(tmp_path) == {stream: 3 * count for stream, count in WHOLE.items()}
    assert len(Lake.open(str(tmp_path)).commits(TAP)) == 2


def test_of_a_run_that_fails_nothing_is_there(tmp_path: Path, atomic: dict[str, Any]) -> None:
    with pytest.raises((InvalidMessageError, SystemExit)):
        ingest(tmp_path, [*LINES, b"{", *records(1)], **atomic)
    assert viewed(tmp_path) == {}
    assert Lake.open(str(tmp_path)).commits(TAP) == []


def test_more_streams_than_dynamodb_commits_at_once_end_the_run_before_all_is_uploaded(
    tmp_path: Path, store_config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dynamodb, "MOST_STREAMS", 2)
    settings = {"atomic_run": True, **store_config("dynamodb")}
    with pytest.raises((SettingError, SystemExit)) as raised:
        ingest(tmp_path, LINES, **settings)
    assert "atomic_run commits at most 2 streams at once in dynamodb" in f"{raised.value} {caplog.text}"
    assert viewed(tmp_path) == {}
    assert len(list(tmp_path.rglob("*.singer.gz"))) <= 2
    two = [line for line in LINES if b'"items"' not in line]
    assert ingest(tmp_path, two, **settings) == ['{"at": 1}']
    assert viewed(tmp_path) == {"users": 3, "orders": 4}


@pytest.mark.thorough
@pytest.mark.crossed("atomic", "moment")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_target_that_is_killed_leaves_all_of_its_run_or_nothing_and_the_next_one_shows_what_there_is(
    tmp_path: Path, atomic: dict[str, Any], moment: str
) -> None:
    place, side = MOMENTS[moment]
    kind = atomic["manifest_store"]
    outcomes = set()
    for calls in range(1, 60):
        root = tmp_path / str(calls)
        asked = Killed(
            place=place.format(kind=kind, store=STORES[kind]), side=side, calls=calls, config=config(root, **atomic)
        )
        done = asked.run(text(LINES), env=environment())
        found = viewed(root) if root.exists() else {}
        assert found in ({}, WHOLE)
        assert found or not done.stdout
        if done.returncode == 0:
            assert done.stdout == b'{"at": 1}\n'
            break
        assert ingest(root, LINES, **atomic) == ['{"at": 1}']
        again = viewed(root)
        times = {again[stream] / count for stream, count in WHOLE.items()}
        assert times in ({1}, {2})
        assert times == {2} or not found
        assert len(Lake.open(str(root)).commits(TAP)) == next(iter(times))
        outcomes.add((bool(found), *times))
    else:
        raise AssertionError("the run never ended by itself")
    assert outcomes, json.dumps(moment)
