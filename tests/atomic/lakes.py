"""Atomic runs for tests of readers: files that are committed to several streams at once, and commits that are not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from singerlake.clock import timestamp
from singerlake.format.decision import Brought, Decision, aborted, commit_name
from singerlake.format.state.model import Run
from singerlake.lake import Lake
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run
from singerlake.stores.atomic.decisions import Decisions
from tests.lakes import FilesOf, Line

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}}


def numbers(first: int, stop: int) -> list[dict[str, Any]]:
    """Records with these ids."""
    return [{"id": number} for number in range(first, stop)]


def commit_together(
    lake: Lake, tap: str, brought: Mapping[str, Iterable[Line]], *, run: str = "a-run", files: FilesOf | None = None
) -> str:
    """One atomic run that brings to each stream what is named, the streams being born where they are not there; gives
    the name of its commit."""
    files = files or FilesOf(SCHEMA, key_properties=("id",))
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for stream, lines in brought.items():
            writer = lake.stream(tap, stream).writer(writer_id="a-test", store="log")
            sent = writer.upload(files.written(writer, lines, Path(folder)))
            parts.append(
                RunShare(
                    writer,
                    tuple(upload.file for upload in sent),
                    {upload.file.version: upload.schema for upload in sent},
                    Run(id=run, writer="a-test", started=timestamp(lake.clock.now()), status="finished"),
                )
            )
        states = commit_run(
            AtomicRun(
                parts, Decisions(lake.storage, tap), run_id=run, writer_id="a-test", clock=lake.clock, ids=lake.ids
            )
        )
    lake.announce(*states.values())
    settled = next(iter(states.values())).settled
    assert isinstance(settled, str)
    return settled


def decide_against(lake: Lake, tap: str, *, run: str = "a-run") -> str:
    """A run that was decided against; gives the name of its commit."""
    decisions = Decisions(lake.storage, tap)
    now = lake.clock.now()
    name = commit_name(now, lake.ids(), after=decisions.listed().names)
    return decisions.decide(aborted(name, at=now, writer="a-test", run=run)).id


def decide_on(lake: Lake, tap: str, brought: Mapping[str, tuple[int, int]]) -> str:
    """A decision that says of messages which are there already, from an offset to before another, that one run brought
    them; gives the name of the commit."""
    decisions = Decisions(lake.storage, tap)
    now = lake.clock.now()
    name = commit_name(now, lake.ids(), after=decisions.listed().names)
    streams = {
        stream: Brought(lineage=str(lake.stream(tap, stream).snapshot().lineage), offset=offset, end=end)
        for stream, (offset, end) in brought.items()
    }
    decision = Decision(id=name, at=timestamp(now), run="a-run", writer="a-test", committed=True, streams=streams)
    return decisions.decide(decision).id
