"""The columns of a stream over several versions of its schema: what discovery offers, so that a column of an older
version can be deselected, too, and what a catalog does not know."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from singerlake.errors import UnknownNameError
from singerlake.format.schema_hash import canonical_schema
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.format.state.selection import first_offset, resolve_version

Breadcrumb = tuple[str, ...]
"""A column's path as Singer's metadata has it: ``("properties", "address", "properties", "city")``."""

_DEFINITIONS = ("$defs", "definitions")


def replayed(
    manifest: Manifest,
    from_version: str | None = None,
    versions: Iterable[str] | None = None,
    *,
    begin: int | None = None,
    end: int | None = None,
) -> list[SchemaVersion]:
    """The versions that a replay without a bookmark meets, from the offset ``begin`` on and before ``end``, that of the
    newest messages first. What names no version of the stream counts as not asked: it fails where the replay begins."""
    start, wanted = begin or 0, None
    with suppress(UnknownNameError):
        start = max(start, first_offset(manifest, from_version))
    if versions is not None:
        with suppress(UnknownNameError):
            wanted = {resolve_version(manifest, text) for text in versions}
    listed = manifest.files_from(start, end) if end is None or start < end else FileList()
    return met(manifest, listed, wanted)


def met(manifest: Manifest, files: FileList, wanted: Collection[str] | None = None) -> list[SchemaVersion]:
    """The versions of ``files``, that of the newest messages first; of ``wanted`` hashes alone, if given."""
    totals = totals_of(files).versions
    hashes = sorted(totals, key=lambda version: totals[version].end, reverse=True)
    known = [hash for hash in hashes if hash in manifest.schemas]
    return [manifest.schemas[hash] for hash in known if wanted is None or hash in wanted]


def united(schemas: Sequence[Any]) -> Any:
    """The first schema, with the properties that only the others have, at every level of objects in objects; the very
    same where they have none. A property is described as the first schema that has it does."""
    first = schemas[0]
    if not isinstance(first, dict):
        return first
    objects = [schema for schema in schemas if isinstance(schema, dict)]
    made = _with_properties(first, objects)
    for name in _DEFINITIONS:
        known = [_members(schema, name) for schema in objects]
        if any(one.keys() - known[0].keys() for one in known):
            made = {**made, name: {key: part for one in reversed(known) for key, part in one.items()} | known[0]}
    return made


def says_nothing_new(asked: Any, known: Sequence[Any]) -> bool:
    """Whether a schema of a property equals one of ``known``, or was united of them: then it is nobody's wish."""
    wanted = canonical_schema({"": asked})
    if any(canonical_schema({"": one}) == wanted for one in known):
        return True
    if not isinstance(asked, dict) or not isinstance(asked.get("properties"), dict):
        return False
    shell = canonical_schema({"": _shell(asked)})
    if not any(canonical_schema({"": _shell(one)}) == shell for one in known):
        return False
    inner = [_members(one, "properties") for one in known if isinstance(one, dict)]
    for name, part in asked["properties"].items():
        if not says_nothing_new(part, [one[name] for one in inner if name in one]):
            return False
    return True


def defines_nothing_new(asked: Any, known: Iterable[Mapping[str, Any]], keyword: str) -> bool:
    """The same for ``$defs`` and ``definitions``, each of whose members stands alone."""
    if keyword not in _DEFINITIONS or not isinstance(asked, dict):
        return False
    maps = [_members(one, keyword) for one in known]
    return all(says_nothing_new(part, [one[name] for one in maps if name in one]) for name, part in asked.items())


def unknown(schemas: Iterable[Any], schema: Any, metadata: Iterable[Breadcrumb]) -> list[Breadcrumb]:
    """The outermost columns of ``schemas`` that a catalog with this schema and metadata does not know."""
    known = {crumb[:length] for crumb in metadata for length in range(2, len(crumb) + 1, 2)}
    unknown_columns: dict[Breadcrumb, None] = {}
    for one in schemas:
        unknown_columns.update(dict.fromkeys(_unknown(one, schema, known, ())))
    return list(unknown_columns)


def shown(column: Breadcrumb) -> str:
    """A column as people write it: ``address.city``."""
    return ".".join(column[1::2])


def _unknown(schema: Any, catalog: Any, known: set[Breadcrumb], at: Breadcrumb) -> Iterator[Breadcrumb]:
    listed = _members(catalog, "properties")
    for name, part in _members(schema, "properties").items():
        here = (*at, "properties", name)
        if name in listed or here in known:
            yield from _unknown(part, listed.get(name), known, here)
        else:
            yield here


def _with_properties(first: Any, others: Sequence[Any]) -> Any:
    parts: dict[str, list[Any]] = {}
    for schema in others:
        for name, part in _members(schema, "properties").items():
            parts.setdefault(name, []).append(part)
    own = _members(first, "properties")
    made = {}
    for name in (*own, *parts):
        if name not in made:
            made[name] = _with_properties(parts[name][0], parts[name]) if len(parts[name]) > 1 else parts[name][0]
    if made.keys() == own.keys() and all(made[name] is own[name] for name in own):
        return first
    return {**_shell(first), "properties": made}


def _shell(schema: Any) -> dict[str, Any]:
    """A schema without its properties; the boolean schemas as objects of the same meaning."""
    if not isinstance(schema, dict):
        return {"not": {}} if schema is False else {}
    return {name: value for name, value in schema.items() if name != "properties"}


def _members(schema: Any, name: str) -> dict[str, Any]:
    part = schema.get(name) if isinstance(schema, dict) else None
    return part if isinstance(part, dict) else {}
