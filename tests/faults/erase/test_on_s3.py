"""Erasures, expiries and the collections behind them that are killed at any of their steps while the lake is on S3."""

from __future__ import annotations

import gzip

import pytest

from tests.faults.erase.test_erase import is_meant, killed_everywhere
from tests.faults.support.crew import Crew
from tests.faults.support.network import Network
from tests.faults.support.places import of_kinds
from tests.faults.support.worker import OLD, Point
from tests.faults.test_collect import NOTHING, finish, left
from tests.faults.test_vacuum import filled

pytestmark = [
    of_kinds(lambda kind: kind.name in ("lockfile", "log")),
    pytest.mark.thorough,
    pytest.mark.in_turn("kind"),
]


CHANGES = r"^storage\.(put|upload|compose|delete)|^store\.(commit|publish)"
"""Calls that change something, one request or several. Between two of them nothing else changes."""


def held(crew: Crew) -> dict[int, bytes]:
    """Every message by its offset, as any program reads it that knows the manifest and gzip."""
    state = crew.place.state()
    assert state is not None
    found: dict[int, bytes] = {}
    for file in state.files:
        stored = crew.place.storage.get(crew.place.prefix + file.path)
        assert stored is not None
        lines = [line for line in gzip.decompress(stored.body).splitlines() if b'"SCHEMA"' not in line]
        found |= dict(enumerate(lines, file.offset))
    return found


def killed_in_collection(crew: Crew, task: str) -> None:
    """Kill the collector at each step of deleting what an erasure or an expiry left."""

    def due(here: Crew) -> dict[int, bytes]:
        filled(here)
        here.start(task, task=task).wait()
        here.start("showing", task="gc").wait()
        assert left(here) != NOTHING
        return held(here)

    def steps(here: Crew) -> int:
        due(here)
        return here.start("gc", Point(CHANGES, "count"), task="gc").counted

    def at(here: Crew, step: int) -> bool:
        before = due(here)
        met = here.start("gc", Point(CHANGES, "kill", nth=step), task="gc").met_its_point()
        assert held(here) == before
        finish(here.start)
        assert held(here) == before
        assert left(here) == NOTHING
        bodies = [body for key, body in here.place.objects().items() if key.startswith(here.place.prefix)]
        assert task != "erase" or not any(is_meant(_text(body)) for body in bodies)
        return met

    crew.at_each_step(steps, at)


def _text(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def test_an_erasure_killed_at_any_change_has_lost_nothing_and_is_run_again(bucket: Network) -> None:
    killed_everywhere(bucket.crew, CHANGES)


def test_an_expiry_killed_at_any_change_is_whole_or_nothing_and_is_run_again(bucket: Network) -> None:
    def steps(here: Crew) -> int:
        filled(here)
        return here.start("expire", Point(CHANGES, "count"), task="expire").counted

    def at(here: Crew, step: int) -> bool:
        before = dict(enumerate(filled(here)))
        after = {offset: line for offset, line in before.items() if offset >= OLD}
        met = here.start("expire", Point(CHANGES, "kill", nth=step), task="expire").met_its_point()
        assert held(here) in (before, after)
        here.start("again", task="expire").wait()
        assert held(here) == after
        finish(here.start)
        assert (held(here), left(here)) == (after, NOTHING)
        return met

    bucket.crew.at_each_step(steps, at)


@pytest.mark.parametrize("task", ["erase", pytest.param("expire", marks=pytest.mark.soak)])
def test_a_collection_behind_it_that_is_killed_leaves_nothing_once_it_is_run_again(bucket: Network, task: str) -> None:
    killed_in_collection(bucket.crew, task)
