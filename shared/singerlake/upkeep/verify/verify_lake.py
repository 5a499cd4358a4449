"""Verifying a lake: each stream, then what taps and the lake say of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from singerlake.conditions import Condition
from singerlake.errors import LakeError, SingerlakeError
from singerlake.format.metadata.root import RootMetadata
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.erase.declared import doubt
from singerlake.upkeep.erase.traces import find_traces
from singerlake.upkeep.expire.policy import odd_rules
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.progress import Report, reporting
from singerlake.upkeep.root_copy import lost_root
from singerlake.upkeep.verify.findings import Finding
from singerlake.upkeep.verify.journal import open_journal
from singerlake.upkeep.verify.sample import Sample
from singerlake.upkeep.verify.verify import (
    Verified,
    VerifyOptions,
    verify_catalogue,
    verify_identity,
    verify_metadata,
    verify_stream,
)
from singerlake.work.engine import Engine, Threads


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamVerify:
    """What was checked of a stream, as ``VerifyResult`` has it of all."""

    tap: str
    stream: str
    files: int
    messages: int
    bytes: int
    attached: Tally
    read: Tally
    noted: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What was checked, and what was found. In all ``streams`` so many ``files``, ``messages`` and ``bytes`` are
    listed, and ``attached`` files. Of the files, ``read`` ones were read whole, and ``noted`` ones were not, since a
    journal says that they are sound. ``seed`` draws the same sample once more. Findings that are no ``problem`` are
    notes."""

    lake: str
    streams: tuple[StreamVerify, ...]
    files: int
    messages: int
    bytes: int
    attached: Tally
    read: Tally
    noted: Tally
    seed: str | None
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing has to be done."""
        return not any(finding.problem for finding in self.findings)


def verify_lake(
    lake: LakeContext,
    tap: str | None,
    stream: str | None,
    *,
    sample: Sample | None,
    journal: Path | None,
    erased: Condition | None,
    undeclared: bool,
    ignore: Collection[str],
    engine: Engine | None,
    progress: Report | None,
) -> VerifyResult:
    """Verify the streams that are meant, and what is said of them elsewhere."""
    storage, reads = lake.storage, engine or Threads(lake.storage)
    with open_journal(journal, storage.url) if journal else nullcontext() as noted:
        options = VerifyOptions(sample=sample, journal=noted)
        pairs = lake.chosen(tap, stream)
        if erased is not None and not undeclared:
            _check(erased, lake, pairs)
        findings = list(verify_metadata(storage, tap))
        by_tap: dict[str, dict[str, Verified]] = {name: {} for name, _ in pairs}
        for name, each in pairs:
            bar, state = reporting(progress, f"{name}/{each}"), lake.stream(name, each).state
            checked = verify_stream(storage, name, each, state, options, engine=reads, progress=bar)
            findings += checked.findings
            if erased is not None:
                findings += find_traces(storage, name, each, erased, reads, state)
            by_tap[name][each] = replace(checked, findings=())
        metadata, missing = _root(lake)
        findings += odd_rules(metadata, by_tap, stream)
        for name, streams in by_tap.items():
            findings += verify_catalogue(storage, name, streams)
            findings += verify_identity(metadata, name, streams)
            named = [each for each, checked in streams.items() if missing and checked.lake_id is not None]
            findings += [lost_root(name, each) for each in named[:1]]
    done = [
        StreamVerify(
            tap=name,
            stream=each,
            files=checked.files,
            messages=checked.messages,
            bytes=checked.bytes,
            attached=checked.attached,
            read=checked.read,
            noted=checked.noted,
        )
        for name, streams in by_tap.items()
        for each, checked in streams.items()
    ]
    return VerifyResult(
        lake=storage.url,
        streams=tuple(done),
        files=sum(each.files for each in done),
        messages=sum(each.messages for each in done),
        bytes=sum(each.bytes for each in done),
        attached=sum((each.attached for each in done), NONE),
        read=sum((each.read for each in done), NONE),
        noted=sum((each.noted for each in done), NONE),
        seed=sample.seed if sample else None,
        findings=tuple(finding for finding in findings if finding.kind not in ignore),
    )


def _check(condition: Condition, lake: LakeContext, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise what ``doubt`` gives, if the condition can hold in none of the streams. A stream whose state cannot be read
    is a finding of its own, and may hold anything."""
    first: SingerlakeError | None = None
    for tap, stream in pairs:
        try:
            state = lake.stream(tap, stream).state()
        except LakeError:
            return
        error = doubt(condition, state) if state is not None else None
        if error is None:
            return
        first = first or error
    if first is not None:
        raise first


def _root(lake: LakeContext) -> tuple[RootMetadata | None, bool]:
    """What root metadata or its copy says, and whether both are missing."""
    try:
        metadata = lake.root_metadata()
    except LakeError:
        # A finding of its own.
        return None, False
    return metadata, metadata is None
