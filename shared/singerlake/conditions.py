"""Conditions on records, for erasures, checks and deletions alike: ``email = 'a@b.c'``, ``>= 0 and < 1``.

    condition   =  test {"and" test}
    test        =  [subject] (comparison value | ["not"] "in" values | ["is"] ["not"] "null")
    comparison  =  "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    values      =  "(" value {"," value} ")"  |  "@" the name of a file of values, one a line
    value       =  a number, true, false, or text in single or double quotes

In an erasure each test names a path of ``singerlake.attached.property_path``. A deletion of a table names one property,
before its first test. A check names none: it is one of its column. ``docs/reference/conditions.md`` says for which
values a test holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Literal

from singerlake.attached.property_path import EACH, QUOTED, Path, Words
from singerlake.errors import SettingError
from singerlake.format.exact_json import decode

_WORD = re.compile(rf"""\s*({QUOTED}|\[\*\]|@\S+|<=|>=|!=|<>|==?|[<>(),.]|(?:[^\s'"=<>!(),.\[\]@]|!(?!=))+)""")
_WITH_DOTS = re.compile(rf"""\s*({QUOTED}|[^\s'=<>!(),]+)""")
"""A value, or the name of one property."""
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_SAME = {"==": "=", "<>": "!="}
_QUOTES = "'\""
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TESTS = "a test is =, !=, <, <=, > or >= and a value, in (1, 2), in @file, not in, null or not null"
_OF_PATHS = f'write for example "email = \'a@b.c\'" or "user.id in (1, 2) and n >= 9"; {_TESTS}'
_OF_PROPERTY = f'write for example "op = \'D\'" or "n >= 0 and < 9"; {_TESTS}'
_OF_COLUMN = f'write for example "> 0" or ">= 0 and < 1"; {_TESTS}'
MOST_STORED = 1_000
"""Values of a file that the condition of a table takes: every reader of the table reads them."""

Value = str | Decimal | bool
Read = Callable[[str], str]
"""Gives the content of a file by its name. Raises ``SettingError``."""
Reading = Literal["text", "time", "date", "number"]
"""What a text in a record is compared as."""


@dataclass(frozen=True, slots=True)
class Test:
    """``operator`` is a comparison, ``in`` or ``null``. Each of ``values`` has alternatives, several where a line of a
    file may stand for a text or a number. ``path`` leads from the record to what is compared; it is empty in a check.
    ``reading``: texts there are those of a date-time, a date or a number, and are compared as such."""

    __test__ = False
    operator: str
    values: tuple[tuple[Value, ...], ...] = ()
    negated: bool = False
    path: Path = ()
    reading: Reading = "text"

    @property
    def is_among(self) -> bool:
        """Whether it holds for values that are, or are not, equal to one of ``values``."""
        return self.operator in ("=", "!=", "in")

    @property
    def is_inverse(self) -> bool:
        """Whether it holds for what its values do not name."""
        return self.negated or self.operator == "!="

    @property
    def entries(self) -> int:
        """How many values a record may hold."""
        return len(self.values) if self.is_among and not self.is_inverse else 0

    def __str__(self) -> str:
        negated = "not " if self.negated else ""
        if self.operator == "null":
            return f"{negated}null"
        values = [written(value) for alternatives in self.values for value in alternatives]
        return f"{negated}in ({', '.join(values)})" if self.operator == "in" else f"{self.operator} {values[0]}"


@dataclass(frozen=True, slots=True)
class Condition:
    """All ``tests`` hold for a record that is meant."""

    tests: tuple[Test, ...]

    @property
    def entries(self) -> int:
        """How many values all tests name."""
        return sum(test.entries for test in self.tests)

    @property
    def column(self) -> str:
        """The property of a deletion."""
        return self.tests[0].path[0] or ""

    def __str__(self) -> str:
        """As the state of a table has it: section 14.1 of ``shared/docs/format``."""
        text = " and ".join(map(str, self.tests))
        if not self.tests[0].path:
            return text
        return f"{self.column if _PLAIN.match(self.column) else written(self.column)} {text}"


def parse_condition(text: str, read: Read) -> Condition:
    """The condition of an erasure. Raises ``SettingError``, and what ``read`` raises."""
    reader = _Reader(text, _OF_PATHS, read)
    return reader.condition(reader.words.path)


def named_condition_of(text: str, read: Read | None = None) -> Condition:
    """The condition of a deletion. Raises as ``parse_condition``."""
    reader = _Reader(text, _OF_PROPERTY, read, in_table=True)
    token = reader.words.pop(_WITH_DOTS)
    path = (reader.words.text(token) if token[0] in _QUOTES else token,)
    return reader.condition(lambda: path)


def condition_of(text: str, read: Read | None = None) -> Condition:
    """The condition of a check. Raises as ``parse_condition``."""
    return _Reader(text, _OF_COLUMN, read, in_table=True).condition(lambda: ())


def parse_where(text: str, option: str = "where") -> Condition:
    """What the value of ``option`` means; files that it names are read. Raises ``SettingError``."""
    return parse_condition(text, partial(content_of, where=f"{option}: "))


def content_of(name: str, folder: FilePath = FilePath(), where: str = "") -> str:
    """A ``Read`` of files whose names begin in ``folder``; ``where`` begins an error."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise SettingError(f"{where}cannot read {name!r}: {reason}", hint="name a file with a value a line") from None


def values_in(text: str, name: str) -> tuple[tuple[Value, ...], ...]:
    """The values of a file, one a line; empty lines are none. A line in double quotes is a JSON text. Any other means
    the text as it stands, without white space around it, and the number that it is. Raises ``SettingError``."""
    values: list[tuple[Value, ...]] = []
    for place, line in enumerate(map(str.strip, text.removeprefix("\ufeff").split("\n")), 1):
        if line.startswith('"'):
            try:
                found: Any = decode(line.encode(), str)
            except (ValueError, UnicodeEncodeError):
                raise SettingError(
                    f"line {place} of {name} begins with a quote and is not JSON text", hint="close its quotes"
                ) from None
            values.append((found,))
        elif line:
            number = json_number(line)
            values.append((line,) if number is None else (line, number))
    if not values:
        raise SettingError(f"{name} holds no value", hint="write one a line")
    return tuple(values)


def json_number(text: str) -> Decimal | None:
    """The number that a text is; None where it is not a JSON number."""
    return _decimal(text) if _JSON_NUMBER.match(text) else None


def written(value: Value) -> str:
    """A value as conditions have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, Decimal) else "'" + value.replace("'", "''") + "'"


class _Reader:
    """``in_table``: the state of a table keeps the condition. Numbers are all that ``Decimal`` takes there, as ``+.5``,
    since states have such ones."""

    def __init__(self, text: str, examples: str, read: Read | None, *, in_table: bool = False) -> None:
        self.words = Words(text, partial(_refused, examples), _WORD)
        self._read = read
        self._in_table = in_table

    def condition(self, subject: Callable[[], Path]) -> Condition:
        tests = [self._test(subject())]
        while self.words.more:
            self.words.take("and")
            tests.append(self._test(subject()))
        return Condition(tuple(tests))

    def _test(self, path: Path) -> Test:
        words = self.words
        if words.next.lower() == "is":
            words.pop()
        negated = words.next.lower() == "not"
        if negated:
            words.pop()
        word = words.pop().lower()
        word = _SAME.get(word, word)
        if word == "null" or (word == "not_null" and not negated):
            return Test("null", (), negated or word == "not_null", path)
        if word == "in":
            test = Test("in", self._values(), negated, path)
        elif word in _COMPARISONS and not negated:
            test = Test(word, ((self._value(),),), False, path)
        else:
            raise words.refused()
        if test.is_inverse and EACH in path:
            raise SettingError(
                "'!=' and 'not in' are not clear over [*]: one element, or each of them",
                hint="write =, in, <, <=, > or >= over [*]",
            )
        return test

    def _values(self) -> tuple[tuple[Value, ...], ...]:
        words = self.words
        if words.next.startswith("@") and self._read is not None:
            name = words.pop()[1:]
            found = values_in(self._read(name), name)
            if self._in_table and len(found) > MOST_STORED:
                raise SettingError(
                    f"{name} holds {len(found):,} values, and the condition of a table takes {MOST_STORED:,}",
                    hint="keep the values in a stream, and join its table in a statement",
                )
            return found
        words.take("(")
        values = [(self._value(),)]
        while words.next == ",":
            words.pop()
            values.append((self._value(),))
        words.take(")")
        return tuple(values)

    def _value(self) -> Value:
        token = self.words.pop(_WITH_DOTS)
        if token[0] in _QUOTES:
            return self.words.text(token)
        if token.lower() in ("true", "false"):
            return token.lower() == "true"
        number = _decimal(token) if self._in_table else json_number(token)
        if number is None or not number.is_finite():
            raise self.words.refused()
        return number


def _refused(examples: str, place: int) -> SettingError:
    # What it says may be somebody's name or address, and an error may go to a log.
    hint = f"{examples}; there is no 'or': give each condition by itself"
    return SettingError(f"not a condition, from character {place} on", hint=hint)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
