"""All of it at once: writers and trims that are killed and put to sleep wherever a seed says, until all is written."""

from __future__ import annotations

import os
import random

import pytest

from tests.faults.crew import Crew, Worker
from tests.faults.worker import Point

ANYWHERE = {"kill": r"^(storage|store|dynamodb|postgres|worker)\.", "stop": r"^(storage|store|dynamodb|worker)\."}
"""Not in the middle of a transaction of PostgreSQL, which others then wait for."""
WRITERS = 3
TRIMS = 2
SEEDS = [int(seed) for seed in os.environ.get("SINGERLAKE_TEST_CHAOS_SEEDS", "1").split(",")]
"""More of them than one, separated by commas, are for looking for trouble rather than for seeing that there is none."""


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_every_file_is_listed_once(crew: Crew, seed: int) -> None:
    chance = random.Random(seed)

    def hit(name: str, task: str) -> Worker:
        actions = [chance.choice(("kill", "stop")) for _ in range(2)]
        points = [
            Point(ANYWHERE[action], action, after=chance.random() < 0.5, nth=chance.randint(1, 120))
            for action in actions
        ]
        return crew.start(name, *points, task=task, files=3, schema=chance.randint(0, 1))

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
