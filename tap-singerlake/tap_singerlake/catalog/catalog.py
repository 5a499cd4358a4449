"""Singer catalogs as the JSON they are: what discovery says, what the SDK is given, what a person changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from singer_sdk.singerlib import Catalog, CatalogEntry, MetadataMapping, StreamMetadata

from singerlake.errors import SettingError
from singerlake.format.metadata import catalogue
from singerlake.format.schema_hash import canonical_schema
from singerlake.format.state.model import SchemaVersion
from tap_singerlake.catalog.columns import defines_nothing_new, says_nothing_new, united

_SCHEMA = ("not", "if", "then", "else", "contains", "propertyNames")
_SCHEMA_LIST = ("anyOf", "allOf", "oneOf", "prefixItems")
_SCHEMA_MAP = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


@dataclass(frozen=True)
class StoredSchema:
    """For ``singer_sdk.singerlib.Schema``, which fails on boolean subschemas and tuple items and drops keywords."""

    json: Any

    def to_dict(self) -> dict[str, Any]:
        """A fresh copy that the SDK can walk."""
        return for_sdk(self.json)


def discovered(entry: Mapping[str, Any], versions: Sequence[SchemaVersion]) -> dict[str, Any]:
    """The lake's catalog entry as discovery prints it: everything selected, the schema as it was captured, and with it
    the columns that only older ones of ``versions`` have, newest first. What is a key property in
    any of them is automatic. Keys that are not known are not said to be none."""
    keys = [key for key in entry.get("key_properties") or () if isinstance(key, str)]
    schema = entry.get("schema")
    if versions:
        keys = list(versions[0].key_properties)
        schema = united([version.schema for version in versions])
    made = catalogue.stream_entry(entry["tap_stream_id"], schema, keys)
    older = {("properties", key) for version in versions for key in version.key_properties}
    for part in made["metadata"]:
        if tuple(part["breadcrumb"]) in older:
            part["metadata"]["inclusion"] = "automatic"
    if not versions and "key_properties" not in entry:
        del made["key_properties"], made["metadata"][0]["metadata"]["table-key-properties"]
    made["metadata"][0]["metadata"].update({"selected": True, "selected-by-default": True})
    return made


def for_singer_sdk(catalog: Any) -> Catalog:
    """A catalog's JSON as the SDK holds it, without its ``Schema``. Raises ``SettingError``."""
    streams = catalog.get("streams") if isinstance(catalog, Mapping) else None
    if not isinstance(streams, list):
        raise SettingError("the catalog has no list 'streams'", hint="pass what --discover prints")
    entries = [_entry(item) for item in streams]
    return Catalog((entry.tap_stream_id, entry) for entry in entries)


def _entry(item: Any) -> CatalogEntry:
    name = item.get("tap_stream_id", item.get("stream")) if isinstance(item, Mapping) else None
    if not isinstance(name, str):
        raise SettingError("a catalog entry has no tap_stream_id", hint="pass what --discover prints")
    metadata = item.get("metadata", [])
    if not isinstance(metadata, list) or not all(_is_metadata(part) for part in metadata):
        raise SettingError("a catalog entry's metadata is malformed", hint="pass what --discover prints", stream=name)
    mapping = MetadataMapping.from_iterable(metadata)
    # Without metadata of its own a stream counts as selected, and its columns have to follow it.
    mapping.setdefault((), StreamMetadata(selected=True))
    return CatalogEntry(
        tap_stream_id=name,
        stream=name,
        schema=StoredSchema(plain(item.get("schema"))),  # type: ignore[arg-type]
        metadata=mapping,
        key_properties=_keys(item.get("key_properties")),
        replication_method=_replication_method(item),
    )


def _is_metadata(part: Any) -> bool:
    return (
        isinstance(part, Mapping)
        and isinstance(part.get("metadata"), Mapping)
        and isinstance(part.get("breadcrumb"), list | tuple)
        and all(isinstance(crumb, str) for crumb in part["breadcrumb"])
    )


def _replication_method(item: Mapping[str, Any]) -> str:
    """FULL_TABLE where the entry or its metadata asks for it anywhere, since only a person writes it there."""
    whole = [part["metadata"] for part in item.get("metadata", ()) if not part["breadcrumb"]]
    root: Mapping[str, Any] = whole[0] if whole else {}
    asked = [item.get("replication_method"), *map(root.get, ("replication-method", "forced-replication-method"))]
    return "FULL_TABLE" if "FULL_TABLE" in asked else "LOG_BASED"


def plain(value: Any) -> Any:
    """JSON without the decimals that the SDK reads catalogs with."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


@dataclass(frozen=True)
class Overrides:
    """What a catalog says and the lake never did; laid over each SCHEMA message. A catalog may be older than the lake,
    so what equals any of the lake's versions, or is united of them, is no one's wish, and what the catalog does not
    know stays as the file has it."""

    key_properties: list[str] | None
    properties: Mapping[str, Any]
    keywords: Mapping[str, Any]

    @classmethod
    def between(cls, entry: CatalogEntry | None, known: Iterable[SchemaVersion]) -> Overrides:
        """The differences between a catalog entry and all versions of a stream."""
        versions = list(known)
        schema = entry.schema.json if entry is not None and isinstance(entry.schema, StoredSchema) else None
        schema = schema if isinstance(schema, dict) else {}
        stored = [version.schema for version in versions if isinstance(version.schema, dict)]
        properties = [_properties(one) for one in stored]
        return cls(
            key_properties=None if entry is None else _asked_keys(entry, [list(v.key_properties) for v in versions]),
            properties={
                name: asked
                for name, asked in _properties(schema).items()
                if not says_nothing_new(asked, [one[name] for one in properties if name in one])
            },
            keywords={
                name: asked
                for name, asked in schema.items()
                if name != "properties"
                and not _any_has(stored, name, asked)
                and not defines_nothing_new(asked, stored, name)
            },
        )

    def __bool__(self) -> bool:
        return self.key_properties is not None or bool(self.properties) or bool(self.keywords)

    def apply(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A SCHEMA message with the differences laid over it."""
        result = dict(message)
        if self.properties or self.keywords:
            schema = message.get("schema")
            base = dict(schema) if isinstance(schema, dict) else {}
            result["schema"] = {**base, **self.keywords, "properties": {**_properties(base), **self.properties}}
        if self.key_properties is not None:
            result["key_properties"] = self.key_properties
        return result


def _asked_keys(entry: CatalogEntry, known: list[list[str]]) -> list[str] | None:
    root = entry.metadata.get(())
    in_metadata = _keys(getattr(root, "table_key_properties", None))
    in_entry = _keys(entry.key_properties)
    if in_metadata is not None and in_entry is not None and in_metadata != in_entry:
        return in_metadata
    asked = in_metadata if in_metadata is not None else in_entry
    return None if asked is None or asked in known else asked


def _keys(value: Any) -> list[str] | None:
    return [key for key in value if isinstance(key, str)] if isinstance(value, list | tuple) else None


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _any_has(known: Iterable[Mapping[str, Any]], name: str, value: Any) -> bool:
    """Whether any of ``known`` has a member ``name`` of that value; order inside JSON Schema's sets does not count."""
    wanted = canonical_schema({"": value})
    return any(name in one and canonical_schema({"": one[name]}) == wanted for one in known)


def for_sdk(schema: Any) -> dict[str, Any]:
    """A copy of a stream's schema that the SDK's selection, stream maps and flattening can walk. They take every
    subschema for an object with a ``type`` that is text or a list: the boolean schemas ``true`` and ``false`` become
    objects of the same meaning, other values the empty schema. All keywords are kept."""
    walked = _subschema(schema)
    walked.setdefault("properties", {})
    return walked


def _subschema(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        return {"not": {}} if node is False else {}
    return {key: _keyword(key, value) for key, value in node.items() if _is_sound(key, value)}


def _keyword(key: str, value: Any) -> Any:
    if key in _SCHEMA_MAP:
        return {name: _subschema(part) for name, part in value.items()}
    if key in _SCHEMA_LIST:
        return [_subschema(part) for part in value]
    if key == "items":
        return [_subschema(part) for part in value] if isinstance(value, list) else _subschema(value)
    if key in _SCHEMA:
        return _subschema(value)
    return value


def _is_sound(key: str, value: Any) -> bool:
    if key in _SCHEMA_MAP:
        return isinstance(value, dict)
    if key in _SCHEMA_LIST:
        return isinstance(value, list)
    return key != "type" or isinstance(value, str | list)
