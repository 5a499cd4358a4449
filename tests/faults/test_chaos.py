"""All of it at once: writers and trims that are killed and put to sleep wherever a seed says, over a network that loses
and refuses as it says, until all is written."""

from __future__ import annotations

import os
import random

import pytest

from singerlake.adapters import MANIFEST_STORES
from tests.faults.support.crew import Crew, Worker
from tests.faults.support.network import Network
from tests.faults.support.places import KINDS, Kind, Place
from tests.faults.support.worker import Point

pytestmark = pytest.mark.in_turn("kind")

ANYWHERE = {"kill": r"^(storage|store|dynamodb|postgres|worker)\.", "stop": r"^(storage|store|dynamodb|worker)\."}
"""Not in the middle of a transaction of PostgreSQL, which others then wait for."""
WRITERS = 3
TRIMS = 2
SEEDS = [int(seed) for seed in os.environ.get("SINGERLAKE_TEST_CHAOS_SEEDS", "1").split(",")]
"""More of them than one, separated by commas, are for looking for trouble rather than for seeing that there is none."""
SERVERS = {"lake": (r"/t/s/", 500, "InternalError"), "dynamodb": (r"DynamoDB", 500, "InternalServerError")}
"""What requests a server's trouble is with, and how it then answers."""


def test_no_store_is_forgotten() -> None:
    assert set(KINDS) == set(MANIFEST_STORES)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_to_processes_every_file_is_listed_once(crew: Crew, seed: int) -> None:
    play(crew, random.Random(seed), crew.place)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_to_processes_and_requests_every_file_is_listed_once(
    network: Network, kind: Kind, seed: int
) -> None:
    proxy = network.proxy
    if kind.on == "postgres":
        for after in (False, True):
            proxy.drop("^COMMIT", after=after, probability=0.1, times=5, seed=seed + after)
        proxy.error("^COMMIT", code="40001", probability=0.1, times=5, seed=seed)
    else:
        matches, status, code = SERVERS[kind.on]
        for after in (False, True):
            proxy.drop(matches, after=after, probability=0.03, times=10, seed=seed + after)
            proxy.error(matches, after=after, status=status, code=code, probability=0.02, times=10, seed=seed + after)
        proxy.late(matches.replace("/t/s/", r"^PUT .*/t/s/"), probability=0.02, times=3, seed=seed)
    play(network.crew, random.Random(seed), network.reached)
    # What was still on its way arrives now.
    before = network.crew.last
    proxy.calm()
    assert network.crew.check() == before


def play(crew: Crew, chance: random.Random, place: Place) -> None:
    def hit(name: str, task: str) -> Worker:
        actions = [chance.choice(("kill", "stop")) for _ in range(2)]
        points = [
            Point(ANYWHERE[action], action, after=chance.random() < 0.5, nth=chance.randint(1, 120))
            for action in actions
        ]
        return crew.start(name, *points, place=place, task=task, files=3, schema=chance.randint(0, 1))

    running = [hit(f"writer{number}", "write") for number in range(WRITERS)]
    asleep: list[Worker] = []
    left = TRIMS
    while running or asleep:
        if asleep and (not running or chance.random() < 0.3):
            running.append(asleep.pop(chance.randrange(len(asleep))).go_on())
        worker = running.pop(chance.randrange(len(running)))
        task = worker.job.task
        met = worker.met_its_point()
        if met and worker.is_stopped():
            asleep.append(worker)
        elif met and task == "write":
            running.append(hit(worker.job.name, task))
        elif task == "write" and left:
            left -= 1
            running.append(hit(f"trimmer{left}", "trim"))
    assert crew.count() == 3 * WRITERS
