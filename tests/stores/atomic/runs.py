"""A tap in memory to whose streams atomic runs write, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from singerlake.format import layout
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.lock_file import LockSettings
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.port import Loaded
from singerlake.stores.writer import StreamWriter
from tests.format.state.test_fold import SCHEMAS, add, new_file
from tests.stores.stores import Place


class Runs:
    """What writers of one tap ``t`` do, each under an id of its own."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.decisions = Decisions(place.storage, "t")

    def writer(self, stream: str, name: str = "w") -> StreamWriter:
        return self.place.lake.stream("t", stream).writer(writer_id=name, store=self.place.kind, lock=LockSettings())

    def upload(self, stream: str, *files: NewFile) -> None:
        """Have files lie where they belong, of the size that they say."""
        for file in files:
            self.place.storage.put(layout.stream_prefix("t", stream) + file.path, b"\0" * file.bytes)

    def part(self, stream: str, *files: NewFile, name: str = "w") -> RunShare:
        self.upload(stream, *files)
        schemas = {schema_hash(schema): StreamSchema(schema=schema) for schema in SCHEMAS}
        run = Run(id=name, writer=name, started="2026", status="finished")
        return RunShare(self.writer(stream, name), files, schemas, run)

    def run(
        self, files: Mapping[str, Sequence[NewFile]], *, name: str = "w", pool: Executor | None = None
    ) -> dict[str, Manifest]:
        """An atomic run that brings these files to these streams."""
        return self.commit([self.part(stream, *each, name=name) for stream, each in files.items()], name, pool=pool)

    def commit(
        self, parts: Sequence[RunShare], name: str = "w", *, pool: Executor | None = None
    ) -> dict[str, Manifest]:
        return commit_run(
            AtomicRun(
                parts,
                self.decisions,
                run_id=name,
                writer_id=name,
                clock=self.place.clock,
                ids=self.place.ids,
                pool=pool,
            )
        )

    def append(self, stream: str, *files: NewFile) -> Loaded:
        """A plain run of another writer."""
        self.upload(stream, *files)
        writer = self.writer(stream, "plain")
        writer.open()
        outcome = self.place.commit(writer.loaded, add(*files), stream)
        assert isinstance(outcome, Loaded), outcome
        self.place.store(stream).publish(outcome, run_ended=True)
        return outcome

    def viewed(self) -> dict[str, int]:
        """Where each stream ends for a reader who has the lake alone and wants no half of a run."""
        return {name: view.end for name, view in self.place.lake.snapshot("t").items()}

    def listed(self, *streams: str) -> list[list[str]]:
        """The files that readers of these streams see."""
        return [[file.id for file in self.place.lake.stream("t", stream).snapshot().files] for stream in streams]


def files(*ids: str) -> list[NewFile]:
    return [new_file(id) for id in ids]
