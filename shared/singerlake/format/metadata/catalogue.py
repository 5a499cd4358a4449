"""``catalogue.json``: the Singer Catalog of a tap, a cache of what its streams' manifests say.

The shape is the Singer specification's (DISCOVERY_MODE.md, "The Catalog"); schemas are the tap's own JSON, untouched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from singerlake.errors import CorruptObjectError
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, decode_stored, encode
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import schema_in_force

_HINT = "delete it, or run 'singerlake rebuild'"


def entry(manifest: Manifest) -> dict[str, Any] | None:
    """A stream's catalog entry, by its newest SCHEMA message; None: none. Raises ``CorruptObjectError``."""
    schema = schema_in_force(manifest)
    return None if schema is None else stream_entry(manifest.stream, schema.schema, schema.key_properties)


def stream_entry(stream: str, schema: Any, key_properties: Iterable[str]) -> dict[str, Any]:
    """One stream as a Singer Catalog has it; only an offset orders a raw stream, hence LOG_BASED."""
    keys = list(key_properties)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    metadata: list[dict[str, Any]] = [
        {
            "breadcrumb": [],
            "metadata": {
                "inclusion": "available",
                "table-key-properties": keys,
                "forced-replication-method": "LOG_BASED",
            },
        }
    ]
    for name in properties if isinstance(properties, dict) else ():
        inclusion = "automatic" if name in keys else "available"
        metadata.append({"breadcrumb": ["properties", name], "metadata": {"inclusion": inclusion}})
    return {
        "tap_stream_id": stream,
        "stream": stream,
        "schema": schema,
        "key_properties": keys,
        "replication_method": "LOG_BASED",
        "metadata": metadata,
    }


def unknown_entry(stream: str) -> dict[str, Any]:
    """The entry of a stream of which nothing is known: without keys, which would be said to be none."""
    made = stream_entry(stream, {"properties": {}}, ())
    del made["key_properties"], made["metadata"][0]["metadata"]["table-key-properties"]
    return made


def says_the_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two entries of a stream hold one schema and the same keys, from which the rest follows."""
    return all(one.get(name) == other.get(name) for name in ("schema", "key_properties"))


def merged(catalogue: dict[str, Any] | None, *fresh: dict[str, Any]) -> dict[str, Any]:
    """``catalogue`` with streams' entries replaced or added; streams in the order of their names."""
    known = {item["tap_stream_id"]: item for item in (catalogue or {}).get("streams", ())}
    known |= {item["tap_stream_id"]: item for item in fresh}
    return {"streams": [known[name] for name in sorted(known)]}


class _StoredCatalogue(msgspec.Struct):
    streams: list[msgspec.Raw]


class _StoredEntry(msgspec.Struct):
    tap_stream_id: str


def stored_entries(body: bytes, *, key: str) -> dict[str, bytes]:
    """The entry of each stream as it is stored under ``key``. Raises ``CorruptObjectError``."""
    try:
        items = msgspec.json.decode(body.decode("utf-8"), type=_StoredCatalogue).streams
        return {msgspec.json.decode(item, type=_StoredEntry).tap_stream_id: bytes(item) for item in items}
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Either it is damaged, which is told here, or it holds a name that has no UTF-8.
        return {item["tap_stream_id"]: encode(item) for item in from_json(body, key=key)["streams"]}


def is_entry(stored: bytes | None, entry: dict[str, Any]) -> bool:
    """Whether a stored entry is this one, however it is spelled."""
    if stored is None or stored == encode(entry):
        return stored is not None
    try:
        return decode(stored, dict[str, Any]) == entry
    except msgspec.DecodeError:
        return False


def stored_with(stored: Mapping[str, bytes], fresh: Iterable[dict[str, Any]]) -> bytes:
    """A catalogue as stored: ``fresh`` entries, ``stored`` ones for other streams, in the order of stream names."""
    entries = {**stored, **{item["tap_stream_id"]: encode(item) for item in fresh}}
    return b'{"streams":[' + b",".join(entries[name] for name in sorted(entries)) + b"]}"


def to_json(catalogue: dict[str, Any]) -> bytes:
    return encode(catalogue)


def from_json(body: bytes, *, key: str) -> dict[str, Any]:
    """Parse what is stored under ``key``. Raises ``CorruptObjectError``."""
    content: dict[str, Any] = decode_stored(body, dict, "not a catalogue", hint=_HINT, key=key)
    streams = content.get("streams")
    if not isinstance(streams, list) or not all(
        isinstance(item, dict) and isinstance(item.get("tap_stream_id"), str) for item in streams
    ):
        raise CorruptObjectError("not a catalogue: 'streams' is not a list of catalog entries", hint=_HINT, key=key)
    return content


prepare_decoders(_StoredCatalogue, _StoredEntry)
