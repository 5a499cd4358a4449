"""Manifests and manifest lists of version 2 of the Iceberg specification: Avro files, whose fields have ids.

Optional fields that are never set are there all the same, since readers look for them by name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from singerlake.errors import CorruptObjectError, SettingError
from singerlake.format.exact_json import encode

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SPEC = "partition-spec-id"
_ADDED, _EXISTING, _DELETED = "added_files_count", "existing_files_count", "deleted_files_count"
EXISTING, ADDED, DELETED = 0, 1, 2
"""What an entry of a manifest says of its file."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of ``rows`` in ``bytes`` at the URL ``path``. ``snapshot`` and ``sequence`` are those that added it, and
    of a deleted one ``snapshot`` that which removed it. ``partition`` has the values of the fields of its ``spec``, and
    its rows are in that ``order``, both by their ids."""

    status: int
    path: str
    rows: int
    bytes: int
    snapshot: int
    sequence: int
    spec: int
    partition: tuple[Any, ...]
    order: int


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest of ``bytes`` at the URL ``path``, of ``entries`` in one spec, that ``snapshot`` with that ``sequence``
    wrote."""

    path: str
    bytes: int
    snapshot: int
    sequence: int
    entries: tuple[FileEntry, ...]


def manifest_of(entries: Iterable[FileEntry], schema: Mapping[str, Any], spec: Mapping[str, Any]) -> bytes:
    """A manifest of data files in one spec. Raises ``SettingError`` without fastavro."""
    types = {each["id"]: each["type"] for each in schema["fields"]}
    partition = [_partition_field(each, types[each["source-id"]]) for each in spec["fields"]]
    names = [each["name"] for each in partition]
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
                "partition": dict(zip(names, each.partition, strict=True)),
                "record_count": each.rows,
                "file_size_in_bytes": each.bytes,
                "sort_order_id": each.order,
            },
        }
        for each in entries
    ]
    words = {
        "schema": encode(schema).decode(),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": encode(spec["fields"]).decode(),
        _SPEC: str(spec["spec-id"]),
        "format-version": "2",
        "content": "data",
    }
    return _avro(_manifest(partition), records, words)


def _partition_field(field: Mapping[str, Any], source: str) -> dict[str, Any]:
    """A field of the partition's record, of a column of that type. Its id says which it is: names of Avro have fewer
    characters."""
    name, id = field["name"], field["field-id"]
    name = name if _NAME.fullmatch(name) else f"p{id}"
    unit = {"identity": source, "day": "date"}.get(field["transform"], "int")
    type = {"date": {"type": "int", "logicalType": "date"}}.get(unit, unit)
    return _optional(id, name, type)


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
                "partition_spec_id": next((each.spec for each in manifest.entries), 0),
                "content": 0,
                "sequence_number": manifest.sequence,
                "min_sequence_number": min(live, default=manifest.sequence),
                "added_snapshot_id": manifest.snapshot,
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
            for each in _read(body, key)[0]
        ]
    except (KeyError, TypeError) as error:
        raise _broken(key) from error


def files_in(body: bytes, *, key: str) -> Iterator[FileEntry]:
    """The entries of a manifest. Raises ``CorruptObjectError``."""
    records, words = _read(body, key)
    try:
        for record in records:
            file = record["data_file"]
            yield FileEntry(
                record["status"],
                file["file_path"],
                file["record_count"],
                file["file_size_in_bytes"],
                record["snapshot_id"],
                record["sequence_number"],
                int(words[_SPEC]),
                tuple(file["partition"].values()),
                file["sort_order_id"] or 0,
            )
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(key) from error


def without_deleted(body: bytes, *, key: str) -> bytes:
    """A manifest list without the manifests of files that went. Raises ``CorruptObjectError``."""
    records, words = _read(body, key)
    own = {name: text for name, text in words.items() if not name.startswith("avro.")}
    try:
        return _avro(_LIST, [each for each in records if each[_ADDED] + each[_EXISTING]], own)
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


def _read(body: bytes, key: str) -> tuple[list[Any], Mapping[str, str]]:
    """The records of a file, and what it says of itself."""
    fastavro = require_avro()
    try:
        reader = fastavro.reader(io.BytesIO(body))
        return list(reader), reader.metadata
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


def _manifest(partition: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of a manifest of files with these fields of a partition."""
    file = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": partition}),
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
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field(0, "status", "int"),
            _optional(1, "snapshot_id", "long"),
            _optional(3, "sequence_number", "long"),
            _optional(4, "file_sequence_number", "long"),
            _field(2, "data_file", {"type": "record", "name": "r2", "fields": file}),
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
