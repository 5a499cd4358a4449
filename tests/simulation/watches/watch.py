"""The invariants that storage itself shows, looked at whenever an object changes: nothing is read again, each effect is
judged once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

import msgspec

from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Rebase
from singerlake.lock_file import LockBody, parse_lock
from singerlake.storage.port import Stored
from singerlake.storage.probe import PROBE_PREFIX
from singerlake.stores.log import Floor
from singerlake.stores.numbered import Record
from tests.simulation.watches.segments import SegmentWatch
from tests.simulation.watches.truth import Fail, Truth

Peek = Callable[[str], Stored | None]


class ObjectWatch(Protocol):
    """Looks at the objects below ``_log/``."""

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None: ...

    def sends(self, client: str, transaction: str) -> None:
        """A client begins to commit a transaction."""
        ...

    def seen(self, client: str, number: int) -> None:
        """A client was given the state of that number."""
        ...


class LockWatch:
    """A lock that its holder keeps alive is changed by nobody else, however late anybody wakes up."""

    def __init__(self, fail: Fail, *, stale_after: float, now: Callable[[], float]) -> None:
        self._fail = fail
        self._stale_after = stale_after
        self._now = now
        # By body, so that one which a late request brings back is as old as it looks to who watches it.
        self._written: dict[tuple[str, str], float] = {}

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        if after is not None:
            self._written.setdefault((key, after.etag), self._now())
        if before is None:
            return
        written = self._written[key, before.etag]
        held = parse_lock(before.body, key=key)
        new: LockBody | None = parse_lock(after.body, key=key) if after else None
        if held.released is not None or held.writer_id == by:
            return
        if self._now() - written < self._stale_after - 1e-6:
            did = "overwrote" if new else "deleted"
            self._fail(f"{by or 'a late request'} {did} the lock of {held.writer_id}, who had it and was alive")


class ManifestWatch:
    """``manifest.json`` goes upwards only, and holds nothing but what was committed. ``commits``: replacing it is how
    transactions are committed."""

    def __init__(self, truth: Truth, fail: Fail, *, commits: bool) -> None:
        self._truth = truth
        self._fail = fail
        self._commits = commits
        self.published = -1

    def changed(self, key: str, after: Stored | None) -> None:
        if after is None:
            self._fail("manifest.json was deleted")
            return
        manifest = self._truth.stored(after.body, key)
        number = manifest.transaction.number
        if number <= self.published:
            self._fail(f"manifest.json went from transaction {self.published} to {number}")
        if self._commits:
            self._truth.became(manifest)
        else:
            self._truth.saw(manifest, told=False)
        self._truth.published(manifest)
        self.published = number


class LogWatch:
    """The objects below ``_log/`` of the numbered stores: each record made once and never changed, the next number
    always one more than the last, the floor never lower, nothing above it removed."""

    def __init__(self, truth: Truth, fail: Fail, peek: Peek, prefix: str) -> None:
        self._truth = truth
        self._fail = fail
        self._peek = peek
        self._prefix = prefix
        self._bodies: dict[str, bytes] = {}
        self._floor = -1
        self._snapshot = ""

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        name = key.rpartition("/")[2]
        number, snapshot = layout.log_number(name), layout.log_snapshot_number(name)
        if name == layout.LOG_FLOOR:
            self._floored(after)
        elif number is not None:
            self._appended(key, number, after)
        elif snapshot is not None:
            self._snapshotted(key, after)
        else:
            self._fail(f"nobody knows what {key} is")

    def sends(self, client: str, transaction: str) -> None:
        """Nothing: who commits when is in the order of the records."""

    def seen(self, client: str, number: int) -> None:
        """Nothing: that the state is the right one is looked at elsewhere."""

    def state_after(self, number: int, body: bytes) -> Manifest:
        """The state that record ``number`` makes of the newest one."""
        del number
        return following(decode(body, Record), self._truth, self._fail)

    def _appended(self, key: str, number: int, after: Stored | None) -> None:
        if number <= self._floor:
            # Below the floor a number means nothing any more: what is put there is void, and readers must see that.
            return
        if after is None:
            self._fail(f"record {number} was removed, the floor is {self._floor}")
            return
        if self._bodies.setdefault(key, after.body) != after.body:
            self._fail(f"record {number} was written again as another transaction")
        if number in self._truth.states:
            return
        self._truth.became(self.state_after(number, after.body))

    def _snapshotted(self, key: str, after: Stored | None) -> None:
        if after is None:
            if key.endswith(self._snapshot) and self._snapshot:
                self._fail("the snapshot that the floor names was removed")
            # A slow trimmer may put it there again, with the same files in segments of its own.
            self._bodies.pop(key, None)
            return
        if self._bodies.setdefault(key, after.body) != after.body:
            self._fail(f"{key} was written again with another content")
        self._truth.saw(self._truth.stored(after.body, key), told=False)

    def _rises(self, floor: Floor) -> bool:
        return floor.floor > self._floor

    def _floored(self, after: Stored | None) -> None:
        if after is None:
            self._fail("the floor was removed")
            return
        floor = msgspec.json.decode(after.body, type=Floor)
        if not self._rises(floor):
            self._fail(f"the floor went from {self._floor} to {floor.floor}")
        self._floor, self._snapshot = floor.floor, floor.snapshot
        stored = self._peek(self._prefix + floor.snapshot)
        if stored is None:
            self._fail(f"the floor names {floor.snapshot}, which is not there")
            return
        covered = self._truth.stored(stored.body, floor.snapshot).transaction.number
        if covered < floor.floor:
            self._fail(f"the floor is {floor.floor}, the snapshot it names is of {covered}")


def following(record: Record, truth: Truth, fail: Fail) -> Manifest:
    """The state that a record makes of the newest one."""
    change = record.transaction.change
    if truth.newest is None:
        assert isinstance(change, Rebase)
        return change.manifest
    if record.after != truth.newest.transaction.id:
        fail(f"record {record.number} says it follows {record.after}, not {truth.newest.transaction.id}")
    if record.number != truth.newest.transaction.number + 1:
        fail(f"record {record.number} was appended after {truth.newest.transaction.number}")
    state = apply(truth.newest, record.transaction)
    if isinstance(state, Conflict):
        fail(f"record {record.number} does not fit: {state.reason}")
        raise AssertionError
    return state


class Watches:
    """All of them, each given the keys that concern it."""

    def __init__(
        self,
        truth: Truth,
        fail: Fail,
        prefix: str,
        *,
        locks: LockWatch | None,
        manifest: ManifestWatch,
        log: ObjectWatch | None,
    ) -> None:
        self._truth = truth
        self._fail = fail
        self._prefix = prefix
        self._locks = locks
        self._manifest = manifest
        self.log = log
        self.segments: SegmentWatch | None = None

    def changed(self, key: str, before: Stored | None, after: Stored | None, by: str) -> None:
        """An object changed; ``by`` names the process whose request did it."""
        path = key.removeprefix(self._prefix)
        if self.segments is not None and path.startswith(f"{layout.SEGMENTS}/"):
            self.segments.changed(key, after, by)
            return
        if self.segments is not None and after is not None and path.endswith((layout.MANIFEST, "snapshot.json")):
            self.segments.named(key, before, after.body, by)
        if key.endswith(f"/{layout.LOCK}"):
            if self._locks is not None:
                self._locks.changed(key, before, after, by)
        elif path == layout.MANIFEST:
            self._manifest.changed(key, after)
        elif layout.is_data_file(path):
            if after is None and self._truth.lists(path):
                self._fail(f"a listed file was deleted: {path}")
            elif after is None and not self._truth.lets_go(path):
                self._fail(f"a file was deleted and no transaction said so: {path}")
        elif layout.attached_name_in(path) is not None:
            self._truth.attached(path, after.body if after else None)
        elif _IN_LOG.match(path) and self.log is not None:
            self.log.changed(key, before, after, by)
        elif path.startswith(f"{layout.QUEUE}/"):
            if layout.queued_id_in(path.removeprefix(f"{layout.QUEUE}/")) is None:
                self._fail(f"nobody knows what {key} is")
        elif key.startswith(PROBE_PREFIX):
            return
        else:
            self._fail(f"nobody knows what {key} is")

    def sends(self, client: str, transaction: str) -> None:
        """A client begins to commit a transaction."""
        if self.log is not None:
            self.log.sends(client, transaction)

    def seen(self, client: str, number: int) -> None:
        """A client was given the state of that number."""
        if self.log is not None:
            self.log.seen(client, number)


_IN_LOG = re.compile(re.escape(layout.LOG) + "/")
