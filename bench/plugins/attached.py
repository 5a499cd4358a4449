"""How long 10,000 files of 100 kB take into a lake on S3, whose records name them, against copying them with boto3 on
as many threads as ``aws s3 cp`` has: from a local folder, and from a bucket."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import Command, Row, paired
from bench.plugins.far_server import ENVIRONMENT, far_server
from bench.plugins.small_runs import SCRIPTS

FILES = 10_000
BYTES = 100_000
SECONDS = 0.01
RATE = 200e6
RUNS = 3
THREADS = 10
"""What ``aws s3 cp`` has by default."""

COPY = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import boto3, botocore.config

url, source, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
s3 = boto3.client("s3", endpoint_url=url, config=botocore.config.Config(max_pool_connections=threads))


def from_folder(path):
    s3.put_object(Bucket="lake", Key=f"copy/{path.name}", Body=path.read_bytes())


def from_bucket(name):
    body = s3.get_object(Bucket="from", Key=name)["Body"].read()
    s3.put_object(Bucket="lake", Key=f"copy/{name}", Body=body)


names = sys.stdin.read().split()
with ThreadPoolExecutor(threads) as pool:
    if source:
        list(pool.map(from_folder, [Path(source) / name for name in names]))
    else:
        list(pool.map(from_bucket, names))
"""


def rows(cache: Path) -> Iterator[Row]:
    """The server is a small one in memory, 10 ms and 200 MB a second a connection away, in a process of its own."""
    work = cache / "attached"
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "files"
    folder.mkdir(parents=True)
    names = [f"{number}.jpg" for number in range(FILES)]
    for name in names:
        (folder / name).write_bytes(os.urandom(BYTES))
    (work / "names").write_text("\n".join(names))
    with far_server(SECONDS, RATE) as url:
        client = _client(url)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda name: _put(client, folder / name), names))
        for what, source, place in (("a folder", str(folder), str(folder)), ("a bucket", "", "s3://from")):
            copied = [sys.executable, "-c", COPY, url, source, str(THREADS)]
            yield paired(
                f"{FILES:,} files of {BYTES // 1000} kB from {what} to S3",
                _capture(work, url, names, place, partial(_empty, client)),
                "boto3",
                Command(copied, stdin=work / "names", env=ENVIRONMENT, setup=partial(_empty, client)),
                bound=0.5,
                faster=True,
                runs=RUNS,
            )
    shutil.rmtree(work, ignore_errors=True)


def _capture(work: Path, url: str, names: list[str], place: str, setup: Any) -> Command:
    """A run of the target over records that name the files at ``place``."""
    config, source = work / "config.json", work / "messages.jsonl"
    settings = {"lake_root": "s3://lake/files", "s3_endpoint_url": url, "tap_id": "bench"}
    files = {"file_properties": {"photos": {"photo": "location"}}, "file_sources": [place]}
    config.write_text(json.dumps({**settings, **files}))
    schema = {"type": "object", "properties": {"photo": {"type": "string"}}}
    messages = [
        {"type": "SCHEMA", "stream": "photos", "schema": schema, "key_properties": []},
        *({"type": "RECORD", "stream": "photos", "record": {"photo": f"{place}/{name}"}} for name in names),
    ]
    source.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return Command(
        [str(SCRIPTS / "target-singerlake"), "--config", str(config)], stdin=source, env=ENVIRONMENT, setup=setup
    )


def _client(url: str) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name=ENVIRONMENT["AWS_DEFAULT_REGION"],
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )


def _put(client: Any, path: Path) -> None:
    client.put_object(Bucket="from", Key=path.name, Body=path.read_bytes())


def _empty(client: Any) -> None:
    """Remove what the command before has written: the server has all objects in memory."""
    keys = [each["Key"] for each in client.list_objects_v2(Bucket="lake").get("Contents", ())]
    for start in range(0, len(keys), 1000):
        page = [{"Key": key} for key in keys[start : start + 1000]]
        client.delete_objects(Bucket="lake", Delete={"Objects": page})
