"""Cases of the suite about atomic runs: streams that an atomic run wrote to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from singerlake.format import layout
from singerlake.format.decision import Decision, aborted
from singerlake.format.extra_fields import FileHeader
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Run, StreamSchema
from singerlake.format.state.transactions import PrepareFiles, Transaction
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from tools.golden_suite.cases import case
from tools.golden_suite.maker import V1, V2, Maker, file_bytes, record

ATOMIC: dict[str, Any] = {"atomic": True}
OTHER = "other"


class Runs:
    """Atomic runs over streams of one case."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.decisions = Decisions(maker.storage, maker.tap)
        self.count = 0

    def uploaded(self, stream: str, schema: Any, lines: Sequence[bytes], run: str) -> NewFile:
        """A file of an atomic run, on storage and not listed."""
        maker, own = self.maker, self.maker.stream
        maker.stream = stream
        id = maker.ids()
        header = FileHeader(
            id=id, created=maker.now(), run=run, seq=0, lake_id=maker.lake.lake_id(maker.kind), atomic=True
        )
        body = file_bytes(schema, [lines], msgspec.json.encode(header), stream)
        file = maker.described(schema, body, id, [lines])
        maker.put(maker.prefix + file.path, body)
        maker.stream = own
        return file

    def parts(self, **streams: tuple[Any, Sequence[bytes]]) -> list[RunShare]:
        """What one run brings to each stream."""
        self.maker.clock.sleep(1)
        self.count += 1
        run = f"atomic0000000{self.count:03}"
        made = []
        for stream, (schema, lines) in streams.items():
            file = self.uploaded(stream, schema, lines, run)
            writer = self.maker.lake.stream(self.maker.tap, stream).writer(writer_id="suite", store=self.maker.kind)
            kept = StreamSchema(schema=schema, key_properties=("n",))
            told = Run(id=run, writer="suite", started=self.maker.now(), status="finished")
            made.append(RunShare(writer, (file,), {file.version: kept}, told))
        return made

    def run(self, **streams: tuple[Any, Sequence[bytes]]) -> str:
        """A run that commits; gives the commit's name."""
        parts = self.parts(**streams)
        maker = self.maker
        commit_run(
            AtomicRun(
                parts, self.decisions, run_id=parts[0].run.id, writer_id="suite", clock=maker.clock, ids=maker.ids
            )
        )
        for part in parts:
            maker.lake.announce(part.writer.open())
        maker.messages += list(streams.get(maker.stream, (None, ()))[1])
        return self.decisions.listed().names[-1]

    def prepare(self, name: str, parts: Sequence[RunShare]) -> None:
        """The first half of a run that stopped there."""
        for part in parts:
            change = PrepareFiles(commit=name, files=part.files, schemas=part.schemas, run=part.run)
            transaction = Transaction(id=self.maker.ids(), at=self.maker.now(), change=change)
            outcome = commit_transaction(part.writer.store, part.writer.loaded, transaction, clock=self.maker.clock)
            assert isinstance(outcome, Loaded)

    def name(self) -> str:
        """A name for a commit that is made now."""
        return layout.commit_name(self.maker.clock.now(), self.maker.ids())

    def stop_half(self, *lines: bytes) -> str:
        """A run that prepared one file, and stopped before the decision."""
        parts = self.parts(s=(V1, lines))
        name = self.name()
        self.prepare(name, parts)
        return name


def go_on_behind_one_that_is_aborted(maker: Maker) -> None:
    """A file, a run that was prepared and decided against, and another file; manifest.json is of the first one."""
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    before = maker.manifest_body()
    name = runs.stop_half(record(1))
    runs.decisions.decide(aborted(name, at=maker.clock.now(), writer="suite", run=None))
    maker.add(V1, [record(2)])
    maker.put(maker.manifest_key, before)


@case
def log_with_an_atomic_run(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    runs.run(s=(V2, [record(1), record(2)]))
    maker.add(V1, [record(3)])
    maker.finish()
    return maker.expected("An atomic run brought two messages, between files of others.", **ATOMIC)


@case
def log_with_an_atomic_run_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    before = maker.manifest_body()
    runs.run(s=(V2, [record(1), record(2)]))
    maker.add(V1, [record(3)])
    maker.put(maker.manifest_key, before)
    return maker.expected("manifest.json is behind: the log says how the run was prepared and settled.", **ATOMIC)


@case
def log_with_an_atomic_run_that_is_undecided(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    Runs(maker).stop_half(record(1))
    return maker.expected("The log ends with what a run prepared, and nothing decides about it.")


@case
def log_with_an_atomic_run_that_is_decided_and_not_settled(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    name = runs.stop_half(record(1))
    state = maker.state()
    assert state.lineage is not None
    brought = {"s": {"lineage": state.lineage, "offset": 1, "end": 2}}
    decision = Decision(id=name, at=maker.now(), run="atomic0000000001", writer="suite", committed=True)
    runs.decisions.decide(msgspec.convert({**msgspec.to_builtins(decision), "streams": brought}, Decision))
    maker.messages.append(record(1))
    return maker.expected("The log ends with what a run prepared, and the decision commits it.", **ATOMIC)


@case
def log_with_an_atomic_run_that_was_decided_against(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    name = runs.stop_half(record(1))
    runs.decisions.decide(aborted(name, at=maker.clock.now(), writer="suite", run=None))
    return maker.expected("The log ends with what a run prepared, and the decision is against it.")


@case
def log_with_an_atomic_run_that_was_settled_without_its_messages(maker: Maker) -> dict[str, Any]:
    go_on_behind_one_that_is_aborted(maker)
    return maker.expected("A run was prepared, decided against and settled; others went on.")


@case
def log_with_a_decision_that_cannot_be_read(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    name = Runs(maker).stop_half(record(1))
    maker.put(layout.commit_key(maker.tap, name), b'{"format": 1, "committed": tr')
    return maker.refused("The decision about what a run prepared last is cut.", after=1)


@case
def log_with_a_decision_of_a_newer_format(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    name = Runs(maker).stop_half(record(1))
    maker.put(layout.commit_key(maker.tap, name), b'{"format": 2, "id": "%s"}' % name.encode())
    return maker.refused("The decision about what a run prepared last is of a newer format.", after=1)


@case
def log_with_a_record_behind_an_undecided_run(maker: Maker) -> dict[str, Any]:
    go_on_behind_one_that_is_aborted(maker)
    settled, added = (maker.log_key(layout.log_name(number)) for number in (3, 4))
    maker.put(settled, maker.get(added).replace(b'"number":4', b'"number":3'))
    maker.delete(added)
    return maker.refused("A transaction that is no settlement stands behind what a run prepared.", after=1)


@case
def log_with_atomic_runs_and_without_any_metadata(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    runs.run(s=(V1, [record(1)]))
    runs.stop_half(record(2))
    for entry in list(maker.storage.list(maker.prefix)):
        if not entry.key.endswith(layout.SUFFIX):
            maker.delete(entry.key)
    return maker.expected(
        "Nothing but data files and decisions is left: the run without a decision is left out.", rebuilt=True
    )


@case
def log_with_atomic_runs_and_without_any_metadata_or_decision(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    runs.run(s=(V1, [record(1)]))
    runs.stop_half(record(2))
    for entry in list(maker.storage.list(layout.tap_prefix(maker.tap))):
        if not entry.key.endswith(layout.SUFFIX):
            maker.delete(entry.key)
    maker.messages.append(record(2))
    return maker.expected(
        "Nothing but data files is left: none is left out, repeated perhaps, lost never.", rebuilt=True
    )


@case
def log_with_atomic_runs_over_two_streams(maker: Maker) -> dict[str, Any]:
    runs = Runs(maker)
    maker.add(V1, [record(0)])
    commits = [
        runs.run(s=(V1, [record(1), record(2)]), other=(V1, [record(3, OTHER)])),
        runs.run(other=(V1, [record(4, OTHER), record(5, OTHER)])),
    ]
    maker.add(V1, [record(6)])
    commits.append(runs.run(s=(V1, [record(7)]), other=(V1, [record(8, OTHER)])))
    ends = [{"s": 3, "other": 1}, {"s": 3, "other": 3}, {"s": 5, "other": 4}]
    return maker.expected(
        "Three atomic runs over two streams, and a plain one between them.",
        **ATOMIC,
        taps={maker.tap: sorted([maker.stream, OTHER])},
        as_of=[{"commit": commit, "ends": end} for commit, end in zip(commits, ends, strict=True)],
    )
