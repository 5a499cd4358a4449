"""How long a commit takes on a stream of a million files, against one of a thousand: side by side, in one process for
each store, the two in turn."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.commits.committing import CLOCK, Stream, birth, transaction
from bench.commits.million import FILES, manifest, put_manifest
from bench.measure import Row
from singerlake.adapters import open_storage
from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.stores.commit import commit_transaction
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore

FEW = 1_000
COMMITS = 200
_WARM = 10

_FILES_LIKE_IT = """
    INSERT INTO file_references (table_id, file_id, "offset", body)
    SELECT table_id, id, n * 1000, replace(replace(body, file_id, id), '"offset":0', '"offset":' || n * 1000)
    FROM file_references, generate_series(1, %(more)s) AS n, lpad(n::text, 16, '0') AS id
    WHERE table_id = %(table_id)s
"""
_FILES = """
    INSERT INTO files (table_id, file_id, path)
    SELECT table_id, id, replace(path, file_id, id)
    FROM files, generate_series(1, %(more)s) AS n, lpad(n::text, 16, '0') AS id
    WHERE table_id = %(table_id)s
"""
_HEAD = "UPDATE streams SET next_offset = (%(more)s + 1) * 1000 WHERE table_id = %(table_id)s"


def rows(folder: Path, stores: StoreSettings, s3: S3Settings) -> Iterator[Row]:
    """A process a store, since a million files fill one."""
    for kind in ("log", "dynamodb", "postgres"):
        given = json.dumps({"kind": kind, "folder": str(folder), "stores": asdict(stores), "s3": asdict(s3)})
        done = subprocess.run(
            [sys.executable, "-m", "bench.commits.latency"], input=given, text=True, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"{kind}: {done.stderr[-2000:]}")
        few, many = json.loads(done.stdout)
        yield Row(
            name=f"{kind}: a commit on {FILES:,} files",
            value=many * 1000,
            unit="ms",
            bound=1.2,
            against=f"on {FEW:,} files",
            against_value=few * 1000,
            ratio=many / few,
        )


def measure(few: tuple[ManifestStore, Loaded], many: tuple[ManifestStore, Loaded]) -> tuple[float, float]:
    """The medians of commits to both, in seconds."""
    sides = [few, many]
    seconds: list[list[float]] = [[], []]
    for number in range(_WARM + COMMITS):
        for side, (store, base) in enumerate(sides):
            wanted = transaction()
            started = time.perf_counter()
            outcome = commit_transaction(store, base, wanted, clock=CLOCK)
            took = time.perf_counter() - started
            assert isinstance(outcome, Loaded)
            sides[side] = store, outcome
            if number >= _WARM:
                seconds[side].append(took)
    return statistics.median(seconds[0]), statistics.median(seconds[1])


def filled(stream: Stream, files: int) -> tuple[ManifestStore, Loaded]:
    """A stream of so many files, made without committing each, and its state."""
    if stream.kind == "log":
        put_manifest(open_storage(stream.lake_root), stream.kind, files)
    elif stream.kind == "dynamodb":
        _fill_dynamodb(stream, files)
    else:
        _fill_postgres(stream, files)
    store = stream.store()
    loaded = store.load()
    assert loaded is not None
    assert len(loaded.manifest.files) == files
    return store, loaded


def _fill_dynamodb(stream: Stream, files: int) -> None:
    from singerlake.stores.dynamodb.client import DynamoTable
    from singerlake.stores.dynamodb.log import DynamoLog

    stores = stream.stores
    table = DynamoTable(stores.dynamodb_table, stream.s3, endpoint_url=stores.dynamodb_endpoint_url, clock=CLOCK)
    place = StreamPlace(open_storage(stream.lake_root), "bench", "orders", CLOCK, random_id)
    log = DynamoLog(place, table, table_id=_table_id(stream))
    log.snapshot(manifest(stream.kind, files))
    log.raise_floor(files)


def _fill_postgres(stream: Stream, files: int) -> None:
    import psycopg

    store = stream.store()
    commit_transaction(store, birth(store), transaction(), clock=CLOCK)
    arguments: dict[str, Any] = {"more": files - 1, "table_id": _table_id(stream)}
    with psycopg.connect(stream.stores.postgres_url or "") as connection:
        connection.execute(f"SET search_path TO {stream.stores.postgres_schema}")
        for statement in (_FILES_LIKE_IT, _FILES, _HEAD):
            connection.execute(statement, arguments)
    with psycopg.connect(stream.stores.postgres_url or "", autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _table_id(stream: Stream) -> str:
    lake = Lake(open_storage(stream.lake_root))
    return f"{lake.lake_id(stream.kind)}/{layout.tap_segment('bench')}/{layout.stream_segment('orders')}"


def main() -> None:
    """One store's two medians, as JSON; what to measure comes on standard input."""
    given = json.load(sys.stdin)
    stores, s3 = StoreSettings(**given["stores"]), S3Settings(**given["s3"])
    sides = [
        filled(Stream(given["kind"], f"{given['folder']}/{random_id()}", stores, s3), files) for files in (FEW, FILES)
    ]
    print(json.dumps(measure(*sides)))


if __name__ == "__main__":
    main()
