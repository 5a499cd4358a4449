"""What changed between two schema versions of a stream, property by property, and whether readers of the first can go
on with the second. Pure.

*Compatible* means: a reader of records of the first version can read those of the second with no change. Nothing he
knows is gone, no property holds values that it did not hold before, and the keys are the same. New properties, which he
does not look at, do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from singerlake.arrow.schema import columns as types
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.errors import UnknownNameError
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import resolve_version, schema_of
from singerlake.glance import at_a_glance

ALIKE = 0.7
"""How like each other two names have to be for one to look like the other's new name; 1 is the same."""
PAIRS = 50_000
"""Of a property that is gone and one that came whose names are compared, about a second's work. Where there are more,
the schema is another one, and none is said to look renamed."""
_TYPES = frozenset(
    ("type", "format", "multipleOf", "precision", "scale", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "items")
)
"""Keywords that say which values there are."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a record: ``path`` as ``address.lines[].text``, ``type`` in words. ``optional`` where ``required``
    does not list it, ``nullable`` where null is one of its values."""

    path: str
    type: str
    nullable: bool
    optional: bool

    @property
    def full_type(self) -> str:
        """The type in words, null among them."""
        return f"{self.type} or null" if self.nullable and self.type != "anything" else self.type


@dataclass(frozen=True, slots=True)
class Changed:
    """``before`` and ``after`` of one property, and how they differ in words; not ``compatible`` where it holds values
    that it did not hold before."""

    before: Property
    after: Property
    how: tuple[str, ...]
    compatible: bool


@dataclass(frozen=True, slots=True)
class Renamed:
    """A property that is gone, and one that came and looks like it: of the same type, with a name like the other."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """All that differs. What looks renamed is among ``added`` and ``removed`` too, for it may be chance. ``keys`` are
    the key properties before and after, where they differ."""

    added: tuple[Property, ...]
    removed: tuple[Property, ...]
    changed: tuple[Changed, ...]
    renamed: tuple[Renamed, ...]
    keys: tuple[tuple[str, ...], tuple[str, ...]] | None

    @property
    def compatible(self) -> bool:
        """Whether readers of the first version can read the second."""
        return not self.removed and self.keys is None and all(change.compatible for change in self.changed)


@dataclass(frozen=True, slots=True)
class VersionName:
    """The label of a version (``v1``), and its hash."""

    version: str
    hash: str


@at_a_glance
@dataclass(frozen=True, slots=True)
class DiffResult:
    """How the version ``after`` of a stream differs from ``before``, and whether readers of the first can read the
    second. What looks ``renamed`` is among ``added`` and ``removed``, too. ``keys`` are the key properties before and
    after, where they differ."""

    lake: str
    tap: str
    stream: str
    before: VersionName
    after: VersionName
    compatible: bool
    added: tuple[Property, ...]
    removed: tuple[Property, ...]
    changed: tuple[Changed, ...]
    renamed: tuple[Renamed, ...]
    keys: tuple[tuple[str, ...], tuple[str, ...]] | None


def diff_of(lake: str, manifest: Manifest, first: str | None, second: str | None) -> DiffResult:
    """The difference of two versions, each named by label, hash or path segment; None: the last but one, and the last.
    Raises ``UnknownNameError``."""
    known = list(manifest.versions)
    if len(known) < 2 and None in (first, second):
        has = "one version" if known else "no version"
        raise UnknownNameError(
            f"stream {manifest.stream!r} has {has}, and nothing to compare", hint="capture more", tap=manifest.tap
        )
    named = (known[-2] if first is None else first, known[-1] if second is None else second)
    hashes = [resolve_version(manifest, text) for text in named]
    before, after = (VersionName(manifest.versions[each], each) for each in hashes)
    found = compare(*(schema_of(manifest, each) for each in hashes))
    return DiffResult(
        lake=lake,
        tap=manifest.tap,
        stream=manifest.stream,
        before=before,
        after=after,
        compatible=found.compatible,
        **{each.name: getattr(found, each.name) for each in fields(found)},
    )


@dataclass(frozen=True, slots=True)
class _Known:
    property: Property
    column: types.Column
    raw: Mapping[str, Any]


def compare(before: StreamSchema, after: StreamSchema) -> SchemaDiff:
    """How ``after`` differs from ``before``, in the order of the schemas."""
    return _compared(before, _by_path(before), after, _by_path(after))


def compare_each(schemas: Sequence[StreamSchema]) -> Iterator[SchemaDiff]:
    """How each but the first differs from the one before it; every schema is looked through once."""
    known = ((schema, _by_path(schema)) for schema in schemas)
    return (_compared(*before, *after) for before, after in pairwise(known))


def _by_path(schema: StreamSchema) -> dict[str, _Known]:
    return {each.property.path: each for each in _properties(schema.schema)}


def _compared(
    before: StreamSchema, old: Mapping[str, _Known], after: StreamSchema, new: Mapping[str, _Known]
) -> SchemaDiff:
    added = [each for path, each in new.items() if path not in old and not _parent_is_new(path, old, new)]
    removed = [each for path, each in old.items() if path not in new and not _parent_is_new(path, new, old)]
    changes = (_change(old[path], new[path]) for path in old if path in new)
    keys = (tuple(before.key_properties), tuple(after.key_properties))
    return SchemaDiff(
        added=tuple(each.property for each in added),
        removed=tuple(each.property for each in removed),
        changed=tuple(change for change in changes if change is not None),
        renamed=tuple(_renamed(removed, added)),
        keys=keys if keys[0] != keys[1] else None,
    )


def _parent_is_new(path: str, old: Mapping[str, _Known], new: Mapping[str, _Known]) -> bool:
    """Whether a property stands in an object that came with it, or that was no such object before: that one is told."""
    return any(
        path.startswith((f"{parent}.", f"{parent}[]")) and (parent not in old or _shape(old[parent]) != _shape(each))
        for parent, each in new.items()
    )


def _shape(known: _Known) -> tuple[type, ...]:
    column, shape = known.column, []
    while isinstance(column, types.Array):
        shape.append(types.Array)
        column = column.element
    return (*shape, type(column))


def _properties(schema: Any) -> Iterator[_Known]:
    yield from _fields(columns_of([schema]), schema if isinstance(schema, dict) else {}, "")


def _fields(struct: types.Struct, raw: Mapping[str, Any], prefix: str) -> Iterator[_Known]:
    properties = raw.get("properties")
    required = raw.get("required")
    for field in struct.fields:
        inner = properties.get(field.name) if isinstance(properties, dict) else None
        declared: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
        path = prefix + field.name
        optional = not (isinstance(required, list) and field.name in required)
        yield _Known(
            Property(path, _in_words(field.type, declared), _takes_null(declared), optional), field.type, declared
        )
        column = field.type
        while isinstance(column, types.Array):
            items = declared.get("items")
            column, path, declared = column.element, path + "[]", items if isinstance(items, dict) else {}
        if isinstance(column, types.Struct):
            yield from _fields(column, declared, path + ".")


def _in_words(column: types.Column, declared: Mapping[str, Any]) -> str:
    """The type of a property. One column holds several types as JSON, so only the schema can name them."""
    words, names = in_words(column), declared.get("type")
    several = [name for name in names if isinstance(name, str) and name != "null"] if isinstance(names, list) else []
    return " or ".join(several) if words == "anything" and len(several) > 1 else words


def in_words(column: types.Column) -> str:
    """The type of a column as JSON Schema calls it."""
    if isinstance(column, types.Array):
        return f"array of {in_words(column.element)}"
    if isinstance(column, types.Decimal):
        return f"decimal({column.precision},{column.scale})"
    names: dict[type, str] = {
        types.Boolean: "boolean",
        types.Integer: "integer",
        types.Double: "number",
        types.Text: "string",
        types.Timestamp: "date-time",
        types.Date: "date",
        types.Struct: "object",
    }
    return names.get(type(column), "anything")


def _takes_null(schema: Mapping[str, Any]) -> bool:
    declared = schema.get("type")
    if declared == "null" or (isinstance(declared, list) and "null" in declared):
        return True
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(alternatives, list):
        return any(isinstance(each, dict) and _takes_null(each) for each in alternatives)
    return declared is None


def _change(old: _Known, new: _Known) -> Changed | None:
    how: list[str] = []
    compatible = True
    before, after = _outer(old.column), _outer(new.column)
    if before != after:
        merged = types.merge(before, after)
        wider = merged != before
        how.append("retyped" if wider and merged != after else "widened" if wider else "narrowed")
        compatible = not wider
    if new.property.nullable != old.property.nullable:
        how.append("may be null now" if new.property.nullable else "is never null now")
        compatible = compatible and not new.property.nullable
    if new.property.optional != old.property.optional:
        how.append("may be missing now" if new.property.optional else "is always there now")
        compatible = compatible and not new.property.optional
    words = {key for key in {*old.raw, *new.raw} if _plain(key, old) != _plain(key, new)}
    if before != after:
        words -= _TYPES
    if words:
        how.append(f"another {', '.join(sorted(words))}")
        # Of a value that may be anything, no column says any more what it is.
        compatible = compatible and not (in_words(new.column).endswith("anything") and words & _TYPES)
    return Changed(old.property, new.property, tuple(how), compatible) if how else None


def _plain(key: str, known: _Known) -> Any:
    """A keyword's value without what is told otherwise: null, and what stands in objects."""
    value = known.raw.get(key)
    if key == "type":
        names = value if isinstance(value, list) else [value]
        return sorted(str(name) for name in names if name not in (None, "null"))
    inner = known.column
    while isinstance(inner, types.Array):
        inner = inner.element
    told = key == "required" or (key in ("properties", "items") and isinstance(inner, types.Struct))
    return None if told else value


def _outer(column: types.Column) -> types.Column:
    """A type without what stands in objects, whose properties are compared by themselves."""
    if isinstance(column, types.Array):
        return types.Array(_outer(column.element))
    return types.Struct(()) if isinstance(column, types.Struct) else column


def _renamed(removed: list[_Known], added: list[_Known]) -> Iterator[Renamed]:
    """The pairs that are most like each other first, each property in one."""
    if len(removed) * len(added) > PAIRS:
        return
    pairs = [
        (_likeness(old.property.path, new.property.path), old.property.path, new.property.path)
        for old in removed
        for new in added
        if old.column == new.column
    ]
    taken: set[tuple[str, str]] = set()
    for likeness, before, after in sorted(pairs, key=lambda pair: -pair[0]):
        if likeness >= ALIKE and ("-", before) not in taken and ("+", after) not in taken:
            taken |= {("-", before), ("+", after)}
            yield Renamed(before, after)


def _likeness(before: str, after: str) -> float:
    one, other = ("".join(filter(str.isalnum, name.casefold())) for name in (before, after))
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
