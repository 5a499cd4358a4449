"""How long the site of a lake of 200 streams with 20 schema versions each takes, how large its largest page is, and
what it takes in memory to tell of a stream of a million files."""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.commits.million import BOUND_MB, manifest, put_manifest
from bench.measure import Command, Row, run
from singerlake.adapters import open_storage
from singerlake.format import layout
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, SchemaVersion

STREAMS, VERSIONS, PROPERTIES = 200, 20, 30
FILES = 200
MILLION = 1_000_000
RUNS = 3


def rows(cache: Path) -> Iterator[Row]:
    """Each build is a process of its own, into a new folder."""
    work = cache / "site"
    shutil.rmtree(work, ignore_errors=True)
    lake, output = work / "lake", work / "output"
    storage = open_storage(str(lake))
    for number in range(STREAMS):
        made = stream(f"stream_{number:03}")
        storage.put(layout.manifest_key(made.tap, made.stream), to_json(made))
    took = statistics.median(run(_build(lake, output)).wall for _ in range(RUNS))
    largest = max(page.stat().st_size for page in output.rglob("*.html"))
    yield Row(name=f"site of {STREAMS} streams with {VERSIONS} versions each", value=took, unit="s", bound=10)
    yield Row(name="largest page of that site", value=largest / 1000, unit="kB", bound=300)
    put_manifest(open_storage(str(work / "million")), "lockfile", MILLION)
    done = run(_build(work / "million", output))
    yield Row(name=f"site of a stream of {MILLION:,} files", value=done.wall, unit="s", bound=30)
    yield Row(name=f"memory, site of a stream of {MILLION:,} files", value=done.peak_mb, unit="MB", bound=BOUND_MB)
    shutil.rmtree(work)


def stream(name: str) -> Manifest:
    """A stream whose schema changes ten days of files after ten, each time by one property more and one of another
    type."""
    empty = manifest("lockfile", FILES)
    schemas = [schema(number) for number in range(VERSIONS)]
    hashes = [schema_hash(each) for each in schemas]
    files = [
        msgspec.structs.replace(
            file,
            version=hashes[number * VERSIONS // FILES],
            last=f"2026-{number // 25 + 1:02}-{number % 25 + 1:02}T03:00",
        )
        for number, file in enumerate(empty.files)
    ]
    return msgspec.structs.replace(
        empty,
        tap=f"tap-{name[-1]}",
        stream=name,
        versions={each: f"v{number}" for number, each in enumerate(hashes, 1)},
        schemas={
            each: SchemaVersion(
                schema=schemas[number],
                key_properties=("id",),
                first_offset=number * FILES // VERSIONS * 1000,
                first_seen=f"2026-{number % 12 + 1:02}-01T03:00:00Z",
            )
            for number, each in enumerate(hashes)
        },
        files=files,
    )


def schema(number: int) -> dict[str, Any]:
    """The schema of a version: ``PROPERTIES`` and ``number`` more, described, some of them objects."""
    properties: dict[str, Any] = {"id": {"type": "integer"}}
    for each in range(PROPERTIES + number):
        kind = "number" if each < number else "integer"
        properties[f"property_{each:02}"] = {"type": ["null", kind], "description": f"What number {each} stands for"}
    inner = {name: {"type": "string"} for name in ("street", "city", "zip")}
    properties["address"] = {"type": "object", "properties": inner}
    return {"type": "object", "properties": properties, "required": ["id"]}


def _build(lake: Path, output: Path) -> Command:
    program = "from singerlake.cli.main import main; main()"
    return Command(
        [sys.executable, "-c", program, "docs", "build", str(lake), "--output", str(output)],
        setup=lambda: shutil.rmtree(output, ignore_errors=True),
    )
