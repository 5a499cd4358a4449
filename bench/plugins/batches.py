"""How long replay takes by BATCH against replay by RECORD, alone and into a target that loads files."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Command, Row, paired
from bench.plugins import peers
from bench.plugins.replay import TAP_ID, flights_lake, piped
from tools.postgres import Server, postgres_server

SCRIPTS = Path(sys.executable).parent
LOADED = 100_000
"""Records that are loaded into PostgreSQL: a target takes a minute for some hundred thousand."""


def rows(cache: Path) -> Iterator[Row]:
    """Whole processes; each run by BATCH writes its files anew."""
    lake = flights_lake(cache)
    work = cache / "batches"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    records = piped(_tap(work / "records.json", lake))
    for compression, bound in (("none", 1.0), ("gzip", 1.25)):
        out = work / compression
        config = {"encoding": {"compression": compression}, "storage": {"root": str(out)}}
        batches = piped(_tap(work / f"{compression}.json", lake, batch_config=config)).argv
        ours = Command(batches, setup=lambda out=out: shutil.rmtree(out, ignore_errors=True))  # type: ignore[misc]
        name = "replay of 1 GB by BATCH into cat, " + {"none": "plain", "gzip": "gzip"}[compression]
        yield paired(name, ours, "by RECORD into cat", records, bound=bound)
    with postgres_server() as server:
        config = {"storage": {"root": str(work / "loaded")}}
        by_batch = _load(work / "load-batch", lake, cache, server, batch_config=config)
        by_record = _load(work / "load-record", lake, cache, server)
        name = f"load of {LOADED:,} records into target-postgres by BATCH"
        yield paired(name, by_batch, "by RECORD", by_record, bound=1.0, runs=1)
    shutil.rmtree(work, ignore_errors=True)


def _tap(config: Path, lake: Path, **settings: Any) -> list[str]:
    config.write_text(json.dumps({"lake_root": str(lake), "tap_id": TAP_ID, **settings}))
    return [str(SCRIPTS / "tap-singerlake"), "--config", str(config)]


def _load(work: Path, lake: Path, cache: Path, server: Server, **settings: Any) -> Command:
    """The tap into MeltanoLabs' target, in a schema of its own."""
    work.mkdir()
    tap = _tap(work / "tap.json", lake, max_records=LOADED, **settings)
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    place = {"database": server.database, "default_target_schema": work.name.replace("-", "_")}
    config = work / "target.json"
    config.write_text(json.dumps({**login, **place, "add_record_metadata": False, "activate_version": False}))
    target = [str(peers.environment("target-postgres", cache) / "target-postgres"), "--config", str(config)]
    return Command(["sh", "-c", f"{shlex.join(tap)} | {shlex.join(target)}"])
