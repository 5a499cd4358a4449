"""What is so of a stream whose records have attached files, whatever becomes of the records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from singerlake.format import layout
from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import objects_in, paths_in
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from tests.simulation.jobs import GRACE
from tests.simulation.stores.erasing import ErasedTruth, Message
from tests.simulation.stores.expiring import ExpiredTruth
from tests.simulation.watches.truth import Fail


def digest(photo: str) -> str:
    return hashlib.sha256(photo.encode()).hexdigest()


class AttachedTruth(ErasedTruth, ExpiredTruth):
    """Each record that is not erased has the rows that its writer gave it, and nobody else's; the object of each row of
    a listed file is there; one that no listed file has is retired, and goes a grace time after the last state that was
    shown to readers and had it."""

    def __init__(self, fail: Fail, exists: Callable[[str], bool]) -> None:
        super().__init__(fail, exists)
        self.now: Callable[[], float] = lambda: 0.0
        """Seconds, by the clock of the storage."""
        self.hurried: set[str] = set()
        """The names of objects that somebody deletes without a grace time."""
        self._photos: dict[Message, tuple[Attached, ...]] = {}
        self._readers_have: set[str] = set()
        self._left: dict[str, float] = {}

    def wrote_photos(self, id: str, rows: tuple[Attached, ...], messages: int) -> None:
        """A writer made a file with these rows."""
        for at in range(messages):
            self._photos[id, at] = tuple(row for row in rows if row.message == at)

    def became(self, state: Manifest) -> None:
        before = self.newest
        super().became(state)
        known = objects_in(before.files) if before else {}
        listed = objects_in(state.files)
        for name, path in listed.items():
            if name not in known and not self._exists(path):
                self._fail(f"attached file {name} is listed and not on storage")
        both = [name for name in listed if name in state.retired_by_id]
        if both:
            self._fail(f"attached files are listed and retired: {both}")
        if before is not None:
            self._check_nothing_is_forgotten(before, state, listed)
        for file in state.files:
            if before is None or file.id not in before.by_id:
                self._check_rows(file, f"file {file.id}")
        ids = [file.id for file in state.retired]
        if len(ids) != len(set(ids)):
            self._fail("a file is retired twice")

    def published(self, state: Manifest) -> None:
        there = paths_in(state.files)
        self._left |= dict.fromkeys(self._readers_have - there, self.now())
        self._readers_have = there

    def attached(self, path: str, after: bytes | None) -> None:
        name = layout.attached_name_in(path)
        assert name is not None
        if after is not None:
            if hashlib.sha256(after).hexdigest() != name[:64]:
                self._fail(f"attached file {name} was written with other bytes")
            return
        if self.newest is not None and path in paths_in(self.newest.files):
            self._fail(f"a listed attached file was deleted: {name}")
        if not self.lets_go(path):
            self._fail(f"an attached file was deleted and no transaction said so: {name}")
        waited = self.now() - self._left.get(path, -2 * GRACE)
        if name not in self.hurried and (path in self._readers_have or waited < GRACE):
            self._fail(f"an attached file was deleted {waited:.0f} s after readers were shown it: {name}")

    def judges(self, messages: list[Message]) -> bool:
        """What a vacuum made in vain may be the last file that holds what expired, with records that were erased since
        beside it. Erasing names such a file."""
        assert self.newest is not None
        lasting = {origin for origin, _ in self.messages(self.newest)}
        return all(origin in lasting for origin, _ in messages)

    def rebuilt(self, made: Manifest) -> None:
        for file in made.files:
            if self.judges(self.messages_of(file.id)):
                self._check_rows(file, f"file {file.id} of a rebuild")

    def _drops(self, before: Manifest, state: Manifest) -> None:
        # What expired before may be acknowledged yet, too.
        self._dropped |= self._place.keys()
        super()._drops(before, state)

    def _check_nothing_is_forgotten(self, before: Manifest, state: Manifest, listed: dict[str, str]) -> None:
        for name in objects_in(before.files):
            if name not in listed and name not in state.retired_by_id:
                self._fail(f"attached file {name} is listed no more and not retired")
        for gone in before.retired:
            is_there = gone.id in state.retired_by_id or gone.id in listed
            if layout.attached_name_in(gone.path) and not is_there and gone.deleted is None:
                self._fail(f"attached file {gone.id} was forgotten and not deleted")
            if gone.id in listed and gone.deleted is not None:
                self._fail(f"attached file {gone.id} is listed while it is deleted")

    def _check_rows(self, file: DataFile, told: str) -> None:
        expected = [
            (at, row.property, row.source, row.sha256, row.copy)
            for at, message in enumerate(self.messages_of(file.id))
            if message not in self._holes
            for row in self._photos[message]
        ]
        found = [(row.message, row.property, row.source, row.sha256, row.copy) for row in file.attached]
        if found != expected:
            self._fail(f"{told} has the rows {found}, it should have {expected}")
