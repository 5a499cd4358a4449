"""A reader of Iceberg metadata in plain Python, by the specification's text. Avro is read by fastavro."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from singerlake.storage.port import Storage
from singerlake.tables.state.keys import table_prefix

PREFIX = f"{table_prefix('t')}metadata/"


@dataclass(frozen=True)
class Seen:
    """A version of the metadata."""

    version: int
    body: dict[str, Any]

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        """The oldest first."""
        found: list[dict[str, Any]] = self.body["snapshots"]
        return found

    @property
    def current(self) -> dict[str, Any]:
        return next(each for each in self.snapshots if each["snapshot-id"] == self.body["current-snapshot-id"])


def objects(storage: Storage) -> dict[str, bytes]:
    """The objects of the metadata by their names."""
    return {entry.key.removeprefix(PREFIX): body_at(storage, entry.key) for entry in storage.list(PREFIX)}


def body_at(storage: Storage, key: str) -> bytes:
    stored = storage.get(key)
    assert stored is not None, f"{key} is gone"
    return stored.body


def seen(storage: Storage, *, by_hint: bool = False) -> Seen:
    """The newest metadata, as engines find it that list, or those that trust the hint."""
    there = objects(storage)
    versions = [int(match[1]) for name in there if (match := re.fullmatch(r"v(\d+)\.metadata\.json", name))]
    version = int(there["version-hint.text"]) if by_hint else max(versions)
    return Seen(version, json.loads(there[f"v{version}.metadata.json"]))


def newest_rows(storage: Storage, *, by_hint: bool = False) -> list[dict[str, Any]] | None:
    """The rows that engines find; None where they find no table."""
    there = objects(storage)
    if not ("version-hint.text" in there if by_hint else any(name.endswith(".metadata.json") for name in there)):
        return None
    made = seen(storage, by_hint=by_hint)
    return rows_in(storage, made, made.current)


def entries(storage: Storage, made: Seen, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """All entries of a snapshot's manifests, whose counts are those of its manifest list."""
    found: list[dict[str, Any]] = []
    for listed in _avro(storage, made, snapshot["manifest-list"]):
        assert listed["manifest_length"] == len(body_at(storage, _key(made, listed["manifest_path"])))
        own = list(_avro(storage, made, listed["manifest_path"]))
        for status, name in enumerate(("existing", "added", "deleted")):
            of = [each["data_file"]["record_count"] for each in own if each["status"] == status]
            assert (listed[f"{name}_files_count"], listed[f"{name}_rows_count"]) == (len(of), sum(of))
        live = [each["sequence_number"] for each in own if each["status"] != 2]
        assert listed["min_sequence_number"] == min(live, default=listed["sequence_number"])
        assert listed["sequence_number"] == snapshot["sequence-number"]
        found += own
    return found


def rows_in(storage: Storage, made: Seen, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a snapshot with the columns of its schema, found in files by their ids alone."""
    schema = next(each for each in made.body["schemas"] if each["schema-id"] == snapshot["schema-id"])
    rows = []
    for entry in entries(storage, made, snapshot):
        file = entry["data_file"]
        if entry["status"] == 2:
            continue
        body = body_at(storage, _key(made, file["file_path"]))
        assert len(body) == file["file_size_in_bytes"]
        table = pq.read_table(io.BytesIO(body))
        assert table.num_rows == file["record_count"]
        places = {_id(field): place for place, field in enumerate(table.schema)}
        columns = [
            (each, table.schema.field(places[each["id"]]).type, table.column(places[each["id"]]).to_pylist())
            if each["id"] in places
            else (each, None, [None] * table.num_rows)
            for each in schema["fields"]
        ]
        rows += [
            {each["name"]: _value(each["type"], type, values[row]) for each, type, values in columns}
            for row in range(table.num_rows)
        ]
    return rows


def _value(type: Any, arrow: Any, value: Any) -> Any:
    """A value by the ids of its fields."""
    if value is None or isinstance(type, str):
        return value
    if type["type"] == "list":
        assert _id(arrow.value_field) == type["element-id"]
        return [_value(type["element"], arrow.value_type, each) for each in value]
    names = {_id(arrow.field(place)): arrow.field(place) for place in range(arrow.num_fields)}
    return {
        each["name"]: _value(each["type"], names[each["id"]].type, value[names[each["id"]].name])
        if each["id"] in names
        else None
        for each in type["fields"]
    }


def _id(field: pa.Field) -> int:
    return int(field.metadata[b"PARQUET:field_id"])


def _key(made: Seen, path: str) -> str:
    within = path.removeprefix(made.body["location"] + "/")
    assert within != path, path
    return table_prefix("t") + within


def _avro(storage: Storage, made: Seen, path: str) -> Any:
    return fastavro.reader(io.BytesIO(body_at(storage, _key(made, path))))
