"""``schema_changes``: what the schema of a stream may become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Literal

from singerlake.errors import SchemaChangeError
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import newest_version
from singerlake.upkeep.reports.schema_diff import SchemaDiff, compare
from target_singerlake.input.schema import Schema

Allowed = Literal["evolve", "additive", "freeze"]
"""Any schema; one with which readers of the newest can go on, as ``singerlake diff`` says it; no other."""
RULE = "schema_changes"


class SchemaChanges:
    """Holds schemas to the newest ones of their streams. ``allowed`` is what each stream allows, by its name or a
    pattern; of several patterns the first counts. ``state`` gives, when called with a stream, what gives its state."""

    def __init__(self, allowed: Mapping[str, Allowed], state: Callable[[str], Callable[[], Manifest]]) -> None:
        self._allowed = allowed
        self._state = state

    def check(self, schema: Schema, known: Schema | None, number: int) -> None:
        """Look at a schema; ``known`` is that of its stream in this run. Raises ``SchemaChangeError``, and what the
        lake raises."""
        allowed = self._of(schema.stream)
        if allowed == "evolve":
            return
        newest = known.content if known is not None else _newest(self._state(schema.stream)())
        if newest is None or _is_same(newest, schema.content):
            return
        found = compare(newest, schema.content)
        if allowed == "additive" and found.compatible:
            return
        name, change = _first(found, allowed)
        raise SchemaChangeError(
            f"the schema of a stream changes, and schema_changes says {allowed}",
            hint="correct the tap, or let the schema change",
            line=number,
            stream=schema.stream,
            property=name,
            change=change,
            rule=RULE,
        )

    def _of(self, stream: str) -> Allowed:
        if stream in self._allowed:
            return self._allowed[stream]
        return next((each for pattern, each in self._allowed.items() if fnmatchcase(stream, pattern)), "evolve")


def _newest(state: Manifest) -> StreamSchema | None:
    version = newest_version(state)
    return None if version is None else state.schemas[version]


def _is_same(one: StreamSchema, other: StreamSchema) -> bool:
    keys = (sorted(one.key_properties), sorted(other.key_properties))
    return keys[0] == keys[1] and schema_hash(one.schema) == schema_hash(other.schema)


def _first(found: SchemaDiff, allowed: Allowed) -> tuple[str, str]:
    """The first of the changes that are not allowed: a property, and how it changes in words."""
    for gone in found.removed:
        return gone.path, "is gone"
    for change in found.changed:
        if allowed == "freeze" or not change.compatible:
            return change.after.path, ", ".join(change.how)
    if found.keys is not None:
        return "key_properties", f"{', '.join(found.keys[0])} before, {', '.join(found.keys[1])} now"
    for new in found.added:
        return new.path, "is new"
    return "", "another text of the schema"
