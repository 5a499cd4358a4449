"""The schema hash: FarmHash of canonical JSON in Base85 (Singerlake Spec, part 2 of 2023-02-15, section 1)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import Any

from singerlake.format.exact_json import finite
from singerlake.format.fingerprint import fingerprint64

SHORT = 7
"""Characters of a hash in the ordinary case (Singerlake Spec: "a 7 character hash")."""

DEEPEST = 400
"""Levels that a schema may be nested: code that walks one by recursion must not meet the interpreter's limit."""

_SETS = ("type", "required")
_NODES = (dict, list)
"""Not ``dict | list``, which would be made anew for each value that is looked at."""


def is_too_deep(schema: Any) -> bool:
    """Whether a schema is nested more than ``DEEPEST`` levels."""
    level = _inner([schema])
    for _ in range(DEEPEST):
        if not level:
            return False
        level = [child for node in level for child in _inner(node.values() if isinstance(node, dict) else node)]
    return bool(level)


def _inner(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, _NODES)]


def canonical_schema(schema: Any) -> bytes:
    """The one text that all spellings of a schema share: step 1 of section 3 of ``shared/docs/format``, in which
    ``type`` and ``required`` are sets where they are keywords."""
    sorted_sets = _canonical(schema)
    try:
        text = _dumps(sorted_sets)
    except ValueError:
        text = _dumps(finite(sorted_sets))
    return text.encode("utf-8", "surrogatepass")


def _dumps(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


_KEPT = 1024
_hashes: dict[bytes, str] = {}
"""By the digest of a schema's spelling: a writer asks for the same hash before and in each commit."""


def full_hash(schema: Any) -> str:
    """All ten Base85 characters (RFC 1924 alphabet, big-endian) of the canonical schema's fingerprint."""
    spelling = blake2b(json.dumps(schema).encode(), digest_size=16).digest()
    known = _hashes.get(spelling)
    if known is None:
        fingerprint = fingerprint64(canonical_schema(schema)).to_bytes(8, "big")
        known = base64.b85encode(fingerprint).decode("ascii")
        if len(_hashes) >= _KEPT:
            _hashes.clear()
        _hashes[spelling] = known
    return known


def schema_hash(schema: Any) -> str:
    """The hash of a schema as paths and manifests carry it: the first seven characters of ``full_hash``."""
    return full_hash(schema)[:SHORT]


def hash_among(schema: Any, known: Mapping[str, Any]) -> str:
    """The hash of ``schema`` beside ``known`` (hash -> schema): ten characters where another has its first seven."""
    whole = full_hash(schema)
    short = whole[:SHORT]
    holder = known.get(short)
    if holder is None or canonical_schema(holder) == canonical_schema(schema):
        return short
    return whole


_DATA = frozenset({"const", "default", "enum", "examples", "example"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})


class _Kind(Enum):
    """What a node of a schema is, by the keyword it stands under."""

    SCHEMA = 1
    NAMES = 2
    SET = 3


def _canonical(schema: Any) -> Any:
    """A copy with its sets in order. Without recursion: a schema may be deeper than calls may be."""
    root = [schema]
    sets: list[list[Any]] = []
    pending: list[tuple[Any, Any, _Kind]] = [(root, 0, _Kind.SCHEMA)]
    while pending:
        holder, at, kind = pending.pop()
        node = holder[at]
        if isinstance(node, dict):
            made: Any = dict(node)
            members: Iterable[tuple[Any, _Kind]] = (
                [(name, _Kind.SCHEMA) for name in node]
                if kind is _Kind.NAMES
                else [(name, _kind(name, value)) for name, value in node.items() if name not in _DATA]
            )
        elif isinstance(node, list):
            made = list(node)
            members = [(place, _Kind.SCHEMA) for place in range(len(node))]
            if kind is _Kind.SET:
                sets.append(made)
        else:
            continue
        holder[at] = made
        pending += [(made, name, inner) for name, inner in members if isinstance(made[name], _NODES)]
    # What was found later may lie within what was found before.
    for one_set in reversed(sets):
        one_set.sort(key=_spelling)
    return root[0]


def _spelling(item: Any) -> str:
    """An item of a set as JSON, by which sets are put in order."""
    # Most are names, for which no encoder has to be made.
    return json.dumps(item) if isinstance(item, str) else json.dumps(item, sort_keys=True)


def _kind(key: str, value: Any) -> _Kind:
    if key in _NAMED and isinstance(value, dict):
        return _Kind.NAMES
    return _Kind.SET if key in _SETS and isinstance(value, list) else _Kind.SCHEMA
