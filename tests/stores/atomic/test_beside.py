"""Atomic runs while one of their streams is erased from, expires, is vacuumed or dropped: each run is there whole or
not at all, and what was to go is gone."""

from __future__ import annotations

import gzip
import itertools
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from singerlake.adapters import ATOMIC_STORES
from singerlake.conditions import parse_condition
from singerlake.errors import CommitRefusedError
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.model import Run
from singerlake.stores.atomic.commit_run import RunShare
from singerlake.upkeep.drop import drop_stream
from singerlake.upkeep.erase.erase import erase_messages
from singerlake.upkeep.erase.match import Meant, OfRun
from singerlake.upkeep.gc.expire import Cut, expire_messages
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.upkeep.verify import verify_stream
from singerlake.work.engine import Threads
from tests.lakes import FilesOf, build_stream
from tests.storage.memory import Step
from tests.stores.atomic.databases import READS, Killed, dead, publish
from tests.stores.atomic.runs import Runs
from tests.stores.stores import ON_THE_LAKE, Place, make_place
from tests.upkeep.gc.test_stores import dump
from tests.upkeep.shelf import SCHEMA

STREAMS = ("a", "b")
BEFORE, OF_RUN = 8, 4
"""Messages that each stream has, and that the run brings to each. The number of a record is its offset."""


def made(kind: str, request: pytest.FixtureRequest) -> Place:
    place = make_place(kind, request)
    for stream in STREAMS:
        place.born(stream)
        build_stream(place.lake, "t", stream, SCHEMA, [{"n": n} for n in range(BEFORE)], file_size=4, store=kind)
        publish(place, stream)
    return place


def at(place: Place, wanted: int, act: Callable[[], object]) -> Callable[[], bool]:
    """Have ``act`` called at a step of the storage; the answer tells whether it came to that. Of a store in a database
    only the first request and the moments before and behind each write count: between two writes nothing of the run
    changes on the lake."""
    steps, came = -1, False

    def hook(step: Step) -> None:
        nonlocal steps, came
        if steps < 0 or place.kind in ON_THE_LAKE or step.operation not in READS:
            steps += 1
            if steps == wanted and not came:
                came = True
                act()

    place.storage.hook = hook
    return lambda: came


def parts_of(runs: Runs, folder: Path) -> list[RunShare]:
    """A run of two whole files a stream, uploaded and not committed."""
    parts = []
    for stream in STREAMS:
        writer = runs.writer(stream)
        writer.open()
        records = [{"n": n} for n in range(BEFORE, BEFORE + OF_RUN)]
        own = Path(tempfile.mkdtemp(dir=folder))
        uploads = list(FilesOf(SCHEMA, file_size=2).written(writer, records, own))
        writer.upload(uploads)
        run = Run(id="w", writer="w", started="2026", status="finished")
        schemas = {each.file.version: each.schema for each in uploads}
        parts.append(RunShare(writer, tuple(each.file for each in uploads), schemas, run))
    return parts


def numbers(place: Place, stream: str) -> list[int | None]:
    """What each message from the floor on holds, as any program reads it that knows manifest and gzip; None for a
    hole."""
    state = place.state(stream)
    found: list[int | None] = []
    for file in state.files:
        stored = place.storage.get(layout.stream_prefix("t", stream) + file.path)
        assert stored is not None
        lines = [line for line in gzip.decompress(stored.body).splitlines() if b'"SCHEMA"' not in line]
        assert (file.offset, file.messages) == (state.floor + len(found), len(lines))
        found += [None if line == HOLE[:-1] else json.loads(line)["record"]["n"] for line in lines]
    return found


def erase(place: Place, meant: Meant) -> None:
    engine = Threads(place.storage, 1)
    assert erase_messages(place.context("a"), meant, who="ada", dry_run=False, engine=engine).findings == ()


SOME = parse_condition("n in (1, 9)", str)
ACTS: dict[str, Callable[[Place], object]] = {
    "an erasure": lambda place: erase(place, SOME),
    "an expiry": lambda place: expire_messages(place.context("a"), Cut(before=4), dry_run=False),
    "a vacuum": lambda place: vacuum_stream(place.context("a"), target_bytes=1 << 20, threads=1),
    "a drop of the stream": lambda place: drop_stream(place.context("a"), dry_run=False),
    "a drop of the run": lambda place: erase(place, OfRun("a-test-run")),
}
OLD, NEW = list(range(BEFORE)), list(range(BEFORE, BEFORE + OF_RUN))
GONE: list[int | None] = [None]
LEFT: dict[str, tuple[list[list[int | None]], list[list[int | None]]]] = {
    "an erasure": ([[0, None, *OLD[2:]]], [[*NEW], [8, None, 10, 11]]),
    "an expiry": ([[*OLD[4:]]], [[*NEW]]),
    "a vacuum": ([[*OLD]], [[*NEW]]),
    "a drop of the stream": ([[]], [[]]),
    "a drop of the run": ([GONE * BEFORE], [[*NEW], GONE * OF_RUN]),
}
"""What the stream may hold then: of what was there before, and of what a run that is committed brought."""


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", ATOMIC_STORES)
def test_what_comes_to_one_of_its_streams_at_any_step_leaves_a_run_whole(
    kind: str, act: str, request: pytest.FixtureRequest, tmp_path: Path, stride: int
) -> None:
    old, new = LEFT[act]
    seen: list[list[int | None] | None] = []
    for step in itertools.count(0, stride):
        place = made(kind, request)
        runs = Runs(place)
        parts = parts_of(runs, tmp_path)
        came = at(place, step, lambda: ACTS[act](place))  # noqa: B023
        try:
            runs.commit(parts)
            committed = True
        except CommitRefusedError:
            # A drop takes uploaded files of the stream, too.
            assert act == "a drop of the stream"
            committed = False
        place.storage.hook = lambda _: None
        if not came():
            break
        a, b = numbers(place, "a"), numbers(place, "b")
        assert b == OLD + NEW * committed, step
        assert a[: len(old[0])] in old, step
        brought = a[len(old[0]) :]
        assert brought in new if committed else brought == [], step
        seen.append(brought if committed else None)
        assert [runs.listed(stream)[0] for stream in STREAMS] == [place.listed(stream) for stream in STREAMS], step
        assert runs.viewed() == {stream: place.state(stream).next_offset for stream in STREAMS}, step
        for stream in STREAMS:
            found = verify_stream(place.storage, "t", stream, partial(place.state, stream)).findings
            assert [each for each in found if each.problem and (committed or each.kind != "unlisted")] == [], step
        # Whoever comes next is kept waiting by nobody, and loses nothing.
        began = place.clock.seconds
        build_stream(place.lake, "t", "a", SCHEMA, [{"n": 99}], store=kind)
        assert place.clock.seconds - began < 5
        assert numbers(place, "a") == [*a, 99], step
        ACTS[act](place)
    assert all(each in seen for each in new)
    assert (None in seen) is (act == "a drop of the stream")


@pytest.mark.parametrize("decided", [False, True])
def test_an_erasure_meets_a_run_whose_writer_was_killed_at_its_decision(tmp_path: Path, decided: bool) -> None:
    place = Place("log")
    for stream in STREAMS:
        place.born(stream)
        build_stream(place.lake, "t", stream, SCHEMA, [{"n": n} for n in OLD], file_size=4, store="log")
    runs = Runs(place)
    parts = parts_of(runs, tmp_path)

    def kill(step: Step) -> None:
        if step.operation == "put" and "/_commits/" in step.key and step.done is decided:
            place.storage.hook = dead
            raise Killed

    place.storage.hook = kill
    with pytest.raises(Killed):
        runs.commit(parts)
    place.storage.hook = lambda _: None
    before, began = dump(place), place.clock.seconds
    looked = erase_messages(place.context("a"), SOME, who="ada", dry_run=True)
    # Who only looks decides nothing, waits for nobody, and names what lies there.
    assert (dump(place), place.clock.seconds) == (before, began)
    assert looked.records == (2 if decided else 1)
    assert len(looked.left) == (0 if decided else 1)
    erase(place, SOME)
    assert place.clock.seconds - began < 70
    assert numbers(place, "a") == [0, None, *OLD[2:], *([8, None, 10, 11] if decided else [])]
    assert numbers(place, "b") == [*OLD, *(NEW if decided else [])]
    (decision,) = runs.decisions.all_of(runs.decisions.listed().names)
    assert decision.committed is decided
    left = erase_messages(place.context("a"), SOME, who="ada", dry_run=True).left
    assert sorted(trace.id is None for trace in left) == ([False, False] if decided else [False, True])
