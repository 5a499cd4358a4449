"""What of a record has a column, or could have one: everything else no schema declares, and must not vanish.

Pure. A property that is declared and not read is known: a user who leaves a column out knows of it. Where nothing is
declared of a value, it is JSON text as a whole, and nothing in it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from singerlake.arrow.schema.columns import Array, Column, Struct
from singerlake.arrow.values.values import Lost, text_of
from singerlake.format.decoders import prepare_decoders

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class KnownObject:
    """The names that an object's properties may have, each with what is known within (None: it is not looked at).
    ``closed``: any other property is undeclared; else it is left out in silence, and only the named ones are looked
    at. ``looked_into``: the names of properties in which something may be undeclared."""

    names: Mapping[str, Known]
    closed: bool = True
    looked_into: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        within = frozenset(name for name, inside in self.names.items() if inside is not None)
        object.__setattr__(self, "looked_into", within)

    def within(self, properties: Mapping[str, Any]) -> list[tuple[str, Any, Known]]:
        """Of an object's properties those that are undeclared, or may hold something that is, each with its value and
        what is known within (None: it is undeclared), in their order."""
        wanted = properties.keys() - self.names.keys() if self.closed else set()
        wanted |= self.looked_into
        return [(name, properties[name], self.names.get(name)) for name in properties if name in wanted]


@dataclass(frozen=True, slots=True)
class KnownArray:
    element: KnownObject | KnownArray


Known: TypeAlias = KnownObject | KnownArray | None


def known_in(columns: Struct, declared: Struct | None, *, whole: bool) -> KnownObject | None:
    """What is known of records read as ``columns``, properties alone, where ``declared`` are all there are. ``whole``:
    properties beside those count as undeclared, else only within the columns. None where nothing is looked for."""
    if declared is None:
        return None
    known = _object(columns, declared, closed=whole)
    return known if whole or any(known.names.values()) else None


def _object(wanted: Struct, declared: Struct, *, closed: bool = True) -> KnownObject:
    read = {field.name: field.type for field in wanted.fields}
    return KnownObject(
        {field.name: _known(read[field.name], field.type) if field.name in read else None for field in declared.fields},
        closed,
    )


def _known(wanted: Column, declared: Column) -> Known:
    if isinstance(wanted, Struct) and isinstance(declared, Struct):
        return _object(wanted, declared)
    if isinstance(wanted, Array) and isinstance(declared, Array):
        element = _known(wanted.element, declared.element)
        return None if element is None else KnownArray(element)
    return None


class _AnyRecord(msgspec.Struct, gc=False):
    record: dict[str, msgspec.Raw]


_MESSAGE = msgspec.json.Decoder(_AnyRecord)


def undeclared(line: bytes, known: KnownObject) -> list[Lost]:
    """What no schema declares in the record of a RECORD message, in its order. Raises ``msgspec.DecodeError``,
    ``UnicodeDecodeError`` and ``RecursionError`` for a line that is not strict JSON."""
    return list(_of_object(_MESSAGE.decode(line).record, known, ()))


def _of_object(properties: dict[str, msgspec.Raw], known: KnownObject, keys: tuple[str | int, ...]) -> Iterator[Lost]:
    for name, value, inside in known.within(properties):
        if inside is None:
            yield Lost((*keys, name), bytes(value).decode())
        else:
            yield from _of_text(bytes(value), inside, (*keys, name))


def _of_text(text: bytes, known: Known, keys: tuple[str | int, ...]) -> Iterator[Lost]:
    if isinstance(known, KnownObject) and text[:1] == b"{":
        yield from _of_object(_OBJECT.decode(text), known, keys)
    elif isinstance(known, KnownArray) and text[:1] == b"[":
        for place, item in enumerate(_ARRAY.decode(text)):
            yield from _of_text(bytes(item), known.element, (*keys, place))


def undeclared_in(value: Any, known: Known, keys: tuple[str | int, ...] = ()) -> Iterator[Lost]:
    """The same of the record that ``values.parse`` gave, or of a value in it."""
    if isinstance(known, KnownObject) and isinstance(value, dict):
        for name, item, inside in known.within(value):
            if inside is None:
                yield Lost((*keys, name), text_of(item))
            else:
                yield from undeclared_in(item, inside, (*keys, name))
    elif isinstance(known, KnownArray) and isinstance(value, list):
        for place, item in enumerate(value):
            yield from undeclared_in(item, known.element, (*keys, place))


prepare_decoders(_AnyRecord)
