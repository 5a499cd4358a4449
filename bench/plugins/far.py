"""How long capture and replay of 1 GB take where the lake is on S3, 30 ms and 200 MB a second a connection away,
against a lake on the local disk."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bench.commits.slow import slow_wire
from bench.measure import Command, Row, paired, run
from bench.plugins import data
from tests.servers.s3 import s3_server

SCRIPTS = Path(sys.executable).parent
SECONDS = 0.03
RATE = 200e6


def rows(cache: Path) -> Iterator[Row]:
    """The server is one for tests, on this machine, where it takes its share of the processors."""
    work = cache / "far"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    flights = data.flights()
    with s3_server() as server:
        server.create_bucket("lake")
        port = urlsplit(server.endpoint_url).port
        assert port is not None
        with slow_wire(port, SECONDS, rate=RATE) as slow:
            far = {"lake_root": "s3://lake/flights", "s3_endpoint_url": f"http://127.0.0.1:{slow}"}
            near = {"lake_root": str(work / "lake")}
            env = server.environment()
            ours, local = (_command("target-singerlake", work, lake, flights, env) for lake in (far, near))
            # Each captures once, since the second capture would find the first one's files.
            seconds, against = run(ours).wall, run(local).wall
            yield Row(
                name="capture of 1 GB to S3",
                value=seconds,
                unit="s",
                against="to the local disk",
                against_value=against,
                ratio=seconds / against,
                bound=1.25,
            )
            ours, local = (_command("tap-singerlake", work, lake, None, env) for lake in (far, near))
            yield paired("replay of 1 GB from S3", ours, "from the local disk", local, bound=1.25)
    shutil.rmtree(work, ignore_errors=True)


def _command(plugin: str, work: Path, lake: dict[str, str], source: Path | None, env: dict[str, str]) -> Command:
    path = work / f"{plugin}-{'far' if 's3_endpoint_url' in lake else 'near'}.json"
    path.write_text(json.dumps({"tap_id": "bench", **lake}))
    return Command([str(SCRIPTS / plugin), "--config", str(path)], stdin=source, env=env)
