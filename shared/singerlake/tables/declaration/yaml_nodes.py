"""A YAML file as values that know where they stand, so that each error names the file, the line and the key.

PyYAML only composes the nodes: it makes no objects of them. An alias may be used; what it would unfold to is bounded.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

import yaml

from singerlake.errors import SettingError
from singerlake.humanize import size

MOST_BYTES, MOST_DEPTH, MOST_NODES = 1 << 20, 20, 100_000
"""What a file may hold. ``MOST_NODES`` counts what an alias stands for each time that it is used."""
_TAG = "tag:yaml.org,2002:"
_READ_AS = {
    "int": "a number",
    "float": "a number",
    "bool": "a boolean",
    "timestamp": "a date",
    "null": "nothing",
}
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_SHOWN = 40

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Value:
    """A node of ``file``; ``path`` are the keys that lead to it: ``tables.flights.keep``."""

    file: str
    path: str
    node: yaml.Node

    @property
    def line(self) -> int:
        """Counted from 1."""
        return int(self.node.start_mark.line) + 1

    def error(self, message: str, hint: str = "") -> SettingError:
        """An error that names this place."""
        return SettingError(message, hint=hint, file=self.file, line=self.line)

    def mapping(self, known: Iterable[str] | None = None) -> dict[str, Value]:
        """The values by their keys, which are all in ``known`` where that is given. Raises ``SettingError``."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(
                f"{self.path} is {self._kind()}, and has to be a mapping", "write 'name: value' lines below"
            )
        self._refuse_tag("map")
        found: dict[str, Value] = {}
        for key, value in self.node.value:
            at = Value(self.file, f"a key of {self.path}", key)
            if key.tag == f"{_TAG}merge":
                raise at.error(f"{self.path} has '<<', which is not read", "write the keys themselves, or use an alias")
            name = at.text()
            if name in found:
                raise at.error(f"{self.path} has {name!r} twice", f"it is in line {found[name].line} too; remove one")
            if known is not None and name not in known:
                raise at.error(f"{self.path} has no key {name!r}", meant(name, known))
            path = name if self.path == "the file" else f"{self.path}.{name}"
            found[name] = Value(self.file, path, value)
        return found

    def items(self) -> list[Value]:
        """The values of a list; a single text counts as a list of one. Raises ``SettingError``."""
        if isinstance(self.node, yaml.SequenceNode):
            self._refuse_tag("seq")
            return [Value(self.file, self.path, node) for node in self.node.value]
        if isinstance(self.node, yaml.ScalarNode) and not self.is_empty:
            return [self]
        raise self.error(f"{self.path} is {self._kind()}, and has to be a list", "write it as [one, two]")

    def text(self) -> str:
        """The text that stands here. Raises ``SettingError``, also where YAML reads a number, a boolean or a date."""
        if not isinstance(self.node, yaml.ScalarNode) or self.is_empty:
            raise self.error(f"{self.path} is {self._kind()}, and has to be text", "write one name or value")
        tag, written = str(self.node.tag), str(self.node.value)
        if tag not in (f"{_TAG}str", f"{_TAG}value"):
            read = _READ_AS.get(tag.removeprefix(_TAG), f"a {tag.removeprefix(_TAG)}")
            raise self.error(f"{self.path} is {written[:_SHOWN]}, which YAML reads as {read}", "write it in quotes")
        if not written.strip():
            raise self.error(f"{self.path} is empty", "write one name or value")
        try:
            written.encode()
        except UnicodeEncodeError:
            raise self.error(f"{self.path} holds a lone surrogate, which no name or value can", "remove it") from None
        return written

    def texts(self) -> tuple[str, ...]:
        """The different texts of a list, in order. Raises ``SettingError``."""
        found: list[str] = []
        for item in self.items():
            text = item.text()
            if text in found:
                raise item.error(f"{self.path} names {text!r} twice", "remove one")
            found.append(text)
        if not found:
            raise self.error(f"{self.path} is an empty list", "name something, or remove the key")
        return tuple(found)

    def flag(self) -> bool:
        """``true`` or ``false``. Raises ``SettingError``."""
        word = str(self.node.value).lower() if isinstance(self.node, yaml.ScalarNode) else ""
        if self.node.tag != f"{_TAG}bool" or word not in _TRUE + _FALSE:
            raise self.error(f"{self.path} is {self._kind()}, and has to be true or false", "write true or false")
        return word in _TRUE

    def one_of(self, known: Iterable[str]) -> str:
        """One of these words. Raises ``SettingError``."""
        words = list(known)
        text = self.text()
        if text not in words:
            raise self.error(f"{self.path} is {text!r}", meant(text, words))
        return text

    def made(self, make: Callable[[str], Made]) -> Made:
        """What ``make`` makes of the text. Raises ``SettingError``: that of ``make``, with this place."""
        text = self.text()
        try:
            return make(text)
        except SettingError as error:
            raise self.error(f"{self.path}: {error.message}", error.hint) from error

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands behind the key."""
        return self.node.tag == f"{_TAG}null" and self.node.value in ("", "~", "null", "Null", "NULL")

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    def _refuse_tag(self, kind: str) -> None:
        """Raise ``SettingError`` where a tag says that this is of another kind than it looks."""
        if self.node.tag != f"{_TAG}{kind}":
            tag = str(self.node.tag).removeprefix(_TAG)[:_SHOWN]
            raise self.error(f"{self.path} has the tag {tag!r}, which is not read", "remove the tag")

    def _kind(self) -> str:
        if self.is_empty:
            return "empty"
        if self.is_mapping:
            return "a mapping"
        return "a list" if isinstance(self.node, yaml.SequenceNode) else "a single value"


def meant(name: str, known: Iterable[str]) -> str:
    """What a hint says of a name that is none of ``known``."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"it knows: {', '.join(names)}"


def read_nodes(body: bytes, file: str) -> Value:
    """The whole of a file. Raises ``SettingError`` where it is empty, too large, no UTF-8 or no YAML."""
    text = _decoded(body, file)
    try:
        node = _compose(text, file)
    except yaml.MarkedYAMLError as error:
        mark: yaml.Mark | None = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "not readable"
        hint = "indent with spaces" if "'\\t'" in problem else "correct the line, or the one before it"
        raise _error(f"not YAML: {problem}", file, mark.line if mark else 0, hint) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise _error("holds a character that YAML does not allow", file, line, "remove it") from None
    except (ValueError, OverflowError):
        # Of PyYAML, for an escape beyond the last character and a version with thousands of digits.
        raise _error("not YAML: a number in it is too large", file, 0, "look at %YAML and at escapes") from None
    if node is None:
        raise _error("the file is empty", file, 0, "write 'tables:' and a table below it")
    _measure(node, file, {})
    return Value(file, "the file", node)


def _compose(text: str, file: str) -> yaml.Node | None:
    depth = 0

    class Loader(yaml.SafeLoader):
        """Refuses what is nested so deeply that composing it would take all of Python's stack."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            nonlocal depth
            depth += 1
            if depth > MOST_DEPTH:
                raise _error(f"nested deeper than {MOST_DEPTH} levels", file, self.line)
            made = super().compose_node(parent, index)
            depth -= 1
            return made

    return yaml.compose(text, Loader=Loader)


def _decoded(body: bytes, file: str) -> str:
    if len(body) > MOST_BYTES:
        raise _error(f"larger than {size(MOST_BYTES)}", file, 0, "name the file that declares tables")
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _error("the file is UTF-16", file, 0, "save it as UTF-8")
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error("not UTF-8", file, body.count(b"\n", 0, error.start), "save the file as UTF-8") from None


def _measure(node: yaml.Node, file: str, known: dict[int, int | None]) -> int:
    """How many nodes there are below one. An alias comes after what it stands for, which is measured then."""
    at = id(node)
    if at in known:
        count = known[at]
        if count is None:
            raise _error("an alias stands within what it stands for", file, node.start_mark.line, "remove the alias")
        return count
    known[at] = None
    children = node.value if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    count = 1 + sum(_measure(child, file, known) for child in children)
    if count > MOST_NODES:
        raise _error(
            f"more than {MOST_NODES:,} values, aliases counted", file, node.start_mark.line, "use fewer aliases"
        )
    known[at] = count
    return count


def _error(message: str, file: str, line: int, hint: str = "write the file more simply") -> SettingError:
    return SettingError(message, hint=hint, file=file, line=line + 1)
