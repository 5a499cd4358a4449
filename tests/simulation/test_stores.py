"""Every manifest store through some hundred simulated runs, each bad in its own way."""

from __future__ import annotations

import pytest

from tests.simulation.__main__ import replay
from tests.simulation.run import simulate
from tests.simulation.stores.all import STORES

SEEDS = [
    range(5),
    pytest.param(range(5, 10), marks=pytest.mark.thorough),
    *[pytest.param(range(first, first + 58), marks=pytest.mark.soak) for first in range(10, 300, 58)],
]


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: f"from {seeds.start}")
@pytest.mark.parametrize("kind", STORES)
def test_no_promise_is_broken(kind: str, seeds: range) -> None:
    for seed in seeds:
        verdict = simulate(STORES[kind], seed)
        if verdict.violation is not None:
            pytest.fail(f"{verdict.violation}\n{replay(verdict)}", pytrace=False)
