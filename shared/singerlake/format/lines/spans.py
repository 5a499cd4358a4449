"""Where the members of a JSON object stand in its text, by the parser that takes all that a lake holds. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
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


def span(line: bytes, *path: str) -> tuple[int, int] | None:
    """The bytes of ``line`` that are the value at a path of names; of a name that is there twice the last one counts.
    None where the path leads to nothing. Raises ``ValueError`` for what is not a JSON object."""
    text = line.decode()
    found = with_room(lambda: _span(text, path))
    return None if found is None else (len(text[: found[0]].encode()), len(text[: found[1]].encode()))


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
