"""Each manifest store with a stream whose oldest messages expire while writers, readers, vacuums and collectors are at
work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from singerlake.errors import SettingError
from singerlake.format.state.model import Manifest
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.gc.expire import Cut, expire_messages
from tests.simulation.jobs import Actor
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.watches.truth import Fail, Truth
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


class ExpiredTruth(Truth):
    """What is so of a stream whose messages may expire: its floor only rises, and never above what somebody asked for;
    what is at the floor or above it stays, at its offset."""

    def __init__(self, fail: Fail, exists: Callable[[str], bool]) -> None:
        super().__init__(fail, exists)
        self._asked = 0
        """The greatest offset before which messages were to expire."""
        self._labels: dict[str, str] = {}

    def asked(self, before: int) -> None:
        """Somebody is about to expire what is before an offset."""
        self._asked = max(self._asked, before)

    def became(self, state: Manifest) -> None:
        floor = state.floor
        same = self.newest is not None and self.newest.lineage == state.lineage
        known = self.newest.floor if self.newest is not None and same else 0
        self._labels = self._labels if same else {}
        if floor < known:
            self._fail(f"the floor fell from {known} to {floor}")
        if floor > max(known, self._asked):
            self._fail(f"the stream begins at {floor}, and only what is before {self._asked} was to expire")
        if self._labels.items() - state.versions.items():
            self._fail(f"versions had the labels {self._labels}, and have {state.versions}")
        self._labels = dict(state.versions)
        self._acked -= {id for id in self._acked if self._place[id] < floor}
        super().became(state)

    def acked(self, id: str) -> None:
        """A file that expired may be acknowledged later: it was committed before."""
        super().acked(id)
        assert self.newest is not None
        if self._place[id] < self.newest.floor:
            self._acked.remove(id)

    def _floor(self, state: Manifest) -> int:
        return state.floor


@dataclass(eq=False)
class ExpirerJob(Actor):
    """Expires what is before an offset that it saw, or only says what that would take."""

    times: int

    def run(self, process: Process) -> None:
        world = self.world
        while self.times:
            self.rest(process)
            store = self.store(process)
            seen = store.load()
            dry_run = not world.choices.below(4)
            if seen is not None:
                before = world.choices.below(seen.manifest.next_offset + 1)
                truth = world.truth
                assert isinstance(truth, ExpiredTruth)
                if not dry_run:
                    truth.asked(before)
                context = StreamContext(world.storage, TAP, STREAM, process.clock, world.ids, store)
                try:
                    done = expire_messages(context, Cut(before=before), dry_run=dry_run)
                except SettingError as error:
                    world.fail(f"an offset that was seen is refused: {error}")
                world.note(f"expired: {done.files.files} files before {before}, dry run: {dry_run}")
                assert truth.newest is not None
                if not dry_run and done.floor > truth.newest.floor:
                    world.fail(f"it was said that the stream begins at {done.floor}, and it never did")
            self.times -= 1


def _expirers(world: World, kind: Kind) -> Iterator[Actor]:
    for number in range(1 + world.choices.below(2)):
        yield ExpirerJob(f"expirer-{number}", world, kind, 1 + world.choices.below(4))


EXPIRING = {
    f"expiring-{name}": replace(kind, name=f"expiring-{name}", truth=ExpiredTruth, extras=_expirers)
    for name, kind in KINDS.items()
}
