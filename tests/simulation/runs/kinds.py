"""Atomic runs under simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partialmethod
from typing import Any
from unittest import mock

from singerlake.manifests.atomic import view
from singerlake.manifests.atomic.decisions import Decisions
from singerlake.manifests.port import ManifestStore
from tests.simulation.runs.jobs import RunsAuditor, runs_cast
from tests.simulation.runs.watch import RunsWatch
from tests.simulation.stores.kinds import Kind
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

PATIENCE = 3.0
"""Seconds; no promise needs more than none."""
_await = Decisions.await_or_abort


class _InTurn:
    """Stands in for a pool of threads: one call after the other, each where the simulation sees it."""

    def __init__(self, *arguments: object, **named: object) -> None: ...

    def __enter__(self) -> _InTurn:
        return self

    def __exit__(self, *error: object) -> None: ...

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(work, items)


def simulated() -> AbstractContextManager[object]:
    """Views read decisions one after the other, and writers lose their patience soon, so that many runs meet that."""
    held = ExitStack()
    held.enter_context(mock.patch.object(view, "ThreadPoolExecutor", _InTurn))
    held.enter_context(mock.patch.object(Decisions, "await_or_abort", partialmethod(_await, patience=PATIENCE)))
    return held


def _no_store(world: World, process: Process) -> ManifestStore:
    raise AssertionError("each stream has a store of its own")


RUNS = Kind("runs-log", _no_store, RunsWatch, cast=runs_cast, auditor=RunsAuditor, patched=simulated)
