"""The messages that one run brought, told by the headers of the files that it wrote, also where these were joined."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from singerlake.format.extra_fields import FileHeader, Provenance, own_words
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import is_record_line, is_schema_line, messages_in
from singerlake.upkeep.erase.match import Matches

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
        """The messages among whole lines, if they are of that run."""
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
