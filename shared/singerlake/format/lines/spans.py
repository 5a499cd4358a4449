"""Where the members of a JSON object stand in its text, by the parser that takes all that a lake holds. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from singerlake.format.lines.messages import integer
from singerlake.interpreter.process import with_room

_SPACES = re.compile(r"[ \t\r\n]*")
_value = json.JSONDecoder(parse_int=integer).raw_decode


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object, whose value is the text from ``begin`` to before ``end``."""

    name: str
    value: Any
    begin: int
    end: int


def members(text: str, start: int = 0) -> Iterator[Member]:
    """The members of the object that begins at ``start`` or behind white space there, in order, one for each time that
    a name is there. Raises ``ValueError``, ``RecursionError``."""
    at = _behind_spaces(text, start)
    while text[at] != "}" and text[name_at := _behind_spaces(text, at + 1)] != "}":
        name, at = _value(text, name_at)
        begin = _behind_spaces(text, _behind_spaces(text, at) + 1)
        value, at = _value(text, begin)
        yield Member(name, value, begin, at)
        at = _behind_spaces(text, at)


class Spans:
    """Where values stand in a line; the members of an object are looked for once."""

    def __init__(self, line: bytes) -> None:
        """Raises ``UnicodeDecodeError``."""
        self._text = line.decode()
        # Before which byte each character stands, where some are several bytes.
        self._bytes = (
            None if len(self._text) == len(line) else [0, *accumulate(len(each.encode()) for each in self._text)]
        )
        self._known: dict[tuple[str, ...], dict[str, tuple[int, int]]] = {}

    def of(self, *path: str) -> tuple[int, int] | None:
        """The bytes of the value at a path of names; of a name that is there twice the last one counts. None where the
        path leads to nothing. Raises ``ValueError`` for what is not a JSON object."""
        *above, name = path
        parent = tuple(above)
        if parent not in self._known:
            self._known[parent] = with_room(lambda: self._members(parent))
        found = self._known[parent].get(name)
        if found is None or self._bytes is None:
            return found
        return self._bytes[found[0]], self._bytes[found[1]]

    def _members(self, path: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        found = _span(self._text, path)
        if found is None or not self._text.startswith("{", begin := _behind_spaces(self._text, found[0])):
            return {}
        return {member.name: (member.begin, member.end) for member in members(self._text, begin)}


def _span(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    begin, end = 0, len(text)
    for name in path:
        if not text.startswith("{", begin := _behind_spaces(text, begin)):
            return None
        found = [member for member in members(text, begin) if member.name == name]
        if not found:
            return None
        begin, end = found[-1].begin, found[-1].end
    return begin, end


def _behind_spaces(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    assert match is not None
    return match.end()
