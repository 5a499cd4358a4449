"""Atomic runs under simulation."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partialmethod
from unittest import mock

from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.port import ManifestStore
from tests.simulation.runs.jobs import RunsAuditor, runs_cast
from tests.simulation.runs.watch import RunsWatch
from tests.simulation.stores.kinds import Kind
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World

PATIENCE = 3.0
"""Seconds; no promise needs any."""
_await = Decisions.await_or_abort


def hasty() -> AbstractContextManager[object]:
    """Writers lose their patience soon, so that many runs meet that."""
    return mock.patch.object(Decisions, "await_or_abort", partialmethod(_await, patience=PATIENCE))


def _no_store(world: World, process: Process) -> ManifestStore:
    raise AssertionError("each stream has a store of its own")


RUNS = Kind("runs-log", _no_store, RunsWatch, cast=runs_cast, auditor=RunsAuditor, patched=hasty)
