"""What has to hold of a table, looked at when an effect happens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from singerlake.storage.port import Stored
from singerlake.storage.probe import PROBE_PREFIX
from singerlake.tables.state.keys import SCRATCH, state_key
from singerlake.tables.state.model import TableState, from_json
from tests.simulation.tables.work import PREFIX, TABLE, rows_in
from tests.simulation.watches.watch import Watches
from tests.simulation.world.scheduler import running
from tests.simulation.world.world import World

_FILE = re.compile(r"g[0-9]+/[^/]+\.parquet\Z")


class TableWatch(Watches):
    """Each state follows the one before it, and none is lost; its files hold each offset once; no listed file goes,
    and none is ever written anew with something else. Only who drops the table deletes its state, and no run that had
    begun with it makes the table again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.log = None
        self.newest: TableState | None = None
        self.droppers: set[str] = set()
        self._dropped: list[TableState] = []
        self._began: dict[str, int] = {}
        self._bodies: dict[str, bytes] = {}

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        path = key.removeprefix(PREFIX)
        if key == state_key(TABLE):
            self._became(after, by)
        elif _FILE.match(path) or path.startswith(SCRATCH + "/"):
            if after is None:
                self._gone(path, by)
                return
            self._began.setdefault(by, self.drops)
            if self._bodies.setdefault(path, after.body) != after.body:
                self._world.fail(f"{path} was written again with other rows")
        elif not key.startswith(PROBE_PREFIX):
            self._world.fail(f"nobody knows what {key} is")

    def told(self, state: TableState, who: str) -> None:
        """A run was told that this is the table now, with its own write in it."""
        known = self._dropped if self.newest is None else [*self._dropped, self.newest]
        if not any(each.knows(state.id) for each in known):
            self._world.fail(f"{who} was told of a success that the table does not know")

    @property
    def drops(self) -> int:
        """How often the table was dropped."""
        return len(self._dropped)

    def begins(self, who: str) -> None:
        """A run begins, and has not looked yet."""
        self._began.pop(who, None)

    def _gone(self, path: str, by: str) -> None:
        if self.newest is not None and path in self.newest.paths():
            self._world.fail(f"a listed file was deleted by {by or 'a late request'}: {path}")

    def _became(self, after: Stored | None, by: str) -> None:
        if after is None:
            if by and by not in self.droppers:
                self._world.fail(f"{by} deleted the state")
            if self.newest is not None:
                self._dropped.append(self.newest)
            self.newest = None
            return
        state, old = from_json(after.body, key=state_key(TABLE)), self.newest
        began = self._began.setdefault(by, self.drops)
        # What lands late is the beginning of a table, which a caller that asked again has had already.
        if old is None and began != self.drops and running() is not None:
            self._world.fail(f"{by} brought back a table that was dropped")
        if old is not None and (state.number != old.number + 1 or not state.knows(old.id)):
            self._world.fail(f"state {state.number} does not follow {old.number}: a write is lost")
        if old is not None and old.sources and state.sources[0].offset < old.sources[0].offset:
            self._world.fail(f"the table went from offset {old.sources[0].offset} to {state.sources[0].offset}")
        self.newest = state
        self.check(state, [self._rows(path) for path in _paths(state)])

    def check(self, state: TableState, found: Sequence[list[int]]) -> None:
        """The rows of a state are each offset once."""
        rows = [row for each in found for row in each]
        stop = state.sources[0].offset if state.sources else 0
        if sorted(rows) != list(range(stop)):
            twice = len(rows) - len(set(rows))
            self._world.fail(f"rows are lost or twice: {stop} offsets, {len(rows)} rows, {twice} of them twice")

    def _rows(self, path: str) -> list[int]:
        stored = self._world.storage.as_it_is(PREFIX + path)
        if stored is None:
            self._world.fail(f"a run committed a file that is gone: {path}")
            return []
        return rows_in(stored.body)


def _paths(state: TableState) -> list[str]:
    return [file.path for file in state.files if file.path is not None]
