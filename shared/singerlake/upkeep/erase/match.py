"""Finding the records that a condition means among lines, at nearly the speed of msgspec.

Of each line only what the condition names is decoded; what msgspec does not take, or what is none of the shapes that
it was told, is looked at line by line, with a parser that takes all that a lake holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from singerlake.attached.property_path import ABSENT, EACH, Step, member, values_at
from singerlake.format.lines.messages import REFUSALS, one_a_line
from singerlake.interpreter.recursion_limit import with_room
from singerlake.upkeep.erase.condition import Condition, Test, Value

_Tree = dict[str, Any]
"""What has to be decoded of an object: by name, what of the value, None for all of it."""
_Other = str | int | float | bool | list[Any] | None
"""What may stand where an object is looked for."""
_NOT_A_FIELD = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
"""In a name: what msgspec takes in no field's."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Which ``lines`` are meant, by index, and how many ``records`` are among them; and which values of the condition
    (``entries``, counted over its tests) one of these records holds."""

    lines: Sequence[int]
    records: int
    entries: frozenset[int] = frozenset()


class Matcher(Protocol):
    """Finds the lines of a file that are meant."""

    def begin(self, extra: bytes | None) -> None:
        """The next lines are those of another gzip member, whose ``SL`` field is ``extra``."""
        ...

    def __call__(self, lines: bytes) -> Matches:
        """The matches among whole lines. Raises ``ValueError`` for a line that is no JSON object."""
        ...


class Matching(Protocol):
    """What is to be found in many files."""

    def matcher(self) -> Matcher:
        """What finds it in one file."""
        ...


class RecordMatcher:
    """Finds the records that ``condition`` means, wherever they stand."""

    def __init__(self, condition: Condition) -> None:
        tree: _Tree | None = {}
        for test in condition.tests:
            tree = _planted(tree, test.path)
        record = None if tree is None else _struct(tree)
        first = 0
        self._tests: list[_CompiledTest] = []
        for test in condition.tests:
            self._tests.append(_CompiledTest(test, first, record))
            first += test.entries
        shape = Any if record is None else record | _Other
        message = msgspec.defstruct("Message", [("type", Any, None), ("record", shape, None)], gc=False)
        # The nearest double may be that of another number, which must stay.
        self._decoder = msgspec.json.Decoder(message, float_hook=_exact)

    def begin(self, extra: bytes | None) -> None:
        """Nothing depends on it."""

    def __call__(self, lines: bytes) -> Matches:
        """The matches among whole lines. Raises ``ValueError`` for a line that is no JSON object."""
        found: list[int] = []
        entries: set[int] = set()
        messages = self._messages(lines)
        for at in self._tests[0].candidates(messages):
            if held := self._held(messages[at]):
                found.append(at)
                entries |= held
        return Matches(found, len(found), frozenset(entries))

    def _messages(self, lines: bytes) -> Sequence[Any]:
        try:
            messages = self._decoder.decode_lines(lines)
        except REFUSALS:
            messages = []
        if messages and one_a_line(len(messages), lines):
            return messages
        return [self._message(line) for line in lines.split(b"\n")[:-1]]

    def _message(self, line: bytes) -> Any:
        try:
            return self._decoder.decode(line)
        except REFUSALS:
            said = with_room(lambda: json.loads(line.decode(), parse_int=_exact, parse_float=_exact))
        if not isinstance(said, dict):
            raise ValueError("not a JSON object")
        return Envelope(said.get("type"), said.get("record"))

    def _held(self, message: Any) -> set[int]:
        """The values that a record holds, if all tests hold for it; none if one does not."""
        held: set[int] = set()
        if message.type != "RECORD":
            return held
        for test in self._tests:
            own = test.held(message.record)
            if not own:
                return set()
            held |= own
        return held


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message that the standard library's parser took."""

    type: Any
    record: Any


class _CompiledTest:
    def __init__(self, test: Test, first: int, record: Any) -> None:
        """``first``: the number of the test's first entry. ``record``: the type that records are decoded to."""
        self._path = test.path
        self._texts: dict[str, int] = {}
        self._numbers: dict[Decimal, int] = {}
        self._booleans: dict[bool, int] = {}
        self._again: dict[tuple[type, Value], set[int]] = {}
        for value, entry in test.values:
            if isinstance(value, bool):
                known = self._booleans.setdefault(value, first + entry)
            elif isinstance(value, str):
                known = self._texts.setdefault(value, first + entry)
            else:
                known = self._numbers.setdefault(value, first + entry)
            if known != first + entry:
                # Of a million values few are there twice.
                self._again.setdefault((type(value), value), set()).add(first + entry)
        attributes = _attributes(record, test.path)
        self._value = attrgetter(attributes) if attributes else None
        # True is equal to 1: these only say which messages are worth a look.
        self._likely = frozenset((*self._texts, *self._booleans, *self._numbers))

    def candidates(self, messages: Sequence[Any]) -> Iterable[int]:
        """The indexes of the messages that may be meant, found without a call for each of them, where the path leads to
        a value in all of them."""
        if self._value is not None:
            try:
                return [at for at, value in enumerate(map(self._value, messages)) if value in self._likely]
            except (AttributeError, TypeError):
                pass
        return range(len(messages))

    def held(self, record: Any) -> set[int]:
        """The values that are found at the path in a record."""
        held: set[int] = set()
        for found in values_at(record, self._path, _member):
            entry, value = self._entry(found)
            if entry is not None:
                held.add(entry)
                held |= self._again.get((type(value), value), set()) if self._again else set()
        return held

    def _entry(self, value: Any) -> tuple[int | None, Value]:
        """The first entry that means a value, and the value as the condition has it."""
        if isinstance(value, bool):
            return self._booleans.get(value), value
        if isinstance(value, str):
            return self._texts.get(value), value
        if isinstance(value, (int, Decimal)):
            return self._numbers.get(number := Decimal(value)), number
        return None, ""


def _attributes(record: Any, path: Sequence[Step]) -> str | None:
    """Where in a decoded message the value at a path is; None for a path over an array, or one that was not decoded to
    its end."""
    names, kind = ["record"], record
    for step in path:
        if kind is None or step not in kind.__names__:
            return None
        names.append(kind.__names__[step])
        kind = kind.__below__[step]
    return ".".join(names)


def _planted(tree: _Tree | None, path: Sequence[Step]) -> _Tree | None:
    """What has to be decoded of an object, beside ``tree`` what a path names; None for all of it. That is so below an
    array, where one path is the beginning of another, and where a name can be no field's."""
    if tree is None or not path or path[0] is EACH or _NOT_A_FIELD.search(path[0]):
        return None
    tree[path[0]] = _planted(tree.get(path[0], {}), path[1:])
    return tree


def _struct(tree: _Tree) -> Any:
    """A type that takes an object and keeps of it what ``tree`` names."""
    names = {name: f"f{at}" for at, name in enumerate(tree)}
    below = {name: None if part is None else _struct(part) for name, part in tree.items()}
    fields = [(names[name], Any if part is None else part | _Other, None) for name, part in below.items()]
    namespace = {"__names__": names, "__below__": below}
    return msgspec.defstruct(
        "Part", fields, rename={field: name for name, field in names.items()}, namespace=namespace, gc=False
    )


def _member(value: Any, name: str) -> Any:
    """The ``Member`` of decoded messages, too, which have only what was asked for."""
    if not isinstance(value, msgspec.Struct):
        return member(value, name)
    field = getattr(type(value), "__names__").get(name)  # noqa: B009
    return ABSENT if field is None else getattr(value, field)


def _exact(written: str) -> Decimal | None:
    """The number that a JSON number is; None for one with an exponent beyond all that a condition can name."""
    try:
        return Decimal(written)
    except InvalidOperation:
        digits = written.lower().partition("e")[0]
        return None if digits.strip("-0.") else Decimal(0)
