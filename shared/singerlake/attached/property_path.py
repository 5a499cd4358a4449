"""Where in a record a value is: ``photo``, ``user.photo``, ``photos[*].url``, ``"odd name".x``. Pure.

    path  =  name {"." name | "[*]"}
    name  =  a word, or any text in double quotes

``[*]`` is any element of an array.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from singerlake.errors import SettingError
from singerlake.format.exact_json import decode

QUOTED = r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\""""
"""Text in single or double quotes."""
_WORD = re.compile(rf"""\s*({QUOTED}|\[\*\]|[=(),.]|[^\s'"=(),.\[\]@]+)""")
EACH = None
"""The step of a path that is any element of an array."""

Step = str | None
Path = tuple[Step, ...]
ABSENT = object()
"""Stands for what is not there; null is."""
Member = Callable[[Any, str], Any]
"""Gives what an object has under a name; ``ABSENT`` where there is no such name, or no object."""


class Words:
    """The words of ``text``, one after the other; ``word`` matches one, behind white space. ``refuse`` makes the error
    for an unknown text, from the number of the character at which that shows, from 1 on."""

    def __init__(self, text: str, refuse: Callable[[int], SettingError], word: re.Pattern[str] = _WORD) -> None:
        self._text = text.rstrip()
        self._refuse = refuse
        self._word = word
        self._at = self._end = 0

    @property
    def more(self) -> bool:
        return self._end < len(self._text)

    @property
    def next(self) -> str:
        """The word that ``pop`` takes next; empty where there is none."""
        found = self._word.match(self._text, self._end)
        return found[1] if found else ""

    def pop(self, word: re.Pattern[str] | None = None) -> str:
        """Take a word, which ``word`` matches if it is given. Raises what ``refuse`` makes where there is none."""
        found = (word or self._word).match(self._text, self._end)
        if found is None:
            self._at = self._end
            raise self.refused()
        self._at, self._end = found.span(1)
        return found[1]

    def take(self, word: str) -> None:
        """Take this word. Raises what ``refuse`` makes where it is another one."""
        if self.pop().lower() != word:
            raise self.refused()

    def path(self) -> Path:
        """Take a path. Raises what ``refuse`` makes."""
        steps: list[Step] = [self._name()]
        while self.next in (".", "[*]"):
            steps.append(self._name() if self.pop() == "." else EACH)
        return tuple(steps)

    def text(self, token: str) -> str:
        """What a word in quotes says; JSON in double ones, ``''`` for one in single ones. Raises as ``refuse``."""
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        try:
            return decode(token.encode(), str)
        except (ValueError, UnicodeEncodeError):
            raise self.refused() from None

    def refused(self) -> SettingError:
        """The error that the word taken last is wrong."""
        return self._refuse(self._at + 1)

    def _name(self) -> str:
        token = self.pop()
        if token.startswith('"'):
            return self.text(token)
        if not token[0].isalnum() and token[0] not in "_$-":
            raise self.refused()
        return token


def parse_path(text: str, refuse: Callable[[int], SettingError]) -> Path:
    """The path that ``text`` is. Raises what ``refuse`` makes of the number of the character that is wrong."""
    words = Words(text, refuse)
    path = words.path()
    if words.more:
        words.pop()
        raise words.refused()
    return path


def member(value: Any, name: str) -> Any:
    """The ``Member`` of what a JSON parser gives."""
    return value.get(name, ABSENT) if isinstance(value, dict) else ABSENT


def values_at(value: Any, path: Sequence[Step], member: Member = member) -> Iterator[Any]:
    """The values that ``path`` leads to from ``value``, by ``member``: several over arrays, in their order, or none."""
    for at, step in enumerate(path):
        if step is EACH:
            if isinstance(value, list):
                for each in value:
                    yield from values_at(each, path[at + 1 :], member)
            return
        value = member(value, step)
        if value is ABSENT:
            return
    yield value
