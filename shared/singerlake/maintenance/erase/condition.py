"""Which records ``singerlake erase`` means: ``email = 'a@b.c'``, ``user.id in (1, 2)``, ``id in @keys.txt``. Pure.

    condition  =  test {"and" test}
    test       =  path ("=" | "==") value
               |  path "in" "(" value {"," value} ")"
               |  path "in" "@" the name of a file of values, one a line
    path       =  name {"." name | "[*]"}
    name       =  a word, or any text in double quotes
    value      =  a number, true, false, or text in single or double quotes

``[*]`` is any element of an array. Numbers are equal by their value (``1`` and ``1.0``), texts character by character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from singerlake.errors import SettingError
from singerlake.format.exact_json import decode

_TOKEN = re.compile(r"""\s*('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|\[\*\]|@\S+|==?|[(),.]|[^\s'"=(),.\[\]@]+)""")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_EXAMPLES = 'write for example "email = \'a@b.c\'", "user.id in (1, 2)" or "id in @keys.txt"'
EACH = None
"""The step of a path that is any element of an array."""

Step = str | None
Value = str | Decimal | bool


@dataclass(frozen=True, slots=True)
class Test:
    """What a property must be. ``path`` leads to it from the record. ``values`` are its alternatives, several for one
    entry of a file where that may be meant as text or as a number: each with the entry's number, from 0 on."""

    __test__ = False
    path: tuple[Step, ...]
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
        self._text = text
        self._read = read
        self._at = 0
        self._tokens = list(self._split())

    @property
    def more(self) -> bool:
        return bool(self._tokens)

    def _split(self) -> Iterator[tuple[str, int]]:
        """The words, each with where it begins."""
        text = self._text.rstrip()
        while self._at < len(text):
            match = _TOKEN.match(text, self._at)
            if match is None:
                raise self._refused()
            yield match[1], match.start(1)
            self._at = match.end()

    def test(self) -> Test:
        path = self._path()
        word = self._pop().lower()
        if word in ("=", "=="):
            return Test(path, ((self._value(), 0),))
        if word != "in":
            raise self._refused()
        if self._next().startswith("@"):
            name = self._pop()[1:]
            return Test(path, values_in(self._read(name), name))
        self.take("(")
        values = [self._value()]
        while self._next() == ",":
            self._pop()
            values.append(self._value())
        self.take(")")
        return Test(path, tuple((value, entry) for entry, value in enumerate(values)))

    def _path(self) -> tuple[Step, ...]:
        steps: list[Step] = [self._name()]
        while self._next() in (".", "[*]"):
            steps.append(self._name() if self._pop() == "." else EACH)
        return tuple(steps)

    def _name(self) -> str:
        token = self._pop()
        if token.startswith('"'):
            return self._quoted(token)
        if not token[0].isalnum() and token[0] not in "_$-":
            raise self._refused()
        return token

    def _value(self) -> Value:
        token = self._pop()
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.startswith('"'):
            return self._quoted(token)
        while self._next() == ".":
            token += self._pop() + self._pop()
        if token.lower() in ("true", "false"):
            return token.lower() == "true"
        for number in _number(token):
            return number
        raise self._refused()

    def _quoted(self, token: str) -> str:
        try:
            return decode(token.encode(), str)
        except (ValueError, UnicodeEncodeError):
            raise self._refused() from None

    def take(self, word: str) -> None:
        if self._pop().lower() != word:
            raise self._refused()

    def _next(self) -> str:
        return self._tokens[0][0] if self._tokens else ""

    def _pop(self) -> str:
        if not self._tokens:
            self._at = len(self._text.rstrip())
            raise self._refused()
        word, self._at = self._tokens.pop(0)
        return word

    def _refused(self) -> SettingError:
        # What it says may be somebody's name or address, and an error may go to a log.
        return SettingError(f"not a condition, from character {self._at + 1} on", hint=_EXAMPLES)


def _number(text: str) -> Sequence[Decimal]:
    """The number that a text is; none where it is no JSON number."""
    if not _NUMBER.match(text):
        return ()
    try:
        return (Decimal(text),)
    except InvalidOperation:
        return ()
