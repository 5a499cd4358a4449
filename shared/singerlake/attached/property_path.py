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

_TOKEN = re.compile(r"""\s*('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|\[\*\]|@\S+|==?|[(),.]|[^\s'"=(),.\[\]@]+)""")
EACH = None
"""The step of a path that is any element of an array."""

Step = str | None
Path = tuple[Step, ...]
ABSENT = object()
"""Stands for what is not there; null is."""
Member = Callable[[Any, str], Any]
"""Gives what an object has under a name; ``ABSENT`` where there is no such name, or no object."""


class Words:
    """The words of ``text``, to be taken one after the other. ``refuse`` makes the error for a text that is none of
    those that its reader knows, of the number of the character at which that shows, from 1 on."""

    def __init__(self, text: str, refuse: Callable[[int], SettingError]) -> None:
        self._text = text.rstrip()
        self._refuse = refuse
        self._at = 0
        self._tokens = list(self._split())

    @property
    def more(self) -> bool:
        """Whether there is another word."""
        return bool(self._tokens)

    @property
    def next(self) -> str:
        """The word that ``pop`` takes next; empty at the end."""
        return self._tokens[0][0] if self._tokens else ""

    def pop(self) -> str:
        """Take a word. Raises what ``refuse`` makes at the end."""
        if not self._tokens:
            self._at = len(self._text)
            raise self.refused()
        word, self._at = self._tokens.pop(0)
        return word

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

    def quoted(self, token: str) -> str:
        """What a text in double quotes says. Raises what ``refuse`` makes."""
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
            return self.quoted(token)
        if not token[0].isalnum() and token[0] not in "_$-":
            raise self.refused()
        return token

    def _split(self) -> Iterator[tuple[str, int]]:
        """The words, each with where it begins."""
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                raise self.refused()
            yield match[1], match.start(1)
            self._at = match.end()


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
    """The values that ``path`` leads to from ``value``, into whose objects ``member`` leads: several over arrays, in
    their order; none where it leads nowhere."""
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
