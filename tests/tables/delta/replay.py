"""A reader of Delta logs in plain Python, by the protocol's text."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from singerlake.storage.port import Storage
from singerlake.tables.state.keys import table_prefix


@dataclass
class Replayed:
    """A version of a table. ``files`` are ``add`` actions by the paths of files."""

    version: int
    metadata: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return [each["name"] for each in json.loads(self.metadata["schemaString"])["fields"]]


def objects(storage: Storage, table: str) -> dict[str, bytes]:
    """The objects of a log by their names."""
    prefix = f"{table_prefix(table)}_delta_log/"
    found = {}
    for entry in storage.list(prefix):
        stored = storage.get(entry.key)
        assert stored is not None
        found[entry.key.removeprefix(prefix)] = stored.body
    return found


def replayed(storage: Storage, table: str, version: int | None = None) -> Replayed | None:
    """The table at a version, or at the last one; None where it has no log."""
    there = objects(storage, table)
    commits = {int(name[:20]): body for name, body in there.items() if re.fullmatch(r"\d{20}\.json", name)}
    if not commits:
        assert not there, "a log without commits"
        return None
    last = max(commits) if version is None else version
    checkpoints = {int(name[:20]): body for name, body in there.items() if name.endswith(".checkpoint.parquet")}
    first = max((number for number in checkpoints if number <= last), default=-1)
    made = Replayed(last)
    if first >= 0:
        for row in pq.read_table(io.BytesIO(checkpoints[first])).to_pylist():
            # What was removed stands in a checkpoint for those who delete files.
            _take(made, {kind: what for kind, what in row.items() if what is not None and kind != "remove"})
    for number in range(first + 1, last + 1):
        lines = [json.loads(line) for line in commits[number].splitlines()]
        assert all(len(line) == 1 for line in lines)
        for line in lines:
            _take(made, line)
    return made


def _take(made: Replayed, action: dict[str, Any]) -> None:
    for kind, what in action.items():
        if kind == "metaData":
            made.metadata = what
        elif kind == "protocol":
            made.protocol = what
        elif kind == "txn":
            made.transactions[what["appId"]] = what["version"]
        elif kind == "add":
            made.files[unquote(what["path"])] = what
        elif kind == "remove":
            del made.files[unquote(what["path"])]
        else:
            assert kind == "commitInfo", kind


def rows_in(storage: Storage, table: str, made: Replayed) -> list[dict[str, Any]]:
    """The rows of that version; what a file does not have is null."""
    rows = []
    for path, added in made.files.items():
        stored = storage.get(table_prefix(table) + path)
        assert stored is not None, f"{path} is gone"
        assert len(stored.body) == added["size"], path
        found = pq.read_table(io.BytesIO(stored.body)).to_pylist()
        check_stats(json.loads(added["stats"]), found, path)
        rows += [{name: row.get(name) for name in made.names} for row in found]
    return rows


def check_stats(stats: dict[str, Any], rows: list[dict[str, Any]], path: str) -> None:
    """All that statistics say of rows is so."""
    assert stats["numRecords"] == len(rows), path
    for name, count in stats["nullCount"].items():
        assert count == sum(row[name] is None for row in rows), f"{path}: {name}"
    assert stats["minValues"].keys() == stats["maxValues"].keys()
    for name, least in stats["minValues"].items():
        there = [_said(row[name]) for row in rows if row[name] is not None]
        assert (min(there), max(there)) == (least, stats["maxValues"][name]), f"{path}: {name}"


def _said(value: Any) -> Any:
    """A value as statistics say it."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value
