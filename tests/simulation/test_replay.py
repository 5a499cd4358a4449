"""A seed, or the schedule that it made, replays a run to the last step, on any machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation import __main__ as command
from tests.simulation.faulty.all import FAULTY
from tests.simulation.run import simulate
from tests.simulation.stores.all import STORES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sampled(kind=10)
@pytest.mark.parametrize("kind", STORES)
def test_a_seed_or_the_schedule_that_it_made_gives_the_same_run_every_time(kind: str) -> None:
    once, twice = (simulate(STORES[kind], 7, trace=True) for _ in range(2))
    assert once == twice
    assert len(once.trace) > 20
    assert simulate(STORES[kind], 7, schedule=once.schedule, trace=True).trace == once.trace
    assert once.trace != simulate(STORES[kind], 8, trace=True).trace


@pytest.mark.thorough
def test_a_run_is_the_same_whatever_the_order_in_which_sets_are_gone_through() -> None:
    def trace(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--store", "all", "--seed", "11", "--trace"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert trace("1") == trace("2")


@pytest.mark.parametrize("kind", STORES)
def test_the_dullest_schedule_ends_with_all_delivered(kind: str) -> None:
    verdict = simulate(STORES[kind], 0, schedule=[], trace=True)
    assert verdict.violation is None
    assert not any("FAULT" in line or "STALLS" in line or "CRASHES" in line for line in verdict.trace)
    done = "put published/t/_table.json: Written" if kind.startswith("tables") else "is committed"
    assert any(done in line for line in verdict.trace)


@settings(max_examples=60)
@given(schedule=st.lists(st.integers(0, 999), max_size=400), kind=st.sampled_from(sorted(STORES)))
def test_no_schedule_that_hypothesis_thinks_of_breaks_a_promise(schedule: list[int], kind: str) -> None:
    verdict = simulate(STORES[kind], 0, schedule=schedule)
    assert verdict.violation is None, verdict.violation


def test_the_command_reports_each_failing_seed_with_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--store", "publishes-other", "--seeds", "40"]) == 1
    shown = capsys.readouterr()
    assert "publishes-other: 40/40 seeds" in shown.err
    replayed = next(line for line in shown.out.splitlines() if "python -m tests.simulation" in line)
    arguments = replayed.split("tests.simulation ")[1].split()
    assert command.main(arguments) == 1
    assert "VIOLATION: manifest.json went from" in capsys.readouterr().out


def test_the_command_is_content_with_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--store", "lockfile", "--seeds", "3", "--first", "5"]) == 0
    assert command.main(["--store", "lockfile", "--seed", "5"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("holds")
    assert "publishes-other" in FAULTY
