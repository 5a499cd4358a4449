"""Finding the messages that are to be erased: records that a condition means, at nearly the speed of msgspec, or all
that one run brought.

Of each line only what the condition names is decoded; what msgspec does not take, or what is none of the shapes that
it was told, is looked at line by line, with a parser that takes all that a lake holds. Which messages a run brought the
headers of the files say that it wrote, also where these were joined.
"""

from __future__ import annotations

import json
import operator
import pickle
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from singerlake.attached.property_path import ABSENT, EACH, Step, values_at
from singerlake.clock import parse_timestamp
from singerlake.conditions import Condition, Reading, Test, Value
from singerlake.format.extra_fields import FileHeader, Provenance, own_words
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import REFUSALS, is_record_line, is_schema_line, messages_in, one_a_line
from singerlake.interpreter.process import with_room

_Tree = dict[str, Any]
"""What has to be decoded of an object: by name, what of the value, None for all of it."""
_Other = str | int | float | bool | list[Any] | None
"""What may stand where an object is looked for."""
_NOT_A_FIELD = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
"""In a name: what msgspec takes in no field's."""

_BEYOND = object()
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d(:\d\d(:\d\d(\.\d{1,6}0*)?)?)?([Zz]|[+-]\d\d(:?\d\d)?)?", re.ASCII)
"""What a column of the type ``timestamp`` takes."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)


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

    def __call__(self, lines: bytes) -> Matches:
        """The matches among whole lines. Raises ``ValueError`` for a line that is not a JSON object."""


class Matching(Protocol):
    """What is to be found in many files."""

    def matcher(self) -> Matcher:
        """What finds it in one file."""


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
        self._first = next((test for test in self._tests if test.likely), self._tests[0])
        shape = Any if record is None else record | _Other
        message = msgspec.defstruct("Message", [("type", Any, None), ("record", shape, None)], gc=False)
        # The nearest double may be that of another number, which must stay.
        self._decoder = msgspec.json.Decoder(message, float_hook=_exact)

    def begin(self, extra: bytes | None) -> None:
        """Nothing depends on it."""

    def __call__(self, lines: bytes) -> Matches:
        found: list[int] = []
        entries: set[int] = set()
        messages = self._messages(lines)
        for at in self._first.candidates(messages):
            if (held := self._held(messages[at])) is not None:
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

    def _held(self, message: Any) -> set[int] | None:
        """The values that a record holds, if all tests hold for it; None if one does not."""
        held: set[int] = set()
        if message.type != "RECORD" or not isinstance(message.record, (msgspec.Struct, dict)):
            return None
        for test in self._tests:
            own = test.held(message.record)
            if own is None:
                return None
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
        self._test = test
        self._known: dict[type, dict[Any, int]] = {}
        self._again: dict[tuple[type, Any], set[int]] = {}
        for entry, alternatives in enumerate(test.values, first):
            for value in alternatives:
                kind, value = _literal(value, test.reading)
                if self._known.setdefault(kind, {}).setdefault(value, entry) != entry:
                    # Of a million values few are there twice.
                    self._again.setdefault((kind, value), set()).add(entry)
        attributes = _attributes(record, test.path)
        self._value = attrgetter(attributes) if attributes else None
        # True is equal to 1: these only say which messages are worth a look.
        is_plain = test.is_among and not test.is_inverse and test.reading == "text"
        self.likely = frozenset(value for known in self._known.values() for value in known) if is_plain else frozenset()

    def candidates(self, messages: Sequence[Any]) -> Iterable[int]:
        """The messages that may be meant, by index, where the path leads to a value in all: without a call for each."""
        if self._value is not None and self.likely:
            try:
                return [at for at, value in enumerate(map(self._value, messages)) if value in self.likely]
            except (AttributeError, TypeError):
                pass
        return range(len(messages))

    def held(self, record: Any) -> set[int] | None:
        """The entries that mean a value at the path in a record; None where the test holds for none of these."""
        held: set[int] = set()
        holds = False
        for found in values_at(record, self._test.path, _member):
            if self._test.operator == "null":
                holds |= (found is None) is not self._test.negated
            elif not self._test.is_among:
                holds |= any(self._compares(kind, value) for kind, value in _forms(found, self._test.reading))
            else:
                forms = _forms(found, self._test.reading)
                equal = [form for form in forms if form[1] in self._known.get(form[0], ())]
                if self._test.is_inverse:
                    # What is of another kind than all that is named is neither equal to it nor not.
                    holds |= not equal and any(kind in self._known for kind, _ in forms)
                elif equal:
                    holds = True
                    for kind, value in equal:
                        held |= {self._known[kind][value], *self._again.get((kind, value), ())}
        return held if holds else None

    def _compares(self, kind: type, value: Any) -> bool:
        if kind is str and self._test.reading != "text":
            # In the order of characters 9 is behind 10, and one moment before itself in another zone.
            return False
        literal = next(iter(self._known.get(kind, ())), None)
        return literal is not None and value == value and bool(_COMPARE[self._test.operator](value, literal))


def _forms(value: Any, reading: Reading) -> Sequence[tuple[type, Any]]:
    """As what a value of a record is compared: by its kind, and a text also as what it is declared to be."""
    if isinstance(value, bool):
        return ((bool, value),)
    if isinstance(value, str):
        read = _READ[reading](value) if reading in _READ else None
        return ((str, value),) if read is None else ((str, value), (type(read), read))
    return ((Decimal, Decimal(value)),) if isinstance(value, (int, float, Decimal)) else ()


def _literal(value: Value, reading: Reading) -> tuple[type, Any]:
    read = _READ[reading](value) if isinstance(value, str) and reading in ("time", "date") else None
    return (type(value), value) if read is None else (type(read), read)


def read_time(text: str) -> datetime | None:
    """The moment that a text of a date-time is; None where a microsecond does not tell it from others."""
    return parse_timestamp(text) if _TIME.fullmatch(text) else None


def read_date(text: str) -> date | None:
    """The day that a text of a date is."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def read_number(text: str) -> Decimal | None:
    """The number that a text of a decimal is."""
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


_READ: dict[str, Callable[[str], Any]] = {"time": read_time, "date": read_date, "number": read_number}


def _attributes(record: Any, path: Sequence[Step]) -> str | None:
    """Where in a decoded message the value at a path is; None for one over an array, or not decoded to its end."""
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
    """The ``Member`` of decoded messages, which have only what was asked for. What an object does not have is null, as
    in a table; what is not an object has nothing."""
    if isinstance(value, msgspec.Struct):
        return getattr(value, getattr(type(value), "__names__")[name])  # noqa: B009
    if isinstance(value, dict):
        return value.get(name)
    return None if value is None else ABSENT


def _exact(written: str) -> Any:
    """``_BEYOND`` for a number with an exponent beyond all that a condition can name."""
    try:
        return Decimal(written)
    except InvalidOperation:
        digits = written.lower().partition("e")[0]
        return _BEYOND if digits.strip("-0.") else Decimal(0)


_OTHERS = (b'"SCHEMA"', b'"ACTIVATE_VERSION"', HOLE)


@dataclass(frozen=True, slots=True)
class OfRun:
    """All messages that the run with that id brought, ACTIVATE_VERSION messages too."""

    run: str


class RunMatcher:
    """Finds all messages of ``run`` in one file, whose members it sees in order."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._is_its = False
        self._seen = self._said = 0
        self._ends: deque[int] = deque()

    def begin(self, extra: bytes | None) -> None:
        """A member with a header begins a file of the run that the header names; those without go on with it, as far
        as the file goes: the members in front of a joined file say how many messages each has."""
        words = own_words(extra) if extra is not None else None
        if isinstance(words, FileHeader):
            self._is_its = words.run == self._run
        elif isinstance(words, Provenance) and not self._seen:
            for _, messages in words.replaces:
                self._said += messages
                self._ends.append(self._said)

    def __call__(self, lines: bytes) -> Matches:
        found = self._found(lines) if self._is_its else Matches((), 0)
        if self._ends:
            self._pass(lines)
        return found

    def _found(self, lines: bytes) -> Matches:
        if not any(word in lines for word in _OTHERS):
            count = lines.count(b"\n")
            return Matches(range(count), count)
        each = lines.split(b"\n")[:-1]
        found = [at for at, line in enumerate(each) if line != HOLE[:-1] and not is_schema_line(line)]
        return Matches(found, sum(is_record_line(each[at]) for at in found))

    def _pass(self, lines: bytes) -> None:
        """What comes next may be another file, and one without a header is of no run."""
        self._seen += messages_in(lines)
        while self._ends and self._seen >= self._ends[0]:
            self._ends.popleft()
            self._is_its = False


_KEPT = 4
Meant = Condition | OfRun
"""What is to be erased."""


class Ready:
    """What is ``meant``, with what finds it. It travels to other processes with each of their tasks: a condition of a
    million values as bytes, which are unpacked there the first time alone."""

    def __init__(self, meant: Meant) -> None:
        self.meant = meant
        self._finds = None if isinstance(meant, OfRun) else RecordMatcher(meant)
        self._packed: tuple[bytes, bytes] | None = None

    def matcher(self) -> Matcher:
        if self._finds is not None:
            return self._finds
        assert isinstance(self.meant, OfRun)
        # Which run a message is of, the members before it say: each file has a matcher of its own.
        return RunMatcher(self.meant.run)

    def __reduce__(self) -> tuple[object, tuple[bytes, bytes]]:
        if self._packed is None:
            packed = pickle.dumps(self.meant)
            self._packed = sha256(packed).digest(), packed
        return _unpacked, self._packed


_known: dict[bytes, Ready] = {}


def _unpacked(digest: bytes, packed: bytes) -> Ready:
    ready = _known.get(digest)
    if ready is None:
        # The bytes came within a pickle, from the process that gives the tasks.
        ready = Ready(pickle.loads(packed))  # noqa: S301
        while len(_known) >= _KEPT:
            _known.pop(next(iter(_known)), None)
        _known[digest] = ready
    return ready
