"""The invariants of segments: each is written once, and is there as long as a state that is stored names it. The state
in ``manifest.json`` names those of the one that it replaces, and those of its writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from singerlake.format import layout
from singerlake.storage.port import Stored
from singerlake.stores.segments.stored import named_in
from tests.simulation.watches.truth import Fail


class SegmentWatch:
    """``peek`` gives an object as it is, ``keys`` all keys."""

    def __init__(
        self, fail: Fail, peek: Callable[[str], Stored | None], keys: Callable[[], Iterable[str]], prefix: str
    ) -> None:
        self._fail = fail
        self._peek = peek
        self._keys = keys
        self._prefix = prefix
        self._bodies: dict[str, bytes] = {}
        self._writers: dict[str, str] = {}

    def changed(self, key: str, after: Stored | None, by: str) -> None:
        """A request of ``by`` changed an object below ``_segments/``."""
        name = layout.segment_name_in(key.rpartition("/")[2])
        if name is None:
            if not key.endswith(f"/{layout.UNNAMED_SEGMENTS}"):
                self._fail(f"nobody knows what {key} is")
        elif after is None:
            naming = [state for state in self._states() if name in self._named(state)]
            if naming:
                self._fail(f"segment {name} was deleted, and {naming[0]} names it")
        else:
            self._writers.setdefault(name, by)
            if self._bodies.setdefault(key, after.body) != after.body:
                self._fail(f"{key} was written again with another content")

    def named(self, key: str, before: Stored | None, body: bytes, by: str) -> None:
        """A request of ``by`` stored a state at ``key``."""
        replaced = {segment.name for segment in named_in(before.body)} if before else set()
        for segment in named_in(body):
            if self._peek(self._key(segment.name)) is None:
                self._fail(f"{key} names segment {segment.name}, which is not there")
            own = segment.name in replaced or self._writers.get(segment.name) == by
            if key.endswith(f"/{layout.MANIFEST}") and not own:
                self._fail(f"{key} names segment {segment.name}, which is of another state")

    def _states(self) -> list[str]:
        return [key for key in self._keys() if key.endswith((f"/{layout.MANIFEST}", "snapshot.json"))]

    def _named(self, key: str) -> set[str]:
        stored = self._peek(key)
        return {segment.name for segment in named_in(stored.body)} if stored else set()

    def _key(self, name: str) -> str:
        return f"{self._prefix}{layout.SEGMENTS}/{name}.json.gz"
