"""What is so, whatever any actor believes: every state there ever was, as the effects on storage made it, and the
promises that hold for each and between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.manifest import from_json
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage, Stored
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import with_source
from tests.simulation.world.files import STREAM, TAP

Fail = Callable[[str], None]
"""Called with what does not hold; does not come back."""


class _Peeked:
    """As much of a storage as segments are read from."""

    def __init__(self, get: Callable[[str], Stored | None]) -> None:
        self.get = get


class Truth:
    """One stream's states by transaction number. ``exists`` tells whether a data file is on storage by its path."""

    def __init__(self, fail: Fail, exists: Callable[[str], bool]) -> None:
        self._fail = fail
        self._exists = exists
        self.peek: Callable[[str], Stored | None] = lambda key: None
        """Gives an object as it is, seen by nobody who takes part."""
        self.states: dict[int, Manifest] = {}
        self.newest: Manifest | None = None
        self.acknowledged = -1
        """The highest number that any actor was told of."""
        self.pending: set[str] = set()
        """Transactions for which an actor has a receipt: they cannot be lost."""
        self.placed: dict[str, int] = {}
        """The number of the first state that holds a transaction which had to wait for its place."""
        self._made: dict[str, tuple[tuple[str, int], ...]] = {}
        self._batch: dict[str, tuple[str, int]] = {}
        self._place: dict[str, int] = {}
        self._acked: set[str] = set()

    def stored(self, body: bytes, key: str) -> Manifest:
        """The state that an object holds, or is about to."""
        segments = SegmentObjects(cast(Storage, _Peeked(self.peek)), TAP, STREAM)
        return with_source(segments, from_json(body, key=key))

    def wrote(self, id: str, messages: int, *, run: str, seq: int) -> None:
        """A writer made a file for the ``seq``-th batch of its run."""
        self._made[id] = ((id, messages),)
        self._batch[id] = (run, seq)

    def batch_of(self, id: str) -> int:
        """Which batch of its run a file was made for."""
        return self._batch[id][1]

    def joined(self, id: str, old: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """A vacuum made a file of the messages of ``old``; gives what they were before any vacuum."""
        self._made[id] = tuple(origin for each in old for origin in self._made[each])
        return self._made[id]

    def acked(self, id: str) -> None:
        """A writer was told that its file is committed."""
        self._acked.add(id)
        if id not in self._place:
            self._fail(f"file {id} was acknowledged and is in no state")

    def unlisted(self) -> list[str]:
        """Acknowledged files that the newest state does not hold."""
        held = set(self._origins(self.newest)) if self.newest else set()
        return sorted(self._acked - held)

    def became(self, state: Manifest) -> None:
        """A transaction took effect: this is the state after it."""
        before = self.newest
        number = state.transaction.number
        if before is None:
            if number != 0:
                self._fail(f"the first state has the number {number}")
        else:
            if number != before.transaction.number + 1:
                self._fail(f"transaction {number} came after {before.transaction.number}")
            self._check_follows(before, state)
        self._check_files(state, before)
        self.states[number] = self.newest = state
        lost = self.unlisted()
        if lost:
            self._fail(f"acknowledged files are in the state no more: {', '.join(lost)}")

    def _check_follows(self, before: Manifest, state: Manifest) -> None:
        if state.lineage != before.lineage:
            self._fail(f"the lineage changed from {before.lineage} to {state.lineage}")
        if state.next_offset < before.next_offset:
            self._fail(f"next_offset fell from {before.next_offset} to {state.next_offset}")

    def stepped(self, before: Manifest, after: Manifest) -> None:
        """One of several transactions that take effect at once."""

    def moved(self, state: Manifest) -> None:
        """The stream goes on in another manifest store: this is its first state there."""
        before = self.newest
        assert before is not None
        if before.closed != state.store or state.closed is not None:
            self._fail(f"a stream closed in favour of {before.closed} goes on in {state.store}")
        if state.transaction.number <= before.transaction.number:
            self._fail(
                f"a stream moved at transaction {before.transaction.number} goes on at {state.transaction.number}"
            )
        if (state.lineage, state.next_offset, state.files) != (before.lineage, before.next_offset, before.files):
            self._fail("a stream that was moved has other files or offsets")
        self.states[state.transaction.number] = self.newest = state

    def saw(self, state: Manifest, *, told: bool = True) -> None:
        """An actor was given this state: it must be the one that this number stands for. ``told``: as the newest."""
        known = self.states.get(state.transaction.number)
        if known is None:
            self._fail(f"an actor was given state {state.transaction.number}, which never was")
        elif known != state:
            self._fail(f"an actor was given another state {state.transaction.number} than was committed")
        if told:
            self.acknowledged = max(self.acknowledged, state.transaction.number)

    def settled(self, id: str, state: Manifest) -> None:
        """An actor was told that its pending transaction is in this state."""
        if self.placed.get(id, state.transaction.number + 1) > state.transaction.number:
            self._fail(f"transaction {id} was said to be in state {state.transaction.number}, which does not hold it")

    def published(self, state: Manifest) -> None:
        """``manifest.json`` shows this state from now on."""

    def attached(self, path: str, after: bytes | None) -> None:
        """The object of an attached file changed: these are its bytes, None where it is gone."""
        self._fail(f"nobody attaches files here: {path}, {after!r}")

    def lists(self, path: str) -> bool:
        """Whether the newest state lists the file at ``path``."""
        return self.newest is not None and any(file.path == path for file in self.newest.files)

    def lets_go(self, path: str) -> bool:
        """Whether the newest state says that the file at ``path`` is deleted."""
        return self.newest is not None and any(
            file.path == path and file.deleted is not None for file in self.newest.retired
        )

    def _check_files(self, state: Manifest, before: Manifest | None) -> None:
        offset = self._floor(state)
        seen: set[str] = set()
        batches: set[tuple[str, int]] = set()
        for file in state.files:
            if file.offset != offset:
                self._fail(f"file {file.id} begins at {file.offset}, the one before it ended at {offset}")
            offset = file.end
            self._check_origins(file, seen, batches)
            gone = state.retired_by_id.get(file.id)
            if gone is not None:
                self._fail(f"file {file.id} is listed and retired")
            if (before is None or file.id not in before.by_id) and not self._exists(file.path):
                self._fail(f"file {file.id} is listed and not on storage")
        if offset != state.next_offset:
            self._fail(f"next_offset is {state.next_offset}, the files end at {offset}")

    def _floor(self, state: Manifest) -> int:
        """The offset at which the first file has to begin."""
        del state
        return 0

    def _check_origins(self, file: DataFile, seen: set[str], batches: set[tuple[str, int]]) -> None:
        offset = file.offset
        for origin, messages in self._made[file.id]:
            if origin in seen:
                self._fail(f"the messages of file {origin} are listed twice")
            seen.add(origin)
            if self._batch[origin] in batches:
                self._fail(f"one batch of one run is listed as two files, one of them {origin}")
            batches.add(self._batch[origin])
            if self._place.setdefault(origin, offset) != offset:
                self._fail(f"the messages of file {origin} moved from {self._place[origin]} to {offset}")
            offset += messages
        if offset != file.end:
            self._fail(f"file {file.id} is listed with {file.messages} messages, it has {offset - file.offset}")

    def _origins(self, state: Manifest) -> Iterable[str]:
        return (origin for file in state.files for origin, _ in self._made[file.id])
