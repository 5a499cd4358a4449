"""Conditions on one column: ``> 0``, ``in ('a', 'b')``, ``not null``. One grammar for checks and deletions. Pure.

    condition  =  test {"and" test}
    test       =  ("=" | "!=" | "<" | "<=" | ">" | ">=") value
               |  ["not"] "in" "(" value {"," value} ")"
               |  ["is"] ["not"] "null"
    value      =  a number, true, false, or text in single quotes, '' within it for one

Null holds ``null`` alone; any other test of it is neither true nor false. A check counts that as held, a deletion as
not meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from singerlake.errors import SettingError

_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|<=|>=|!=|<>|[=<>(),]|[^\s'=<>!(),]+)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Test:
    """``operator`` is a comparison, ``in`` or ``null``. ``values`` are bool, Decimal or text."""

    __test__ = False
    operator: str
    values: tuple[Any, ...] = ()
    negated: bool = False

    def __str__(self) -> str:
        if self.operator == "null":
            return "not null" if self.negated else "null"
        if self.operator == "in":
            return f"{'not ' if self.negated else ''}in ({', '.join(map(written, self.values))})"
        return f"{self.operator} {written(self.values[0])}"


@dataclass(frozen=True, slots=True)
class Condition:
    """All ``tests`` of one column."""

    tests: tuple[Test, ...]
    column: str = ""

    def __str__(self) -> str:
        text = " and ".join(map(str, self.tests))
        if not self.column:
            return text
        return f"{self.column if _PLAIN.match(self.column) else written(self.column)} {text}"


def condition_of(text: str) -> Condition:
    """What a check says of its column. Raises ``SettingError``."""
    return Condition(tuple(_Reader(text, _tokens(text)).tests()))


def named_condition_of(text: str) -> Condition:
    """The same behind a column's name: ``op = 'D'``. Raises ``SettingError``."""
    tokens = _tokens(text)
    if len(tokens) < 2:
        raise _unknown(text)
    name = tokens[0]
    if name.startswith("'"):
        name = name[1:-1].replace("''", "'")
    return Condition(tuple(_Reader(text, tokens[1:]).tests()), name)


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise _unknown(text)
        found.append(match[1])
        at = match.end()
    return found


class _Reader:
    def __init__(self, text: str, tokens: Sequence[str]) -> None:
        self._text = text
        self._tokens = list(tokens)

    def tests(self) -> list[Test]:
        tests = [self._test()]
        while self._tokens:
            self._take("and")
            tests.append(self._test())
        return tests

    def _test(self) -> Test:
        if self._next() == "is":
            self._pop()
        negated = self._next() in ("not", "not_null")
        if self._next() == "not_null":
            self._pop()
            return Test("null", negated=True)
        if negated:
            self._pop()
        word = self._pop().lower()
        word = {"<>": "!=", "==": "="}.get(word, word)
        if word == "null":
            return Test("null", negated=negated)
        if word == "in":
            return Test("in", tuple(self._values()), negated)
        if word in _COMPARISONS and not negated:
            return Test(word, (self._value(),))
        raise _unknown(self._text)

    def _values(self) -> list[Any]:
        self._take("(")
        values = [self._value()]
        while self._next() == ",":
            self._pop()
            values.append(self._value())
        self._take(")")
        return values

    def _value(self) -> Any:
        token = self._pop()
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if token.lower() in ("true", "false"):
            return token.lower() == "true"
        try:
            number = Decimal(token)
        except InvalidOperation:
            raise _unknown(self._text) from None
        if not number.is_finite():
            raise _unknown(self._text)
        return number

    def _next(self) -> str:
        return self._tokens[0].lower() if self._tokens else ""

    def _pop(self) -> str:
        if not self._tokens:
            raise _unknown(self._text)
        return self._tokens.pop(0)

    def _take(self, word: str) -> None:
        if self._pop().lower() != word:
            raise _unknown(self._text)


def _unknown(text: str) -> SettingError:
    examples = '"> 0", "in (\'a\', \'b\')", "not_null", ">= 0 and < 1"'
    return SettingError(f"not a condition: {text!r}", hint=f"write for example {examples}")


def written(value: Any) -> str:
    """A literal as conditions have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, Decimal) else "'" + value.replace("'", "''") + "'"
