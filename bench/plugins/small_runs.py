"""What a hundred runs of ten records each into one stream take, and the replay after them: on a local disk, and on S3
where every request takes 30 ms."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Command, Row, run
from bench.plugins.far_server import ENVIRONMENT, far_server

SCRIPTS = Path(sys.executable).parent
RUNS = 100
SECONDS = 0.03


def rows(cache: Path) -> Iterator[Row]:
    """Whole processes one after the other; the S3 server is a small one in memory, on this machine."""
    work = cache / "small-runs"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    bare = Command([sys.executable, "-c", "import singer_sdk"])
    start = statistics.median(run(bare).wall for _ in range(5))
    yield from _rows("local", work, {"lake_root": str(work / "lake")}, {}, start, RUNS, bounds=(2.5, 2.2))
    with far_server(SECONDS, math.inf) as url:
        config = {"lake_root": "s3://lake/small", "s3_endpoint_url": url}
        yield from _rows("S3 at 30 ms", work, config, ENVIRONMENT, start, RUNS, bounds=(6.0, 4.0))


def _rows(
    where: str,
    work: Path,
    config: dict[str, str],
    env: dict[str, str],
    start: float,
    runs: int,
    *,
    bounds: tuple[float, float],
) -> Iterator[Row]:
    path = work / f"{where}.json"
    path.write_text(json.dumps({"tap_id": "bench", **config}))

    def capture(number: int) -> float:
        given = work / "messages.jsonl"
        given.write_text("".join(json.dumps(message) + "\n" for message in messages(number)))
        return run(Command([str(SCRIPTS / "target-singerlake"), "--config", str(path)], stdin=given, env=env)).wall

    seconds = [capture(number) for number in range(runs)]
    yield _row(f"a run of ten records, {where}, of {runs}", seconds, start, bounds[0])
    out = work / "out"
    tap = [str(SCRIPTS / "tap-singerlake"), "--config", str(path)]
    run(Command(tap, stdout=out, env=env))
    state = work / "state.json"
    state.write_text(json.dumps(json.loads(out.read_bytes().splitlines()[-1])["value"]))
    replay = Command([*tap, "--state", str(state)], env=env)
    yield _row(f"a replay of nothing new, {where}", [run(replay).wall for _ in range(5)], start, bounds[1])


def messages(number: int) -> list[dict[str, Any]]:
    """The input of one run."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    records = range(10 * number, 10 * number + 10)
    return [
        {"type": "SCHEMA", "stream": "s", "schema": schema, "key_properties": ["id"]},
        *({"type": "RECORD", "stream": "s", "record": {"id": each}} for each in records),
        {"type": "STATE", "value": {"number": number}},
    ]


def _row(name: str, seconds: list[float], start: float, bound: float) -> Row:
    median = statistics.median(seconds)
    return Row(
        name=name,
        value=median,
        unit="s",
        against="import singer_sdk",
        against_value=start,
        ratio=median / start,
        bound=bound,
    )
