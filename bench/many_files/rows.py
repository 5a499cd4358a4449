"""What a stream of ten million files costs who uses it: to open it, to read its end, to write to it, to keep it.

The state is real, and data files are made up, but for the last ones. Whole processes, their start among it.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.commits.committing import SCHEMA
from bench.many_files import lake
from bench.measure import Command, Row, paired, run
from singerlake.lake import Lake

FILES = 10_000_000
FEW = 1_000
LAST = 1_000
"""Messages at the end of the stream that are read."""
RUNS = 5
_SCRIPTS = Path(sys.executable).parent
_MOST_SECONDS, _MOST_MB = 3.0, 250.0


def rows(cache: Path) -> Iterator[Row]:
    """The lakes are made in minutes, and not kept."""
    work = cache / "many-files"
    shutil.rmtree(work, ignore_errors=True)
    try:
        lake.make(work / "many", "log", FILES)
        yield from _kept(work / "many")
        yield from _shown(work / "many")
        yield from _read(work)
        yield from _written(work)
        shutil.rmtree(work)
        yield from _whole(work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _shown(root: Path) -> Iterator[Row]:
    for command in (["ls"], ["status"], ["versions", "--tap=bench", "--stream=orders"]):
        argv = [str(_SCRIPTS / "singerlake"), command[0], str(root), *command[1:]]
        yield from _both(f"singerlake {command[0]} of {FILES:,} files", argv, seconds=_MOST_SECONDS, aim=1.0)


def _read(work: Path) -> Iterator[Row]:
    """The last messages, by the tap from a bookmark and by an Arrow reader, which plans as Spark's does."""
    state = Lake.open(str(work / "many")).stream("bench", "orders").snapshot()
    begin = state.next_offset - LAST
    bookmark = {"bookmarks": {"orders": {"lineage": state.lineage, "offset": begin}}}
    config, bookmarks = work / "tap.json", work / "state.json"
    config.write_text(json.dumps({"lake_root": str(work / "many"), "tap_id": "bench"}))
    bookmarks.write_text(json.dumps(bookmark))
    tap = [str(_SCRIPTS / "tap-singerlake"), "--config", str(config), "--state", str(bookmarks)]
    where = f"of {FILES:,} files"
    yield from _both(f"tap: the last {LAST:,} messages {where}", tap, seconds=2.0, aim=0.7)
    plan = [sys.executable, "-m", "bench.many_files.planned", str(work / "many"), str(begin)]
    yield from _both(f"plan of Spark's reader from_offset, {LAST:,} messages {where}", plan, seconds=2.0, aim=0.7)


def _written(work: Path) -> Iterator[Row]:
    """A run of one record, then commits in one process on both streams in turn."""
    lake.make(work / "few", "log", FEW)
    config, lines = work / "target.json", work / "lines"
    config.write_text(json.dumps({"lake_root": str(work / "many"), "tap_id": "bench"}))
    schema = {"type": "SCHEMA", "stream": "orders", "schema": SCHEMA.schema, "key_properties": ["id"]}
    record = {"type": "RECORD", "stream": "orders", "record": {"id": 1}}
    lines.write_text("".join(json.dumps(each) + "\n" for each in (schema, record)))
    argv = [str(_SCRIPTS / "target-singerlake"), "--config", str(config)]
    runs = [run(Command(argv, stdin=lines)).wall for _ in range(RUNS)]
    name = f"target: a run of one record on {FILES:,} files"
    yield Row(name=name, value=statistics.median(runs), unit="s", bound=3.0, aim=1.0)
    told = work / "told.json"
    run(Command([sys.executable, "-m", "bench.many_files.committed", str(work)], stdout=told))
    many, few, ratio = json.loads(told.read_text())
    yield Row(
        name=f"a commit on {FILES:,} files",
        value=many * 1000,
        unit="ms",
        against=f"on {FEW:,} files",
        against_value=few * 1000,
        ratio=ratio,
        bound=1.1,
        aim=1.05,
    )


def _kept(root: Path) -> Iterator[Row]:
    for what, command in (
        ("verify --sample 0.1%", ["verify", "--sample=0.1%", "--threads=1"]),
        ("vacuum --dry-run", ["vacuum", "--dry-run"]),
        ("gc", ["gc"]),
    ):
        peak = run(Command([sys.executable, "-m", "bench.many_files.made_up", str(root), *command])).peak_mb
        yield Row(name=f"memory, {what} of {FILES:,} files", value=peak, unit="MB", bound=500.0, aim=300.0)


def _whole(work: Path) -> Iterator[Row]:
    """All entries of a state with segments, against the one object that earlier versions wrote."""
    million = 1_000_000
    lake.make(work / "segments", "log", million)
    lake.make(work / "object", "log", million, segments=False)

    def read(folder: str) -> Command:
        return Command([sys.executable, "-m", "bench.many_files.whole", str(work / folder)])

    yield paired(
        f"whole list of {million:,} files in segments",
        read("segments"),
        "in one object",
        read("object"),
        bound=1.0,
        aim=0.5,
        runs=RUNS,
    )


def _both(name: str, argv: Sequence[str], *, seconds: float, aim: float) -> Iterator[Row]:
    """The time of a command, and the most memory that it took."""
    measured = [run(Command(argv)) for _ in range(RUNS)]
    took = statistics.median(each.wall for each in measured)
    yield Row(name=name, value=took, unit="s", bound=seconds, aim=aim)
    peak = max(each.peak_mb for each in measured)
    yield Row(name=f"memory, {name}", value=peak, unit="MB", bound=_MOST_MB, aim=150.0)
