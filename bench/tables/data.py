"""The flights with a key that occurs one to eight times, in no order; and lakes of them."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import orjson

from bench.plugins import data

COPIES, ROWS = 8, 336_776
TAP, STREAM = "nyc", "flights"
_TARGET = "from target_singerlake.target import main; main()"


def keys() -> list[int]:
    """A key for each of the flights: 0 once, 1 twice, ..., 7 eight times, 8 once again; dealt out by chance."""
    made: list[int] = []
    key = 0
    while len(made) < COPIES * ROWS:
        made += [key] * (1 + key % 8)
        key += 1
    made = made[: COPIES * ROWS]
    random.Random(8).shuffle(made)
    return made


def keyed(cache: Path) -> Path:
    """A lake of them in eight files, kept between runs."""
    root = cache / f"tables-lake-{COPIES}"
    if not (root / "finished").exists():
        messages = cache / f"tables-{COPIES}.jsonl"
        with data.flights(COPIES).open("rb") as lines, messages.open("wb") as out:
            out.write(_schema(next(lines)))
            records = (line for line in lines if line.startswith(b'{"type":"RECORD"'))
            out.writelines(_with_key(line, key) for line, key in zip(records, keys(), strict=True))
        capture(root, messages)
        messages.unlink()
        (root / "finished").touch()
    return root


def more(cache: Path, lake: Path, name: str, wanted: Iterable[int]) -> Path:
    """A copy of ``lake``, tables and all, to which a flight for each of the keys ``wanted`` was added."""
    root = cache / f"tables-more-{name}"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(lake, root)
    messages = cache / f"tables-more-{name}.jsonl"
    with data.flights(COPIES).open("rb") as lines, messages.open("wb") as out:
        out.write(_schema(next(lines)))
        records = (line for line in lines if line.startswith(b'{"type":"RECORD"'))
        out.writelines(_with_key(line, key) for line, key in zip(records, wanted, strict=False))
    capture(root, messages)
    messages.unlink()
    return root


def many_streams(cache: Path, streams: int, records: int) -> Path:
    """A lake of that many streams of so many flights each."""
    root = cache / f"tables-streams-{streams}-{records}"
    if not (root / "finished").exists():
        with data.flights(COPIES).open("rb") as lines:
            schema = json.loads(next(lines))
            rows = [line for line in islice(lines, records + 10) if line.startswith(b'{"type":"RECORD"')][:records]
        messages = cache / "tables-streams.jsonl"
        with messages.open("wb") as out:
            out.writelines(_stream(schema, rows, f"flights_{index:03d}") for index in range(streams))
        capture(root, messages)
        messages.unlink()
        (root / "finished").touch()
    return root


def _stream(schema: dict[str, object], rows: list[bytes], name: str) -> bytes:
    own = {**schema, "stream": name}
    marked = (row.replace(b'"stream":"flights"', f'"stream":"{name}"'.encode(), 1) for row in rows)
    return orjson.dumps(own) + b"\n" + b"".join(marked)


def capture(root: Path, messages: Path) -> None:
    """Capture them in files of ``ROWS`` records."""
    config = messages.with_suffix(".json")
    settings = {"lake_root": str(root), "tap_id": TAP, "max_file_age_seconds": 0, "max_file_records": ROWS}
    config.write_text(json.dumps(settings))
    with messages.open("rb") as stdin:
        subprocess.run(
            [sys.executable, "-c", _TARGET, "--config", str(config)],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    config.unlink()


def _schema(line: bytes) -> bytes:
    schema = json.loads(line)
    schema["schema"]["properties"] = {"id": {"type": "integer"}, **schema["schema"]["properties"]}
    schema["key_properties"] = ["id"]
    return orjson.dumps(schema) + b"\n"


def _with_key(line: bytes, key: int) -> bytes:
    return line.replace(b'"record":{', b'"record":{"id":%d,' % key, 1)


def spread(most: int, count: int) -> Iterator[int]:
    """``count`` keys below ``most``, by chance."""
    return iter(random.Random(3).sample(range(most), count))
