"""Every manifest store through some hundred simulated runs, each bad in its own way."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import replay
from tests.simulation.run import simulate
from tests.simulation.stores.all import STORES

SEEDS = 300
BATCH = 30


@pytest.mark.sampled(first=2)
@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
@pytest.mark.parametrize("kind", STORES)
def test_no_promise_is_broken(kind: str, first: int) -> None:
    for seed in range(first, first + BATCH):
        verdict = simulate(STORES[kind], seed)
        if verdict.violation is not None:
            pytest.fail(f"{verdict.violation}\n{replay(verdict)}", pytrace=False)
