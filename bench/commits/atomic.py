"""What an atomic run takes beside one that is not: of 1 GB, and of ten records to each of five streams."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Command, Row, paired, peak
from bench.plugins import data
from bench.plugins.far_server import ENVIRONMENT, far_server
from bench.plugins.ingest import SCRIPTS, target

SECONDS = 0.03
STREAMS = 5


def rows(cache: Path) -> Iterator[Row]:
    """Whole processes, into the manifest store ``log``; the S3 server is a small one in memory, on this machine."""
    work = cache / "atomic"
    shutil.rmtree(work, ignore_errors=True)
    flights = data.flights()
    atomic = target(work / "atomic", flights, manifest_store="log", atomic_run=True)
    plain = target(work / "plain", flights, manifest_store="log")
    yield paired("atomic run of 1 GB", atomic, "a plain one", plain, bound=1.15)
    yield peak("memory, atomic run of 1 GB", atomic, bound_mb=150)
    yield _small("local", work, {"lake_root": str(work / "lake")}, {}, bound=1.25)
    with far_server(SECONDS, math.inf) as url:
        config = {"lake_root": "s3://lake/atomic", "s3_endpoint_url": url}
        yield _small("S3 at 30 ms", work, config, ENVIRONMENT, bound=1.8)
    shutil.rmtree(work, ignore_errors=True)


def _small(where: str, work: Path, config: dict[str, str], env: dict[str, str], *, bound: float) -> Row:
    given = work / "messages.jsonl"
    given.write_text("".join(json.dumps(message) + "\n" for message in messages()))

    def command(tap: str, **settings: bool) -> Command:
        path = work / f"{tap}-{where}.json"
        path.write_text(json.dumps({"tap_id": tap, "manifest_store": "log", **config, **settings}))
        return Command([str(SCRIPTS / "target-singerlake"), "--config", str(path)], stdin=given, env=env)

    return paired(
        f"atomic run to {STREAMS} streams, {where}",
        command("atomic", atomic_run=True),
        "a plain one",
        command("plain"),
        bound=bound,
        runs=9,
    )


def messages() -> list[dict[str, Any]]:
    """Ten records for each stream, in turn."""
    names = [f"stream{number}" for number in range(STREAMS)]
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    return [
        *({"type": "SCHEMA", "stream": name, "schema": schema, "key_properties": ["id"]} for name in names),
        *({"type": "RECORD", "stream": name, "record": {"id": id}} for id in range(10) for name in names),
        {"type": "STATE", "value": {"at": 10}},
    ]
