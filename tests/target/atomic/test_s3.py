"""The target with ``atomic_run`` on S3: killed at its steps, and beside others while storage is in trouble."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import random_id
from singerlake.lake import Lake
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.verify import verify_metadata
from tests.processes.killed import Killed
from tests.processes.plugins import Plugin
from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy, http_fault_proxy
from tests.servers.s3 import S3Server
from tests.target.atomic.test_atomic_run import MOMENTS as ON_A_LOCAL_DISK
from tests.target.support import TAP, configured, environment, ingest, records, schema, state, text

STREAMS = ("orders", "users")
MOMENTS = {
    moment: (place.replace("local.storage:LocalStorage", "cloud.storage:CloudStorage"), side)
    for moment, (place, side) in ON_A_LOCAL_DISK.items()
}
OF_A_RUN = 3
"""Records that a run brings to each stream."""
TROUBLE: dict[str, Any] = {
    "sent twice": lambda proxy: proxy.twice("^(PUT|DELETE) ", times=ALWAYS, probability=0.2, seed=1),
    "busy after the effect": lambda proxy: proxy.error(
        "^(PUT|DELETE) ", status=503, code="SlowDown", after=True, times=ALWAYS, probability=0.2, seed=2
    ),
    "without a reply": lambda proxy: proxy.drop("^(PUT|DELETE) ", after=True, times=ALWAYS, probability=0.2, seed=3),
}


@pytest.fixture
def root(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake on S3, which the environment's credentials reach."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.create_bucket(f'atomic-{random_id()}')}/lake"


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[FaultProxy]:
    with http_fault_proxy(s3.endpoint_url) as proxy:
        yield proxy


def settings(s3: S3Server, endpoint: str | None = None, *, atomic: bool = True) -> dict[str, Any]:
    reach = s3.config(s3_endpoint_url=endpoint or s3.endpoint_url)
    return {"atomic_run": atomic, "manifest_store": "log", "max_file_records": 2, **reach}


def ids(run: int) -> range:
    """The records that a run brings to each stream."""
    return range(run * 100, run * 100 + OF_A_RUN)


def brought(run: int, streams: tuple[str, ...] = STREAMS) -> bytes:
    """The input of a run."""
    lines = [
        *map(schema, streams),
        *(line for id in ids(run) for stream in streams for line in records(id, stream=stream)),
    ]
    return text([*lines, state({"run": run})])


def viewed(lake: Lake, **options: Any) -> dict[str, list[int]]:
    """The records of each stream, in one view."""
    if TAP not in lake.taps():
        return {}
    found = {}
    for name, view in lake.snapshot(TAP, **options).items():
        reader = (
            lake.stream(TAP, name).to_arrow(to_offset=view.end, lineage=view.manifest.lineage) if view.end else None
        )
        found[name] = reader.read_all()["id"].to_pylist() if reader else []
    return found


def runs_in(found: dict[str, list[int]], atomic: set[int]) -> set[int]:
    """The runs that a view has. Of those in ``atomic`` it has everything, in order."""
    runs = {id // 100 for kept in found.values() for id in kept}
    for run in runs & atomic:
        for stream in STREAMS:
            assert [id for id in found.get(stream, []) if id // 100 == run] == list(ids(run)), (run, stream, found)
    return runs


@pytest.mark.thorough
@pytest.mark.sampled(moment=2)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_target_that_is_killed_leaves_all_of_its_run_or_nothing(
    s3: S3Server, root: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A minute for each run that was killed before its decision.
    monkeypatch.setitem(Decisions.await_or_abort.__kwdefaults__ or {}, "patience", 0.1)
    place, side = MOMENTS[moment]
    outcomes = set()
    for calls in range(1, 40):
        own = f"{root}/{calls}"
        # What is put while storage is tried out is not the run's.
        about = "raw/" if place.endswith(".put") else ""
        whole = {"lake_root": own, "tap_id": TAP, **settings(s3)}
        asked = Killed(place=place, side=side, calls=calls, about=about, config=whole)
        done = asked.run(brought(1), env=environment())
        lake = Lake.open(own)
        there = runs_in(viewed(lake), {1})
        outcomes.add(1 in there)
        assert 1 in there or not done.stdout
        if done.returncode == 0:
            assert json.loads(done.stdout) == {"run": 1}
            break
        # What comes next settles what was left, whether it is one commit itself or not.
        assert ingest(own, brought(2), **settings(s3, atomic=calls % 2 == 0)) == ['{"run": 2}']
        found = viewed(lake)
        assert runs_in(found, {1, 2}) == {*there, 2}
        assert all(kept == [id for run in sorted({*there, 2}) for id in ids(run)] for kept in found.values())
        assert verify_metadata(lake.storage) == ()
    else:
        raise AssertionError("the run never ended by itself")
    assert True in outcomes


@pytest.mark.in_turn("trouble")
@pytest.mark.parametrize("trouble", TROUBLE)
def test_targets_at_once_are_each_whole_in_every_view(
    tmp_path: Path, s3: S3Server, root: str, proxy: FaultProxy, trouble: str
) -> None:
    fault = TROUBLE[trouble](proxy)
    started: dict[int, Plugin] = {}
    for run in range(1, 7):
        folder = tmp_path / str(run)
        folder.mkdir()
        orders = STREAMS if run % 2 else STREAMS[::-1]
        # Every third one is no commit of its own.
        argv = configured(root, folder, **settings(s3, proxy.url, atomic=run % 3 != 0))
        with (folder / "log").open("wb") as log:
            started[run] = Plugin("target", argv, env=environment(), stderr=log)
        pipe = started[run].stdin
        assert pipe is not None
        pipe.write(brought(run, orders))
        pipe.close()
    atomic = {run for run in started if run % 3 != 0}
    lake, looks = Lake.open(root), 0
    while any(target.poll() is None for target in started.values()):
        runs_in(viewed(lake), atomic)
        looks += 1
    for run, target in started.items():
        assert target.wait() == 0, (tmp_path / str(run) / "log").read_text()
    proxy.calm()
    assert looks > 1
    assert fault.hits > 10
    found = viewed(lake)
    assert runs_in(found, set(started)) == set(started)
    assert all(set(Counter(kept).values()) == {1} for kept in found.values())
    assert verify_metadata(lake.storage) == ()
    commits, before = lake.commits(TAP), set[int]()
    assert len(commits) == len(atomic)
    for commit in commits:
        there = runs_in(viewed(lake, as_of=commit.name), atomic) & atomic
        assert len(there - before) == 1
        assert before <= there
        before = there
