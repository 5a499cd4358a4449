"""What loading the state of a stream of a million files takes, in a process that does nothing else."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.committing import MOMENT, SCHEMA, VERSION, Stream, birth, new_file
from bench.measure import Command, Row, run
from singerlake.clock import random_id
from singerlake.format import fold, layout
from singerlake.format.manifest import to_json
from singerlake.format.model import DataFile, Manifest, Position, SchemaVersion
from singerlake.storage.port import Storage

FILES = 1_000_000
RUNS = 3


def rows(folder: Path) -> Iterator[Row]:
    """Through the store ``log``, whose newest snapshot is ``manifest.json``; less what Python needs to start."""
    root = folder / "million"
    key = root / layout.manifest_key("bench", "orders")
    key.parent.mkdir(parents=True)
    key.write_bytes(to_json(manifest("log", FILES)))
    empty = folder / "empty"
    birth(Stream("log", str(empty)).store())
    loading = [run(_loading(root)) for _ in range(RUNS)]
    wall = statistics.median(one.wall for one in loading) - run(_loading(empty)).wall
    yield Row(name=f"log: load of a manifest of {FILES:,} files", value=wall, unit="s", bound=3.0)
    peak = max(one.peak_mb for one in loading)
    yield Row(name=f"log: memory, load of a manifest of {FILES:,} files", value=peak, unit="MB", bound=1500)


def manifest(kind: str, files: int) -> Manifest:
    """A state of so many files, each of a thousand records, as so many commits would have made it."""
    listed = [DataFile(**msgspec.structs.asdict(new_file()) | {"offset": number * 1000}) for number in range(files)]
    first = fold.empty(
        tap="bench", stream="orders", store=kind, lineage=random_id(), created=MOMENT, transaction_id=random_id()
    )
    schema = SchemaVersion(
        schema=SCHEMA.schema, key_properties=SCHEMA.key_properties, first_offset=0, first_seen=MOMENT
    )
    return msgspec.structs.replace(
        first,
        transaction=Position(files, random_id()),
        next_offset=files * 1000,
        versions={VERSION: "v1"},
        schemas={VERSION: schema},
        files=listed,
    )


def put_manifest(storage: Storage, kind: str, files: int) -> None:
    """Store such a state as ``manifest.json``."""
    storage.put(layout.manifest_key("bench", "orders"), to_json(manifest(kind, files)))


def _loading(root: Path) -> Command:
    return Command([sys.executable, "-m", "bench.million", str(root)])


if __name__ == "__main__":
    loaded = Stream("log", sys.argv[1]).store().load()
    assert loaded is not None
    assert len(loaded.manifest.files) in (0, FILES)
