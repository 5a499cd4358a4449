"""Which records ``singerlake erase`` means: ``email = 'a@b.c'``, ``user.id in (1, 2)``, ``id in @keys.txt``. Pure.

    condition  =  test {"and" test}
    test       =  path ("=" | "==") value
               |  path "in" "(" value {"," value} ")"
               |  path "in" "@" the name of a file of values, one a line
    value      =  a number, true, false, or text in single or double quotes

A path is one of ``singerlake.attached.property_path``. Numbers are equal by their value (``1`` and ``1.0``), texts
character by character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from singerlake.attached.property_path import Path, Words
from singerlake.errors import SettingError
from singerlake.format.exact_json import decode

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_EXAMPLES = 'write for example "email = \'a@b.c\'", "user.id in (1, 2)" or "id in @keys.txt"'
Value = str | Decimal | bool


@dataclass(frozen=True, slots=True)
class Test:
    """What a property must be. ``path`` leads to it from the record. ``values`` are its alternatives, several for one
    entry of a file where that may be meant as text or as a number: each with the entry's number, from 0 on."""

    __test__ = False
    path: Path
    values: tuple[tuple[Value, int], ...]

    @property
    def entries(self) -> int:
        """How many values were written down."""
        return max((entry for _, entry in self.values), default=-1) + 1


@dataclass(frozen=True, slots=True)
class Condition:
    """All ``tests`` hold for a record that is meant."""

    tests: tuple[Test, ...]

    @property
    def entries(self) -> int:
        """How many values all tests name."""
        return sum(test.entries for test in self.tests)


@dataclass(frozen=True, slots=True)
class OfRun:
    """All messages that the run with that id brought, ACTIVATE_VERSION messages too."""

    run: str


Meant = Condition | OfRun
"""What is to be erased."""


def parse_condition(text: str, read: Callable[[str], str]) -> Condition:
    """What ``text`` means; ``read`` gives the content of a file by its name. Raises ``SettingError``, and what ``read``
    raises."""
    reader = _Reader(text, read)
    tests = [reader.test()]
    while reader.more:
        reader.take("and")
        tests.append(reader.test())
    return Condition(tuple(tests))


def values_in(text: str, name: str) -> tuple[tuple[Value, int], ...]:
    """The values of a file, one a line; empty lines are none. A line in double quotes is a JSON text. Any other is
    taken as it stands, without the white space around it: it means that text, and where it is a number, that number,
    too. Raises ``SettingError``."""
    values: list[tuple[Value, int]] = []
    entries = 0
    for place, line in enumerate(map(str.strip, text.removeprefix("\ufeff").split("\n")), 1):
        if not line:
            continue
        if line.startswith('"'):
            try:
                found: Any = decode(line.encode(), str)
            except (ValueError, UnicodeEncodeError):
                raise SettingError(
                    f"line {place} of {name} begins with a quote and is no JSON text", hint="close its quotes"
                ) from None
            values.append((found, entries))
        else:
            values.append((line, entries))
            values += [(number, entries) for number in _number(line)]
        entries += 1
    if not values:
        raise SettingError(f"{name} holds no value", hint="write one a line")
    return tuple(values)


class _Reader:
    def __init__(self, text: str, read: Callable[[str], str]) -> None:
        self._words = Words(text, _refused)
        self._read = read

    @property
    def more(self) -> bool:
        return self._words.more

    def take(self, word: str) -> None:
        self._words.take(word)

    def test(self) -> Test:
        words = self._words
        path = words.path()
        word = words.pop().lower()
        if word in ("=", "=="):
            return Test(path, ((self._value(), 0),))
        if word != "in":
            raise words.refused()
        if words.next.startswith("@"):
            name = words.pop()[1:]
            return Test(path, values_in(self._read(name), name))
        words.take("(")
        values = [self._value()]
        while words.next == ",":
            words.pop()
            values.append(self._value())
        words.take(")")
        return Test(path, tuple((value, entry) for entry, value in enumerate(values)))

    def _value(self) -> Value:
        words = self._words
        token = words.pop()
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.startswith('"'):
            return words.quoted(token)
        while words.next == ".":
            token += words.pop() + words.pop()
        if token.lower() in ("true", "false"):
            return token.lower() == "true"
        for number in _number(token):
            return number
        raise words.refused()


def _refused(place: int) -> SettingError:
    # What it says may be somebody's name or address, and an error may go to a log.
    return SettingError(f"not a condition, from character {place} on", hint=_EXAMPLES)


def _number(text: str) -> Sequence[Decimal]:
    """The number that a text is; none where it is no JSON number."""
    if not _NUMBER.match(text):
        return ()
    try:
        return (Decimal(text),)
    except InvalidOperation:
        return ()
