"""What loading the state of a stream of a million files takes, in a process that does nothing else."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.committing import MOMENT, SCHEMA, VERSION, Stream, new_file
from bench.measure import Command, Row, run
from singerlake.clock import random_id
from singerlake.format import fold, layout
from singerlake.format.manifest import to_json
from singerlake.format.model import DataFile, Manifest, Position, SchemaVersion
from singerlake.storage.port import Storage

FILES = 1_000_000
RUNS = 5


def rows(folder: Path) -> Iterator[Row]:
    """Through the store ``log``, whose newest snapshot is ``manifest.json``; in a new process each time."""
    root = folder / "million"
    key = root / layout.manifest_key("bench", "orders")
    key.parent.mkdir(parents=True)
    key.write_bytes(to_json(manifest("log", FILES)))
    peaks, seconds = zip(*(_load(root, folder / "seconds") for _ in range(RUNS)), strict=True)
    took = statistics.median(seconds)
    yield Row(name=f"log: load of a manifest of {FILES:,} files", value=took, unit="s", bound=3.0)
    peak = max(peaks)
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


def _load(root: Path, seconds: Path) -> tuple[float, float]:
    """The peak in MB of a process that does nothing else, and the seconds that the load took in it."""
    peak = run(Command([sys.executable, "-m", "bench.million", str(root)], stdout=seconds)).peak_mb
    return peak, float(seconds.read_text())


def main() -> None:
    """Load the stream of the lake that the first argument names, and print the seconds."""
    store = Stream("log", sys.argv[1]).store()
    started = time.perf_counter()
    loaded = store.load()
    took = time.perf_counter() - started
    assert loaded is not None
    assert len(loaded.manifest.files) == FILES
    print(took)


if __name__ == "__main__":
    main()
