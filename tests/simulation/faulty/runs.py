"""Atomic runs with a known hole each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.format.decision import Brought, Decision, aborted, commit_name, decision_to_json
from singerlake.format.state import fold, prepared
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import PrepareFiles, Transaction
from singerlake.stores.atomic import commit_run, view
from singerlake.stores.atomic.commit_run import LogCommit
from singerlake.stores.atomic.decisions import Decisions, Listed
from singerlake.stores.atomic.view import StreamView
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.port import Loaded, Outdated
from tests.fakes import START
from tests.simulation.runs import jobs
from tests.simulation.runs.kinds import RUNS, hasty
from tests.simulation.stores.kinds import Kind

_prepare_all = LogCommit._prepare
_commit = NumberedStore.commit
_get = Decisions.get
_prepare = prepared.prepare


def _the_first_alone(self: LogCommit, name: str, *, waiting: bool) -> dict[str, Brought] | None:
    """Decides once the first stream is prepared."""
    first_alone = replace(self._run, shares=self._run.shares[:1])
    return _prepare_all(LogCommit(first_alone), name, waiting=waiting)


def _by_force(self: Decisions, decision: Decision) -> Decision:
    """Replaces a decision that is there."""
    self._storage.put(layout.commit_key(self.tap, decision.id), decision_to_json(decision))
    return decision


def _without_reading_back(self: Decisions, decision: Decision) -> Decision:
    """Takes each refusal for its own success."""
    self._storage.put(layout.commit_key(self.tap, decision.id), decision_to_json(decision), if_absent=True)
    return decision


def _as_if_decided(self: NumberedStore, state: Manifest) -> Loaded:
    """Reads what is prepared as if it were decided for."""
    if state.prepared is not msgspec.UNSET:
        change = fold.apply(state, prepared.settlement(_for(state.prepared.commit)))
        assert isinstance(change, Manifest)
        state = change
    return Loaded(state, str(state.transaction.number))


def _for(name: str) -> Decision:
    return Decision(id=name, at="2026-01-01T00:00:00Z", run=None, writer="nobody", committed=True)


def _as_if_refused(self: Decisions, name: str) -> Decision:
    """Settles what is undecided as if it were decided against."""
    there = _get(self, name)
    return there or aborted(name, at=START, writer="nobody", run=None)


def _as_it_is(part: commit_run.RunShare, error: SingerlakeError) -> SingerlakeError:
    """What went wrong behind the decision, as if it had been before."""
    return error


def _behind(self: NumberedStore, base: Loaded, transaction: Transaction) -> Loaded | Outdated | Conflict:
    """Appends behind what is prepared."""
    if not isinstance(transaction.change, PrepareFiles):
        base = Loaded(base.manifest.shown, base.mark)
    return _commit(self, base, transaction)


def _whatever_it_is(self: NumberedStore, state: Loaded) -> bool:
    """Publishes what is undecided."""
    self._finish(state)
    return True


def _by_one_listing(
    decisions: Decisions, before: Listed, states: Mapping[str, Manifest], after: Listed
) -> dict[str, int]:
    """Takes what was decided while streams were loaded for what was there before."""
    return {stream: state.next_offset for stream, state in states.items()}


def _as_of_by_one_listing(
    decisions: Decisions, commit: str, load: Callable[[], Mapping[str, Manifest]]
) -> dict[str, StreamView]:
    """Goes by what was decided before streams were loaded."""
    before = decisions.listed()
    every, states = view.taken_place(decisions, before.names), load()
    return {stream: StreamView(state, view.end_as_of(stream, state, every, commit)) for stream, state in states.items()}


def _by_the_clock() -> AbstractContextManager[object]:
    """Names commits by the writer's clock alone."""
    held = ExitStack()
    held.enter_context(mock.patch.object(commit_run, "commit_name", lambda now, id, after: commit_name(now, id)))
    held.enter_context(mock.patch.object(fold, "prepare", _whatever_the_name))
    return held


def _whatever_the_name(manifest: Manifest, change: PrepareFiles, at: str) -> dict[str, Any] | Conflict:
    return _prepare(msgspec.structs.replace(manifest, settled=msgspec.UNSET), change, at)


def _kind(name: str, patched: Callable[[], AbstractContextManager[object]]) -> Kind:
    def both() -> AbstractContextManager[object]:
        held = ExitStack()
        held.enter_context(hasty())
        held.enter_context(patched())
        return held

    return replace(RUNS, name=name, patched=both)


def _with(where: Any, attribute: str, other: object) -> Callable[[], AbstractContextManager[object]]:
    return lambda: mock.patch.object(where, attribute, other)


RUNS_WITH_HOLES = (
    _kind("runs-first-alone", _with(LogCommit, "_prepare", _the_first_alone)),
    _kind("runs-by-force", _with(Decisions, "decide", _by_force)),
    _kind("runs-not-read-back", _with(Decisions, "decide", _without_reading_back)),
    _kind("runs-undecided", _with(NumberedStore, "_decided", _as_if_decided)),
    _kind("runs-not-read", _with(Decisions, "get", _as_if_refused)),
    _kind("runs-unsure", _with(commit_run, "not_shown", _as_it_is)),
    _kind("runs-behind", _with(NumberedStore, "commit", _behind)),
    _kind("runs-published", _with(NumberedStore, "_settles", _whatever_it_is)),
    _kind("runs-one-listing", _with(view, "_ends", _by_one_listing)),
    _kind("runs-as-of-by-one-listing", _with(jobs, "view_as_of", _as_of_by_one_listing)),
    _kind("runs-by-the-clock", _by_the_clock),
)
