"""Manifests and manifest lists of version 2 of the Iceberg specification: Avro files, whose fields have ids.

Optional fields that are never set are there all the same, since readers look for them by name.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from singerlake.errors import CorruptObjectError, SettingError
from singerlake.format.exact_json import encode

_ADDED, _EXISTING, _DELETED = "added_files_count", "existing_files_count", "deleted_files_count"
EXISTING, ADDED, DELETED = 0, 1, 2
"""What an entry of a manifest says of its file."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of ``rows`` in ``bytes`` at the URL ``path``. ``snapshot`` and ``sequence`` are those that added it, and
    of a deleted one ``snapshot`` that which removed it."""

    status: int
    path: str
    rows: int
    bytes: int
    snapshot: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest of ``bytes`` at the URL ``path``, of ``entries``, that ``snapshot`` with that ``sequence`` wrote."""

    path: str
    bytes: int
    snapshot: int
    sequence: int
    entries: tuple[FileEntry, ...]


def manifest_of(entries: Iterable[FileEntry], schema: Mapping[str, Any]) -> bytes:
    """A manifest of data files. Raises ``SettingError`` without fastavro."""
    records = [
        {
            "status": each.status,
            "snapshot_id": each.snapshot,
            "sequence_number": each.sequence,
            "file_sequence_number": each.sequence,
            "data_file": {
                "content": 0,
                "file_path": each.path,
                "file_format": "PARQUET",
                "partition": {},
                "record_count": each.rows,
                "file_size_in_bytes": each.bytes,
            },
        }
        for each in entries
    ]
    words = {
        "schema": encode(schema).decode(),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    return _avro(_MANIFEST, records, words)


def list_of(manifests: Iterable[ManifestEntry], words: Mapping[str, str]) -> bytes:
    """A manifest list; ``words`` are the metadata of the file. Raises as the other."""
    records = []
    for manifest in manifests:
        of = {status: [each for each in manifest.entries if each.status == status] for status in range(3)}
        counts = {
            f"{name}_{what}_count": sum(each.rows for each in of[status]) if what == "rows" else len(of[status])
            for status, name in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted"))
            for what in ("files", "rows")
        }
        live = [each.sequence for each in (*of[ADDED], *of[EXISTING])]
        records.append(
            {
                "manifest_path": manifest.path,
                "manifest_length": manifest.bytes,
                "partition_spec_id": 0,
                "content": 0,
                "sequence_number": manifest.sequence,
                "min_sequence_number": min(live, default=manifest.sequence),
                "added_snapshot_id": manifest.snapshot,
                "partitions": [],
                **counts,
            }
        )
    return _avro(_LIST, records, words)


@dataclass(frozen=True, slots=True)
class Listed:
    """A manifest in a list: its URL, and whether it has files of the snapshot, and such as went with it."""

    path: str
    has_files: bool
    has_deleted: bool


def manifests_in(body: bytes, *, key: str) -> list[Listed]:
    """The manifests in a manifest list. Raises ``CorruptObjectError``."""
    try:
        return [
            Listed(each["manifest_path"], bool(each[_ADDED] + each[_EXISTING]), each[_DELETED] > 0)
            for each in _records(body, key)
        ]
    except (KeyError, TypeError) as error:
        raise _broken(key) from error


def files_in(body: bytes, *, key: str) -> Iterator[FileEntry]:
    """The entries of a manifest. Raises ``CorruptObjectError``."""
    try:
        for record in _records(body, key):
            file = record["data_file"]
            numbers = (file["record_count"], file["file_size_in_bytes"])
            yield FileEntry(
                record["status"], file["file_path"], *numbers, record["snapshot_id"], record["sequence_number"]
            )
    except (KeyError, TypeError) as error:
        raise _broken(key) from error


def require_avro() -> Any:
    """The library that reads and writes Avro. Raises ``SettingError`` where it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise SettingError("Iceberg metadata needs fastavro", hint="run: pip install 'singerlake[iceberg]'") from error
    return fastavro


def _avro(schema: Mapping[str, Any], records: list[dict[str, Any]], words: Mapping[str, str]) -> bytes:
    file = io.BytesIO()
    require_avro().writer(file, schema, records, codec="deflate", metadata=dict(words))
    return file.getvalue()


def _records(body: bytes, key: str) -> list[Any]:
    fastavro = require_avro()
    try:
        return list(fastavro.reader(io.BytesIO(body)))
    except Exception as error:
        # What fastavro raises of a file that is cut is of many classes.
        raise _broken(key) from error


def _broken(key: str) -> CorruptObjectError:
    return CorruptObjectError("not a manifest of Iceberg", hint="run 'singerlake project run'", key=key)


def _field(id: int, name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "field-id": id}


def _optional(id: int, name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type], "default": None, "field-id": id}


def _by_column(id: int, name: str, value: Any, key_id: int) -> dict[str, Any]:
    """A map from ids of columns, which Avro has as an array."""
    fields = [_field(key_id, "key", "int"), _field(key_id + 1, "value", value)]
    entry = {"type": "record", "name": f"k{key_id}_v{key_id + 1}", "fields": fields}
    return _optional(id, name, {"type": "array", "items": entry, "logicalType": "map"})


_DATA_FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _by_column(108, "column_sizes", "long", 117),
        _by_column(109, "value_counts", "long", 119),
        _by_column(110, "null_value_counts", "long", 121),
        _by_column(137, "nan_value_counts", "long", 138),
        _by_column(125, "lower_bounds", "bytes", 126),
        _by_column(128, "upper_bounds", "bytes", 129),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
        _optional(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}),
        _optional(140, "sort_order_id", "int"),
    ],
}
_MANIFEST = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field(0, "status", "int"),
        _optional(1, "snapshot_id", "long"),
        _optional(3, "sequence_number", "long"),
        _optional(4, "file_sequence_number", "long"),
        _field(2, "data_file", _DATA_FILE),
    ],
}
_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _field(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
        _optional(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
        _optional(519, "key_metadata", "bytes"),
    ],
}
