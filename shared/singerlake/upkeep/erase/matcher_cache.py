"""What is to be erased, made ready to look for it: once in each process, however many files it looks into."""

from __future__ import annotations

import pickle
from hashlib import sha256

from singerlake.conditions import Condition
from singerlake.upkeep.erase.match import Matcher, RecordMatcher
from singerlake.upkeep.erase.of_run import OfRun, RunMatcher

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
        """What finds it in one file."""
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
