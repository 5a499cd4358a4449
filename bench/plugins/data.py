"""The input of the ingest and replay benchmarks: real flights as Singer messages, generated once and kept."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

STATE_EVERY = 50_000
"""Rows between two STATE messages."""
KEYS = ["time_hour", "carrier", "flight"]
_START = datetime(2026, 1, 1, tzinfo=UTC)
_VERSION = 2


def folder() -> Path:
    """Where generated input is kept between runs: ``$SINGERLAKE_BENCH_DIR``, or one in the temporary directory."""
    chosen = os.environ.get("SINGERLAKE_BENCH_DIR")
    found = Path(chosen) if chosen else Path(tempfile.gettempdir()) / "singerlake-bench"
    found.mkdir(parents=True, exist_ok=True)
    return found


def flights(copies: int = 8) -> Path:
    """``copies`` times the 336,776 flights of 2013, about 130 MB each: SCHEMA, RECORDs whose ``time_extracted`` are a
    millisecond apart, a STATE every 50,000 rows and at the end."""
    path = folder() / f"flights-{copies}-{_VERSION}.jsonl"
    if not path.exists():
        with _written(path) as target, target.open("wb") as out:
            rows = _rows()
            schema = {"type": "SCHEMA", "stream": "flights", "schema": _schema(rows[0]), "key_properties": KEYS}
            out.write(orjson.dumps(schema) + b"\n")
            number = 0
            for _ in range(copies):
                for row in rows:
                    out.write(_record("flights", row, number))
                    number += 1
                    if number % STATE_EVERY == 0:
                        out.write(_state(number))
            out.write(_state(number))
    return path


def interleaved(streams: int = 1000, records: int = 336_776) -> Path:
    """The flights dealt out to ``streams`` streams in turn, one record each: the worst order there is."""
    path = folder() / f"interleaved-{streams}-{records}-{_VERSION}.jsonl"
    if not path.exists():
        with _written(path) as target, target.open("wb") as out:
            rows = _rows()
            names = [f"flights_{index:04d}" for index in range(streams)]
            for name in names:
                schema = {"type": "SCHEMA", "stream": name, "schema": _schema(rows[0]), "key_properties": KEYS}
                out.write(orjson.dumps(schema) + b"\n")
            for number in range(records):
                out.write(_record(names[number % streams], rows[number % len(rows)], number))
            out.write(_state(records))
    return path


def odd(copies: int = 8) -> Path:
    """The flights as ``flights`` has them, as some tap in Python may write them: the record first, spaces after colons
    and commas, an escape in every record."""
    path = folder() / f"odd-{copies}-{_VERSION}.jsonl"
    if not path.exists():
        with _written(path) as target, target.open("wb") as out, flights(copies).open("rb") as plain:
            for line in plain:
                message = orjson.loads(line)
                if message["type"] == "RECORD":
                    message["record"]["carrier"] += "é"
                    message = dict(sorted(message.items()))
                out.write(json.dumps(message).encode() + b"\n")
    return path


def _rows() -> list[dict[str, object]]:
    from tools.nycflights import flights

    table = flights()
    clean = table.astype(object).where(table.notna(), None)
    return list(clean.to_dict("records"))


def _record(stream: str, row: dict[str, object], number: int) -> bytes:
    moment = (_START + timedelta(milliseconds=number)).isoformat(timespec="microseconds")
    message = {"type": "RECORD", "stream": stream, "record": row, "time_extracted": moment.replace("+00:00", "Z")}
    return orjson.dumps(message, default=int, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


def _state(number: int) -> bytes:
    return orjson.dumps({"type": "STATE", "value": {"bookmarks": {"flights": {"row": number}}}}) + b"\n"


def _schema(row: dict[str, object]) -> dict[str, object]:
    def kind(value: object) -> str:
        return "string" if isinstance(value, str) else "number"

    properties = {name: {"type": ["null", kind(value)]} for name, value in row.items()}
    return {"type": "object", "properties": properties}


@contextmanager
def _written(path: Path) -> Iterator[Path]:
    """Where to write what becomes ``path`` when it is there whole."""
    partial = path.with_suffix(".partial")
    yield partial
    partial.replace(path)
