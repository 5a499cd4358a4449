"""What loading the state of a stream of a million files takes, and committing to it, in a process that does nothing
else."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.commits.committing import CLOCK, MOMENT, SCHEMA, VERSION, Stream, new_file, transaction
from bench.measure import Command, Row, run
from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Position, SchemaVersion
from singerlake.storage.port import Storage
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded

FILES = 1_000_000
BOUND_MB = 1430
"""What any command may take at so many files: 1.5e9 bytes."""
RUNS = 5


def rows(folder: Path) -> Iterator[Row]:
    """Through the store ``log``, whose newest snapshot is ``manifest.json``, and ``lockfile``, whose commits write all
    of it; in a new process each time."""
    root = folder / "million"
    key = root / layout.manifest_key("bench", "orders")
    key.parent.mkdir(parents=True)
    key.write_bytes(to_json(manifest("log", FILES)))
    peaks, seconds = zip(*(_run("load", root, folder / "seconds") for _ in range(RUNS)), strict=True)
    took = statistics.median(seconds)
    yield Row(name=f"log: load of a manifest of {FILES:,} files", value=took, unit="s", bound=3.0)
    yield _memory(f"log: memory, load of a manifest of {FILES:,} files", max(peaks))
    key.write_bytes(to_json(manifest("lockfile", FILES)))
    peak, _ = _run("race", root, folder / "seconds")
    yield _memory(f"lockfile: memory, a commit that others forestall where {FILES:,} files are listed", peak)


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


def _memory(name: str, peak: float) -> Row:
    return Row(name=name, value=peak, unit="MB", bound=BOUND_MB)


def _run(what: str, root: Path, seconds: Path) -> tuple[float, float]:
    """The peak in MB of a process that does nothing else, and the seconds that it took."""
    peak = run(Command([sys.executable, "-m", "bench.commits.million", what, str(root)], stdout=seconds)).peak_mb
    return peak, float(seconds.read_text())


def main() -> None:
    """Do what the first argument says with the stream of the lake that the second names, and print the seconds."""
    what, root = sys.argv[1:]
    print({"load": _load, "race": _race}[what](root))


def _load(root: str) -> float:
    store = Stream("log", root).store()
    started = time.perf_counter()
    loaded = store.load()
    took = time.perf_counter() - started
    assert loaded is not None
    assert len(loaded.manifest.files) == FILES
    return took


def _race(root: str) -> float:
    """A commit on a state whose mark is not that of the newest, so that the whole is read once more."""
    store = Stream("lockfile", root).store()
    base = store.load()
    assert base is not None
    started = time.perf_counter()
    outcome = commit_transaction(store, Loaded(base.manifest, "another"), transaction(), clock=CLOCK)
    took = time.perf_counter() - started
    assert isinstance(outcome, Loaded)
    assert len(outcome.manifest.files) == FILES + 1
    return took


if __name__ == "__main__":
    main()
