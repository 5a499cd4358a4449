"""How long ``target-singerlake`` takes to keep 1 GB of messages, against compressing the same bytes and against its
peers, and how much memory it needs."""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, Row, paired, peak, run
from bench.plugins import data, peers

SCRIPTS = Path(sys.executable).parent
TAP_ID = "bench"
RECORDS = 8 * 336_776
"""As many as eight times the flights."""


def rows(cache: Path) -> Iterator[Row]:
    """Whole processes that read the very same file; each writes into a new folder. All of them take 7 GB."""
    flights = data.flights()
    work = cache / "ingest"
    ours = target(work / "lake", flights)
    yield paired("ingest of 1 GB", ours, "igzip -1", igzip(flights), bound=2.0, aim=1.4)
    turns = target(work / "turns", data.interleaved(200, RECORDS))
    yield paired("ingest of 200 streams in turn", turns, "one stream", ours, bound=1.6, aim=1.25)
    small, as_many = (target(work / f"small-{count}", data.interleaved(count, 2000)) for count in (200, 1))
    yield paired("ingest of 200 streams of ten records", small, "one stream of as many", as_many, bound=3.5)
    odd = target(work / "odd", data.odd())
    yield paired("ingest with odd order, spaces, escapes", odd, "plain", ours, bound=1.3, aim=1.1)
    yield peak("memory, ingest of 1 GB", ours, bound_mb=150)
    thousand = target(work / "thousand", data.interleaved())
    yield peak("memory, 1,000 interleaved streams", thousand, bound_mb=220, runs=1)
    # Minutes a run, so each peer has one, right after one of ours.
    yield faster("alto 0.2.21, reservoir ingest", ours, _alto(work, cache, flights), bound=12)
    yield faster("target-singer-jsonl 0.1.0", ours, _singer_jsonl(work, cache, flights), bound=60)
    shutil.rmtree(work, ignore_errors=True)


def target(lake: Path, source: Path, **settings: object) -> Command:
    """``target-singerlake`` with its default settings but for ``settings``, into a new lake. The caller removes the
    folder that holds the lake."""
    config = lake.with_suffix(".json")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"lake_root": str(lake), "tap_id": TAP_ID, **settings}))
    argv = [str(SCRIPTS / "target-singerlake"), "--config", str(config)]
    return Command(argv, stdin=source, setup=lambda: _aside(lake))


def _aside(lake: Path) -> None:
    """Make room for a new lake. The one of the run before stays beside it until all is removed at the end: an ext4 that
    has no journal is slow to make files for minutes after others were deleted."""
    if lake.exists():
        before = lake.with_name(f"{lake.name}-before")
        before.mkdir(exist_ok=True)
        lake.rename(before / uuid.uuid4().hex)


def igzip(source: Path) -> Command:
    """The fastest gzip there is, as a process of its own; the same code from Python where the tool is missing."""
    found = shutil.which("igzip")
    argv = [found, "-1", "-c"] if found else [sys.executable, "-m", "isal.igzip", "-1", "-c"]
    return Command([*argv, str(source)])


def faster(against: str, ours: Command, other: Command, *, bound: float) -> Row:
    """One run of each; the ratio is other / ours."""
    mine, theirs = run(ours).wall, run(other).wall
    return Row(
        name="ingest of 1 GB",
        value=mine,
        unit="s",
        bound=bound,
        at_most=False,
        against=against,
        against_value=theirs,
        ratio=theirs / mine,
    )


def _alto(work: Path, cache: Path, source: Path) -> Command:
    folder = work / "alto"
    python = peers.environment("alto", cache) / "python"
    script = Path(__file__).with_name("alto_ingest.py")
    return Command(
        [str(python), str(script), str(folder)],
        stdin=source,
        setup=lambda: shutil.rmtree(folder, ignore_errors=True),
    )


def _singer_jsonl(work: Path, cache: Path, source: Path) -> Command:
    folder = work / "singer-jsonl"
    config = folder.with_suffix(".json")
    config.write_text(json.dumps({"destination": "local", "local": {"folder": str(folder)}}))

    def empty() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    command = peers.environment("singer-jsonl", cache) / "target-singer-jsonl"
    return Command([str(command), "--config", str(config)], stdin=source, setup=empty)
