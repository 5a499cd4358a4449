"""How long processes take to start, against the SDK that the plugins stand on."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Command, Row, paired, run
from bench.plugins.small_runs import messages

RUNS = 9


def rows(cache: Path) -> Iterator[Row]:
    """What a process does before it works, and a run that has next to nothing to do."""
    work = cache / "start"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    scripts, lake = Path(sys.executable).parent, work / "lake"
    schema, record, *_ = messages(0)
    config, one = work / "config.json", work / "one.jsonl"
    config.write_text(json.dumps({"lake_root": str(lake), "tap_id": "bench"}))
    one.write_text(json.dumps(schema) + "\n" + json.dumps(record) + "\n")
    capture = Command([str(scripts / "target-singerlake"), "--config", str(config)], stdin=one)
    run(capture)
    sdk = Command([sys.executable, "-c", "import singer_sdk"])
    for name, ours, bound in (
        ("start of target-singerlake --version", Command([str(scripts / "target-singerlake"), "--version"]), 1.15),
        ("start of tap-singerlake --version", Command([str(scripts / "tap-singerlake"), "--version"]), 1.15),
        ("capture of one record", capture, 1.3),
        ("singerlake ls", Command([str(scripts / "singerlake"), "ls", str(lake)]), 0.6),
    ):
        yield paired(name, ours, "import singer_sdk", sdk, bound=bound, runs=RUNS)
    shutil.rmtree(work, ignore_errors=True)
