"""The invariants of atomic runs that storage itself shows, looked at whenever an object changes."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from singerlake.format import layout
from singerlake.format.decision import Decision, decision_from_json
from singerlake.format.exact_json import decode
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought, settlement
from singerlake.storage.port import Stored
from singerlake.storage.probe import PROBE_PREFIX
from singerlake.stores.numbered import Record
from tests.simulation.runs.truth import Runs, StreamTruth
from tests.simulation.watches.truth import Fail
from tests.simulation.watches.watch import LogWatch, ManifestWatch, Peek, Watches
from tests.simulation.world.files import TAP
from tests.simulation.world.world import World

STREAMS = ("a", "b", "c")


class _RunLogWatch(LogWatch):
    """A log in which the record that settles a run says what was decided, and nothing else comes in its place."""

    def __init__(self, truth: StreamTruth, fail: Fail, peek: Peek, prefix: str, runs: RunsWatch) -> None:
        super().__init__(truth, fail, peek, prefix)
        self._runs = runs

    def _appended(self, key: str, number: int, after: Stored | None) -> None:
        known = self._truth.states.get(number)
        if known is not None and after is not None and number > self._floor:
            record = decode(after.body, Record)
            if record.transaction.id != known.transaction.id:
                self._fail(f"record {number} is {record.transaction.id}, and {known.transaction.id} was decided")
        super()._appended(key, number, after)
        self._runs.settle()


class RunsWatch(Watches):
    """The streams of a tap, each watched by itself, and the decisions about its runs: each is made once, by nobody but
    where all its streams are prepared, and is in their states from then on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.log = None
        truths = {stream: StreamTruth(world.fail, self._exists(stream)) for stream in STREAMS}
        self.runs = Runs(world.fail, truths)
        self._streams = {stream: self._watches(stream, truth) for stream, truth in truths.items()}

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        stream = next((each for each in STREAMS if key.startswith(layout.stream_prefix(TAP, each))), None)
        if stream is not None:
            self._streams[stream].changed(key, before, after, by)
        elif key.startswith(layout.commits_prefix(TAP)):
            self._committed(key, before, after)
        elif not key.startswith(PROBE_PREFIX):
            self._world.fail(f"nobody knows what {key} is")

    def settle(self) -> None:
        """Bring the truth of each stream up to what is decided."""
        for truth in self.runs.streams.values():
            newest = truth.newest
            if newest is None or newest.prepared is msgspec.UNSET:
                continue
            decision = self.runs.decisions.get(newest.prepared.commit)
            if decision is not None:
                state = apply(newest, settlement(decision))
                assert isinstance(state, Manifest)
                truth.became(state)

    def _committed(self, key: str, before: Stored | None, after: Stored | None) -> None:
        name = key.rpartition("/")[2]
        shown = layout.shown_commit_in(name)
        if shown is not None:
            if shown not in self.runs.decisions:
                self._world.fail(f"commit {shown} is said to be shown, and is not decided")
            return
        if after is None or (before is not None and before.body != after.body):
            self._world.fail(f"the decision about {name} changed")
            return
        if before is None:
            decision = decision_from_json(after.body, key=key)
            self._check_prepared(decision)
            self.runs.decisions[decision.id] = decision
            self.settle()
            self.runs.decided(decision)

    def _check_prepared(self, decision: Decision) -> None:
        for stream, says in decision.streams.items():
            newest = self.runs.streams[stream].newest
            if newest is None or newest.prepared is msgspec.UNSET or newest.prepared.commit != decision.id:
                self._world.fail(f"commit {decision.id} was decided for, and stream {stream} is not prepared")
            elif brought(newest) != says:
                self._world.fail(f"commit {decision.id} says {says} of stream {stream}, which gets {brought(newest)}")

    def _watches(self, stream: str, truth: StreamTruth) -> Watches:
        world, prefix = self._world, layout.stream_prefix(TAP, stream)
        return Watches(
            truth,
            world.fail,
            prefix,
            locks=None,
            manifest=ManifestWatch(truth, world.fail, commits=False),
            log=_RunLogWatch(truth, world.fail, world.storage.as_it_is, prefix, self),
        )

    def _exists(self, stream: str) -> Callable[[str], bool]:
        prefix = layout.stream_prefix(TAP, stream)
        return lambda path: self._world.storage.as_it_is(prefix + path) is not None
