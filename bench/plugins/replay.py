"""How long ``tap-singerlake`` takes to give a lake back, against unpacking the same files and against its peer."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, Row, paired, peak, run
from bench.plugins import data, peers

SCRIPTS = Path(sys.executable).parent
TAP_ID = "bench"


def rows(cache: Path) -> Iterator[Row]:
    """Whole processes writing to ``/dev/null``, all of them reading the very same files."""
    lake = flights_lake(cache)
    files = sorted(str(path) for path in lake.rglob("*.singer.gz"))
    tap = [str(SCRIPTS / "tap-singerlake"), "--config", str(_config(lake))]
    ours = Command(tap)
    yield paired("replay of 1 GB", ours, "zcat of the same files", Command(["zcat", *files]), bound=0.45, aim=0.3)
    inflate = unpacked(files)
    yield paired("replay of 1 GB", ours, "igzip -d of the same files", Command(inflate), bound=2.5, aim=1.6)
    yield paired("replay of 1 GB into cat", piped(tap), "igzip -d into cat", piped(inflate), bound=2.5, aim=1.6)
    yield peak("memory, replay of 1 GB", ours, bound_mb=80)
    # Most of a minute a run, so one pair has to do.
    yield paired("replay of 1 GB", ours, "tap-singer-jsonl 0.1.0", _peer(lake, cache), bound=12, faster=True, runs=1)


def unpacked(files: list[str]) -> list[str]:
    """What inflates the files with the fastest gzip there is; the same code from Python where the tool is missing."""
    if found := shutil.which("igzip"):
        return [found, "-d", "-c", *files]
    # It takes one file at a time.
    each = 'for file do "$0" -m isal.igzip -d -c "$file" || exit; done'
    return ["sh", "-c", each, sys.executable, *files]


def piped(argv: list[str]) -> Command:
    """The command into ``cat``, which writes to nothing."""
    return Command(["sh", "-c", '"$@" | cat', "sh", *argv])


def flights_lake(cache: Path) -> Path:
    """The lake that ``target-singerlake`` makes of the flights, made once and kept below ``cache``."""
    source = data.flights()
    lake = cache / f"lake-of-{source.stem}"
    done = lake / "complete"
    if not done.exists():
        shutil.rmtree(lake, ignore_errors=True)
        lake.mkdir(parents=True)
        run(Command([str(SCRIPTS / "target-singerlake"), "--config", str(_config(lake))], stdin=source))
        done.touch()
    return lake


def _config(lake: Path) -> Path:
    path = lake.with_suffix(".json")
    path.write_text(json.dumps({"lake_root": str(lake), "tap_id": TAP_ID}))
    return path


def _peer(lake: Path, cache: Path) -> Command:
    path = lake.with_suffix(".peer.json")
    local = {"folders": [str(lake / "raw" / TAP_ID)], "recursive": True}
    path.write_text(json.dumps({"source": "local", "local": local, "add_record_metadata": False}))
    return Command([str(peers.environment("singer-jsonl", cache) / "tap-singer-jsonl"), "--config", str(path)])
