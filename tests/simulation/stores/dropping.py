"""Each manifest store with a stream that is dropped while writers, readers, vacuums and collectors are at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from singerlake.format.state.model import Manifest
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.drop import drop_stream
from tests.simulation.jobs import Actor
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.watches.truth import Fail, Truth
from tests.simulation.world.files import STREAM, TAP
from tests.simulation.world.scheduler import Process
from tests.simulation.world.world import World


class DroppedTruth(Truth):
    """What is so of a stream that may be dropped: it begins anew under another lineage, all that was there is retired,
    and nothing that was dropped is ever listed again."""

    def __init__(self, fail: Fail, exists: Callable[[str], bool]) -> None:
        super().__init__(fail, exists)
        self.lineages: set[str | None] = set()
        self._dropped: set[str] = set()

    def became(self, state: Manifest) -> None:
        super().became(state)
        self.lineages.add(state.lineage)
        back = self._dropped.intersection(self._origins(state))
        if back:
            self._fail(f"dropped files are listed again: {', '.join(sorted(back))}")

    def acked(self, id: str) -> None:
        """A file that a drop took may be acknowledged later: it was committed before."""
        if id not in self._dropped:
            super().acked(id)

    def stepped(self, before: Manifest, after: Manifest) -> None:
        if after.lineage != before.lineage:
            self._drops(before, after)

    def _check_follows(self, before: Manifest, state: Manifest) -> None:
        if state.lineage == before.lineage:
            super()._check_follows(before, state)
        elif state.lineage not in self.lineages:
            self._drops(before, state)

    def _drops(self, before: Manifest, state: Manifest) -> None:
        self.lineages.add(state.lineage)
        if state.files or state.versions or state.schemas or state.next_offset:
            self._fail("a stream that was dropped is not empty")
        gone = {file.path for file in (*before.files, *before.retired)} - {file.path for file in state.retired}
        if gone:
            self._fail(f"a drop does not call retired what was there: {', '.join(sorted(gone))}")
        for file in before.retired:
            now = state.retired_by_id[file.id]
            if (now.since, now.shown, now.deleted) != (file.since, file.shown, file.deleted):
                self._fail(f"a drop changed how far the collection of file {file.id} was")
        origins = set(self._origins(before))
        self._dropped |= origins
        self._acked -= origins
        self._place.clear()


@dataclass(eq=False)
class DropperJob(Actor):
    """Drops the stream, or only says what that would take."""

    times: int

    def run(self, process: Process) -> None:
        world = self.world
        while self.times:
            self.rest(process)
            dry_run = not world.choices.below(4)
            context = StreamContext(world.storage, TAP, STREAM, process.clock, world.ids, self.store(process))
            done = drop_stream(context, dry_run=dry_run)
            world.note(f"dropped: {done.files.files} files, {done.unlisted.files} of them unlisted; dry run: {dry_run}")
            assert isinstance(world.truth, DroppedTruth)
            if not dry_run and done.after is not None and done.after.lineage not in world.truth.lineages:
                world.fail("a drop was said to be done and never was")
            self.times -= 1


def _dropper(world: World, kind: Kind) -> Iterator[Actor]:
    yield DropperJob("dropper", world, kind, 1 + world.choices.below(3))


DROPPING = {
    f"dropping-{name}": replace(kind, name=f"dropping-{name}", truth=DroppedTruth, extras=_dropper)
    for name, kind in KINDS.items()
}
