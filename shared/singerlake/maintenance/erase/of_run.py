"""The messages that one run brought, told by the headers of the files that it wrote, also where these were joined."""

from __future__ import annotations

from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import is_record_line, is_schema_line
from singerlake.maintenance.erase.match import Matches
from singerlake.maintenance.scan.scan import own_words
from singerlake.singer_file import FileHeader

_OTHERS = (b'"SCHEMA"', b'"ACTIVATE_VERSION"', HOLE)


class RunMatcher:
    """Finds all messages of ``run`` in one file, whose members it sees in order."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._is_its = False

    def begin(self, extra: bytes | None) -> None:
        """A member with a header begins a file of the run that the header names; those without go on with it."""
        words = own_words(extra) if extra is not None else None
        if isinstance(words, FileHeader):
            self._is_its = words.run == self._run

    def __call__(self, lines: bytes) -> Matches:
        """The messages among whole lines, if they are of that run."""
        if not self._is_its:
            return Matches((), 0)
        if not any(word in lines for word in _OTHERS):
            count = lines.count(b"\n")
            return Matches(range(count), count)
        each = lines.split(b"\n")[:-1]
        found = [at for at, line in enumerate(each) if line != HOLE[:-1] and not is_schema_line(line)]
        return Matches(found, sum(is_record_line(each[at]) for at in found))
