"""How long ``singerlake verify`` takes, against what any check of compressed files takes, and how much memory it needs
where a million files are listed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.commits import million
from bench.measure import Command, Row, paired, peak, run
from bench.plugins import data
from bench.plugins.ingest import SCRIPTS, target
from bench.upkeep import erasing
from singerlake.format import layout
from singerlake.format.state.manifest import to_json

CAPTURES = 2
"""Of 1 GB of messages each, which makes some 290 MB compressed."""
RUNS = 3
_DRAWN = 1000


def rows(work: Path) -> Iterator[Row]:
    """In a folder for lakes, which it leaves empty."""
    lake = work / "flights"
    shutil.rmtree(lake, ignore_errors=True)
    capture = target(lake, data.flights(), max_file_bytes=16 << 20)
    for _ in range(CAPTURES):
        run(Command(capture.argv, stdin=capture.stdin))
    files = sorted(lake.rglob(f"*{layout.SUFFIX}"))
    stored = sum(file.stat().st_size for file in files) // 1_000_000
    for engine in ("processes", "threads"):
        yield paired(
            f"verify of {stored} MB compressed, {engine}",
            Command([*_verify(lake), "--engine", engine]),
            "sha256sum and igzip -t",
            _sums_and_tests(files),
            bound=1.5,
            runs=RUNS,
        )
    yield from erasing.rows(lake, _verify(lake))
    shutil.rmtree(lake)
    yield _peak(work / "listed")


def _sums_and_tests(files: list[Path]) -> Command:
    """``igzip -t`` of all files, or what it does from Python where the tool is missing."""
    names = " ".join(f"'{file}'" for file in files)
    if shutil.which("igzip"):
        return Command(["sh", "-c", f"sha256sum {names} && igzip -t {names}"])
    test = f"for f in {names}; do '{sys.executable}' -m isal.igzip -d -c \"$f\" > /dev/null || exit 1; done"
    return Command(["sh", "-c", f"sha256sum {names} && {test}"])


def _peak(lake: Path) -> Row:
    """Files of the listed sizes that take no space: presence and size are looked up, and those that are read are not
    gzip."""
    folder = lake / layout.stream_prefix("bench", "orders")
    listed = million.manifest("lockfile", million.FILES)
    for file in listed.files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as made:
            os.truncate(made.fileno(), file.bytes)
    (folder / layout.MANIFEST).write_bytes(to_json(listed))
    journal = lake / "journal"
    return peak(
        f"memory, verify of {_DRAWN:,} files where {million.FILES:,} are listed, with a journal",
        Command([*_verify(lake), "--sample", str(_DRAWN), "--journal", str(journal), "--ignore", "broken"]),
        bound_mb=million.BOUND_MB,
        runs=1,
    )


def _verify(lake: Path) -> list[str]:
    return [str(SCRIPTS / "singerlake"), "verify", str(lake)]
