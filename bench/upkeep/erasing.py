"""How long ``singerlake erase`` takes to look for a hundred keys, and to write the files again that hold them, against
``singerlake verify`` of the same lake."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.measure import Command, Row, paired
from bench.plugins.ingest import SCRIPTS, TAP_ID
from singerlake.format import layout

RUNS = 3
_KEYS = 100
_STREAM = ("--tap", TAP_ID, "--stream", "flights")


def rows(lake: Path, verify: list[str]) -> Iterator[Row]:
    """Of a lake that holds flights, which ``verify`` checks; it stays as it is."""
    nobody, hours = lake.with_name("nobody.txt"), lake.with_name("hours.txt")
    nobody.write_text("".join(f"N{number}ZZZ\n" for number in range(_KEYS)))
    hours.write_text("".join(f"2013-01-{1 + at // 15:02}T{5 + at % 15:02}:00:00Z\n" for at in range(_KEYS)))
    for engine in ("processes", "threads"):
        with_engine = ["--engine", engine]
        yield paired(
            f"look for {_KEYS} keys that no record has, {engine}",
            Command([*_erase(lake, f"tailnum in @{nobody}"), *with_engine]),
            "verify",
            Command([*verify, *with_engine]),
            bound=2.5,
            runs=RUNS,
        )
    copy = lake.with_name("copy")
    yield paired(
        f"erase {_KEYS} keys that every file holds, processes",
        Command(
            [*_erase(copy, f"time_hour in @{hours}"), "--delete", "--engine", "processes"],
            setup=partial(_copied, lake, copy),
        ),
        "verify, then igzip -d and igzip -1 of every file",
        _checked_and_written(lake, verify),
        bound=2.5,
        runs=RUNS,
    )
    shutil.rmtree(copy)
    nobody.unlink()
    hours.unlink()


def _erase(lake: Path, where: str) -> list[str]:
    return [str(SCRIPTS / "singerlake"), "erase", str(lake), *_STREAM, "--where", where]


def _copied(lake: Path, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(lake, copy)


def _checked_and_written(lake: Path, verify: list[str]) -> Command:
    files = " ".join(f"'{file}'" for file in sorted(lake.rglob(f"*{layout.SUFFIX}")))
    tool = "igzip" if shutil.which("igzip") else f"'{sys.executable}' -m isal.igzip"
    again = f"for f in {files}; do {tool} -d -c \"$f\" | {tool} -1 -c > '{lake}.again'; done; rm '{lake}.again'"
    checked = " ".join(f"'{word}'" for word in (*verify, "--engine", "processes"))
    return Command(["bash", "-o", "pipefail", "-e", "-c", f"{checked}; {again}"])
