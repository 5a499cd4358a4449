"""A stream's schema as a tree of properties that people read. Pure; any JSON in the place of a schema is coped with.

The words are those of JSON Schema 2020-12: ``string or null``, ``array of object``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from singerlake.humanize import cut

LEVELS = 24
"""Objects within objects that are followed; nobody reads further, and a schema that holds itself has no end."""
_VALUES = 12
"""Of an ``enum`` that are shown."""
_VALUE, _TYPE, _DESCRIPTION, _NAME = 60, 200, 600, 300
"""Characters that are shown of a value, of a type, of a description, of a property's name."""
_LIMITS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "precision",
    "scale",
    "contentMediaType",
    "contentEncoding",
    "default",
)
_TELLING = frozenset((*_LIMITS, "enum", "const"))
_HOLDERS = frozenset(("properties", "items", "anyOf", "oneOf", "allOf"))
"""Keywords without which a schema holds no other."""
_MARKUP = 260
"""Bytes that the page needs for one property besides its texts, about."""


@dataclass(frozen=True, slots=True)
class Node:
    """One property. ``marks``: ``key``, ``bookmark``, ``required``. ``facts`` say which values there are, ``(what,
    value)`` each. ``continued``: it stands on the page before and is here for the sake of what is in it. ``deeper``:
    more lies in it than is shown."""

    name: str
    type: str
    marks: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    description: str = ""
    children: tuple[Node, ...] = ()
    continued: bool = False
    deeper: bool = False


def tree_of(schema: Any, *, keys: Sequence[str] = (), bookmarks: Sequence[str] = ()) -> tuple[Node, ...]:
    """The properties of a record, in the order of the schema."""
    named: dict[str, tuple[str, ...]] = dict.fromkeys(keys, ("key",))
    for name in bookmarks:
        named[name] = (*named.get(name, ()), "bookmark")
    return tuple(_children(schema, schema, named, 0))


def pages_of(nodes: Sequence[Node], budget: int) -> list[tuple[Node, ...]]:
    """The tree in parts of about ``budget`` bytes of HTML. A part that begins inside an object repeats the objects
    around it, ``continued``. One part at least, which may be empty."""
    if sum(_weight(node) for _, node in _rows(nodes, ())) <= budget:
        return [tuple(nodes)]
    parts: list[tuple[Node, ...]] = []
    roots: list[_Branch] = []
    branches: dict[int, _Branch] = {}
    left = budget
    for around, node in _rows(nodes, ()):
        if _weight(node) > left and roots:
            parts.append(tuple(map(_frozen, roots)))
            roots, branches, left = [], {}, budget
        above = roots
        for each in (*around, node):
            branch = branches.get(id(each))
            if branch is None:
                branch = branches[id(each)] = _Branch(each, [], continued=each is not node)
                above.append(branch)
                left -= _weight(each)
            above = branch.children
    return [*parts, tuple(map(_frozen, roots))]


@dataclass(slots=True)
class _Branch:
    node: Node
    children: list[_Branch]
    continued: bool


def _frozen(branch: _Branch) -> Node:
    return replace(branch.node, children=tuple(map(_frozen, branch.children)), continued=branch.continued)


def _rows(nodes: Sequence[Node], around: tuple[Node, ...]) -> Iterator[tuple[tuple[Node, ...], Node]]:
    for node in nodes:
        yield around, node
        yield from _rows(node.children, (*around, node))


def _weight(node: Node) -> int:
    facts = sum(len(word) + len(value) for word, value in node.facts)
    # As many as six bytes a character, of what is escaped for HTML or shown as its code.
    return _MARKUP + 6 * (len(node.name) + len(node.description) + facts) + len(node.type)


def _children(schema: Any, root: Any, marks: Mapping[str, tuple[str, ...]], level: int) -> Iterator[Node]:
    seen: set[str] = set()
    for each in _objects(schema, root):
        required = each.get("required")
        properties = each.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            if name in seen:
                continue
            seen.add(name)
            always = ("required",) if isinstance(required, list) and name in required else ()
            yield _node(name, inner, root, (*marks.get(name, ()), *always), level)


def _node(name: str, schema: Any, root: Any, marks: tuple[str, ...], level: int) -> Node:
    known = _followed(schema, root)
    inner = known if isinstance(known, dict) else {}
    children: tuple[Node, ...] = ()
    deeper = False
    if not _HOLDERS.isdisjoint(inner):
        deeper = level + 1 >= LEVELS and any(True for _ in _objects(inner, root))
        children = () if deeper else tuple(_children(inner, root, {}, level + 1))
    description = inner.get("description", inner.get("title"))
    return Node(
        name=cut(name, _NAME),
        type=cut(_words(schema, root, LEVELS), _TYPE),
        marks=marks,
        facts=tuple(_facts(inner)),
        description=cut(description, _DESCRIPTION) if isinstance(description, str) else "",
        children=children,
        deeper=deeper,
    )


def _objects(schema: Any, root: Any, left: int = LEVELS) -> Iterator[dict[str, Any]]:
    """The schemas with properties that a value of ``schema``, or an item of it where it is an array, may follow."""
    known = _followed(schema, root)
    if not isinstance(known, dict) or not left:
        return
    if isinstance(known.get("properties"), dict):
        yield known
    if isinstance(known.get("items"), dict):
        yield from _objects(known["items"], root, left - 1)
    for word in ("anyOf", "oneOf", "allOf"):
        alternatives = known.get(word)
        for each in alternatives if isinstance(alternatives, list) else ():
            yield from _objects(each, root, left - 1)


def _followed(schema: Any, root: Any) -> Any:
    """What a schema refers to, within the same document; the schema itself where it refers to nothing that is there."""
    for _ in range(LEVELS):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        target = root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or name not in target:
                return schema
            target = target[name]
        schema = target
    return schema


def _words(schema: Any, root: Any, left: int) -> str:
    known = _followed(schema, root)
    if known is False:
        return "nothing"
    if not isinstance(known, dict) or not left:
        return "anything"
    reference = known.get("$ref")
    if isinstance(reference, str):
        return f"as {reference}"
    declared = known.get("type")
    if isinstance(declared, str):
        return _named(declared, known, root, left)
    names = [name for name in declared if isinstance(name, str)] if isinstance(declared, list) else []
    words = [_named(name, known, root, left) for name in sorted(names, key=lambda name: name == "null")]
    for word in ("anyOf", "oneOf") if not names else ():
        alternatives = known.get(word)
        if isinstance(alternatives, list):
            words += [_words(each, root, left - 1) for each in alternatives[:_VALUES]]
    return " or ".join(dict.fromkeys(words)) or ("object" if "properties" in known else "anything")


def _named(name: str, schema: dict[str, Any], root: Any, left: int) -> str:
    if name == "array":
        items = schema.get("items")
        return f"array of {_words(items, root, left - 1)}" if items is not None else "array"
    form = schema.get("format")
    return f"{form}" if name == "string" and isinstance(form, str) and form else name


def _facts(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if _TELLING.isdisjoint(schema):
        return
    values = schema.get("enum")
    if isinstance(values, list):
        more = f" and {len(values) - _VALUES:,} more" if len(values) > _VALUES else ""
        yield "one of", ", ".join(map(_value, values[:_VALUES])) + more
    if "const" in schema:
        yield "always", _value(schema["const"])
    for word in _LIMITS:
        if schema.get(word) is not None:
            yield word, _value(schema[word])


def _value(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _VALUE)
