"""How long ``tap-singerlake`` takes to give a lake back, against unpacking the same files and against its peer."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, Row, paired, run
from bench.plugins import data, peers

SCRIPTS = Path(sys.executable).parent
TAP_ID = "bench"


def rows(cache: Path) -> Iterator[Row]:
    """Whole processes writing to ``/dev/null``, all of them reading the very same files."""
    lake = flights_lake(cache)
    files = sorted(str(path) for path in lake.rglob("*.singer.gz"))
    ours = Command([str(SCRIPTS / "tap-singerlake"), "--config", str(_config(lake))])
    yield paired("replay of 1 GB", ours, "zcat of the same files", Command(["zcat", *files]), bound=1.2, aim=0.8)
    # Most of a minute a run, so one pair has to do.
    yield paired("replay of 1 GB", ours, "tap-singer-jsonl 0.1.0", _peer(lake, cache), bound=12, faster=True, runs=1)


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
