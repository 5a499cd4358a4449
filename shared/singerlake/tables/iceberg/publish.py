"""Bringing a table's Iceberg metadata to its state."""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

from singerlake.clock import Clock, parse_timestamp, random_id
from singerlake.errors import TooManyConflictsError, UnknownOutcomeError
from singerlake.format.exact_json import encode
from singerlake.storage.port import Entry, Refused, Storage
from singerlake.tables.declaration.model import ALSO, ICEBERG
from singerlake.tables.description import Description, url_of
from singerlake.tables.iceberg.manifests import (
    ADDED,
    DELETED,
    EXISTING,
    FileEntry,
    ManifestEntry,
    list_of,
    manifest_of,
    require_avro,
)
from singerlake.tables.iceberg.metadata import (
    NUMBER,
    SHOWS,
    Manifests,
    Metadata,
    Snapshot,
    body_of,
    files_of,
    gone_with,
    hint_key,
    key_of,
    list_without_deleted,
    manifests_of,
    metadata_prefix,
    read,
    snapshots_in,
    version_key,
    versions_in,
)
from singerlake.tables.iceberg.partitions import (
    LAST_PARTITION,
    UNPARTITIONED,
    UNSORTED,
    Partitions,
    order_of,
    partitions_of,
    with_sources,
)
from singerlake.tables.iceberg.schema import fields_of
from singerlake.tables.state.commit import load
from singerlake.tables.state.ids import Numbered, numbered
from singerlake.tables.state.keys import table_prefix
from singerlake.tables.state.model import COLLECT, TableState
from singerlake.tables.state.types import columns_of
from singerlake.work.parallel import THREADS, in_parallel

logger = logging.getLogger(__name__)

NAME, FORMAT = "Iceberg metadata", "iceberg"
ATTEMPTS = 10
SNAPSHOTS = 100
"""Snapshots that metadata keeps, as many as a state remembers writes: readers read all of them to find one."""
Ask = Callable[[Storage, str, str, Snapshot], Manifests | None]
"""What is asked of a snapshot in metadata of a location: which of its files."""


def has_log(state: TableState) -> bool:
    """Whether Iceberg metadata goes with the table."""
    return state.is_published and ICEBERG in state.declaration.get(ALSO, ()) and isinstance(state.ids, tuple)


def prefix_of(table: str) -> str:
    """Everything of a table's metadata."""
    return metadata_prefix(table)


def described(storage: Storage, state: TableState) -> Description:
    """How the metadata describe the table. Raises what storage raises."""
    newest = read(storage, state.table)
    url = f"{url_of(storage, state.table)}/metadata/v{newest.version}.metadata.json"
    return Description(newest.version, url, _is_shown(newest, state), is_there=newest.version > 0)


def catch_up(storage: Storage, state: TableState, clock: Clock) -> None:
    """Bring the metadata to the table as it is, if it does not show ``state``. Raises as ``publish``."""
    if has_log(state):
        publish(storage, state.table, clock)


def publish(storage: Storage, table: str, clock: Clock) -> None:
    """Bring the metadata of a table to its newest state, by one new version. Does nothing for a table without any.

    Raises ``TooManyConflictsError``, ``SettingError`` without fastavro, and what storage raises: the metadata is then
    at the state that it was at, or at a later one.
    """
    for _ in range(ATTEMPTS):
        # The metadata first: what it shows was a state of the table then, so the state read after it is not older.
        newest = read(storage, table)
        found = load(storage, table)
        if found is None or not has_log(found.state):
            return
        if _is_shown(newest, found.state):
            if not newest.is_hinted:
                _hint(storage, table, newest.version)
            return
        if newest.version and newest.body is None:
            logger.warning("the Iceberg metadata of table %s is of others, or of another place; made anew", table)
        body = _written(storage, found.state, newest, clock.now())
        if _put(storage, table, newest.version + 1, body):
            return
    raise TooManyConflictsError(
        "other runs kept writing the Iceberg metadata", hint="run again; nothing is lost", table=table
    )


def _is_shown(newest: Metadata, state: TableState) -> bool:
    """Whether the metadata shows the rows of a state: collectors change none."""
    since = None if newest.shows is None else state.since(newest.shows)
    return since is not None and all(run.kind == COLLECT for run in since)


def _put(storage: Storage, table: str, version: int, body: Mapping[str, Any]) -> bool:
    with suppress(UnknownOutcomeError):
        if not isinstance(storage.put(version_key(table, version), encode(body), if_absent=True), Refused):
            _hint(storage, table, version)
            return True
    return False


def _hint(storage: Storage, table: str, version: int) -> None:
    storage.put(hint_key(table), str(version).encode())


def _written(storage: Storage, state: TableState, newest: Metadata, now: datetime) -> Mapping[str, Any]:
    """The next metadata, whose manifest and manifest list are written by then."""
    before = newest.body if newest.shows is not None and state.knows(newest.shows) else None
    specs = [] if before is None else before["partition-specs"]
    if with_sources(specs, _columns(state)) != specs:
        before = None
    current = newest.current if before is not None else None
    known = None if current is None else files_of(storage, state.table, url_of(storage, state.table), current)
    if known is None:
        before = None
    files = {} if known is None else {each.path: each for each in known.files}
    made = _Next(state, url_of(storage, state.table), before, files, now)
    manifests: list[ManifestEntry] = []
    # What went has manifests of its own, so that a collector need not read of all that is there.
    for entries in (made.files, made.gone):
        for spec in made.specs:
            own = tuple(each for each in entries if each.spec == spec["spec-id"])
            if own:
                path = f"metadata/{random_id()}-m{len(manifests)}.avro"
                body = manifest_of(own, made.schema, spec)
                storage.put(table_prefix(state.table) + path, body, if_absent=True)
                url = f"{made.location}/{path}"
                manifests.append(ManifestEntry(url, len(body), made.snapshot, made.sequence, own))
    path = _list_path(made.snapshot)
    storage.put(table_prefix(state.table) + path, list_of(manifests, made.words), if_absent=True)
    return made.body(f"{made.location}/{path}")


def _list_path(snapshot: int) -> str:
    """Where a new manifest list of a snapshot lies, from the table's folder on."""
    return f"metadata/snap-{snapshot}-{random_id()}.avro"


def _columns(state: TableState) -> tuple[Numbered, ...]:
    assert isinstance(state.ids, tuple)
    return numbered(state.ids, columns_of(state))[0]


@dataclass(frozen=True)
class _Next:
    """The metadata of a state behind ``before``, whose current snapshot has the files ``known``; None: it is the first.
    Pure."""

    state: TableState
    location: str
    before: Mapping[str, Any] | None
    known: Mapping[str, FileEntry]
    now: datetime

    @property
    def snapshot(self) -> int:
        """The snapshot's id, the same whoever makes it."""
        return int.from_bytes(hashlib.sha256(self.state.id.encode()).digest()[:8], "big") >> 1 or 1

    @property
    def sequence(self) -> int:
        return 1 if self.before is None else self.before["last-sequence-number"] + 1

    @property
    def parent(self) -> int | None:
        return None if self.before is None else self.before["current-snapshot-id"]

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The schema of the state, by the id that it has among those of ``before``."""
        fields = fields_of(_columns(self.state))
        schemas = [] if self.before is None else self.before["schemas"]
        same = next((each["schema-id"] for each in schemas if each["fields"] == fields), None)
        fresh = max((each["schema-id"] for each in schemas), default=-1) + 1
        return {"type": "struct", "schema-id": fresh if same is None else same, "fields": fields}

    @cached_property
    def partitions(self) -> Partitions:
        return partitions_of(self.state, _columns(self.state), self.before)

    @cached_property
    def order(self) -> Mapping[str, Any]:
        return order_of(self.state, _columns(self.state), self.before)

    @property
    def _orders(self) -> list[Mapping[str, Any]]:
        """The orders of files. One whose column is gone was of old snapshots alone."""
        return [UNSORTED] if self.before is None else with_sources(self.before["sort-orders"], _columns(self.state))

    @property
    def specs(self) -> list[Mapping[str, Any]]:
        """All specs, of files that are there and of those that went."""
        return _with(self.partitions.spec, [UNPARTITIONED] if self.before is None else self.before["partition-specs"])

    @cached_property
    def files(self) -> tuple[FileEntry, ...]:
        """The files of the table."""
        order = self.order["order-id"]
        found = []
        for file in self.state.files:
            if file.path is None:
                continue
            path = f"{self.location}/{file.path}"
            was = self.known.get(path)
            status, snapshot, sequence = (
                (ADDED, self.snapshot, self.sequence) if was is None else (EXISTING, was.snapshot, was.sequence)
            )
            spec, values = self.partitions.of(file)
            found.append(
                FileEntry(status, path, file.rows, file.bytes, snapshot, sequence, spec["spec-id"], values, order)
            )
        return tuple(found)

    @cached_property
    def gone(self) -> tuple[FileEntry, ...]:
        """The files that the table had."""
        listed = {each.path for each in self.files}
        return tuple(
            replace(each, status=DELETED, snapshot=self.snapshot)
            for path, each in self.known.items()
            if path not in listed
        )

    @property
    def words(self) -> dict[str, str]:
        """What the file of the manifest list says of itself."""
        return {
            "snapshot-id": str(self.snapshot),
            "parent-snapshot-id": "null" if self.parent is None else str(self.parent),
            "sequence-number": str(self.sequence),
            "format-version": "2",
        }

    @property
    def summary(self) -> dict[str, str]:
        added = [each for each in self.files if each.status == ADDED]
        counts = {
            "added-data-files": len(added),
            "added-records": sum(each.rows for each in added),
            "deleted-data-files": len(self.gone),
            "deleted-records": sum(each.rows for each in self.gone),
            "total-data-files": len(self.files),
            "total-records": sum(each.rows for each in self.files),
            "total-files-size": sum(each.bytes for each in self.files),
            "total-delete-files": 0,
            "total-position-deletes": 0,
            "total-equality-deletes": 0,
            NUMBER: self.state.number,
        }
        operation = "overwrite" if self.gone else "append"
        return {"operation": operation, **{name: str(count) for name, count in counts.items()}, SHOWS: self.state.id}

    def body(self, manifest_list: str) -> Mapping[str, Any]:
        """The metadata, with the manifest list at that URL."""
        assert isinstance(self.state.ids, tuple)
        before, schema, specs = self.before, self.schema, self.specs
        at = int(self.now.timestamp() * 1000)
        if before is not None:
            at = max(at, before["last-updated-ms"] + 1)
        made = {
            "snapshot-id": self.snapshot,
            **({} if self.parent is None else {"parent-snapshot-id": self.parent}),
            "sequence-number": self.sequence,
            "timestamp-ms": at,
            "manifest-list": manifest_list,
            "summary": self.summary,
            "schema-id": schema["schema-id"],
        }
        snapshots = (
            [] if before is None else [each for each in snapshots_in(before) if each["snapshot-id"] != self.snapshot]
        )
        log = [] if before is None else before["snapshot-log"]
        schemas = [] if before is None else before["schemas"]
        own = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.location} {self.state.id} {at}"))
        return _with_snapshots(
            {
                "format-version": 2,
                "table-uuid": own if before is None else before["table-uuid"],
                "location": self.location,
                "last-sequence-number": self.sequence,
                "last-updated-ms": at,
                "last-column-id": max((each.id for each in self.state.ids), default=0),
                "schemas": [*(each for each in schemas if each["schema-id"] != schema["schema-id"]), schema],
                "current-schema-id": schema["schema-id"],
                "partition-specs": specs,
                "default-spec-id": self.partitions.spec["spec-id"],
                "last-partition-id": max([LAST_PARTITION, *(x["field-id"] for each in specs for x in each["fields"])]),
                "sort-orders": _with(self.order, self._orders),
                "default-sort-order-id": self.order["order-id"],
                "properties": {},
                "current-snapshot-id": self.snapshot,
                "refs": {"main": {"snapshot-id": self.snapshot, "type": "branch"}},
                "snapshot-log": [*log, {"timestamp-ms": at, "snapshot-id": self.snapshot}],
                "metadata-log": [],
            },
            [*snapshots, made][-SNAPSHOTS:],
        )


def _with(one: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [*others, *([] if one in others else [one])]


def _with_snapshots(body: Mapping[str, Any], snapshots: Sequence[Snapshot]) -> Mapping[str, Any]:
    """A body with these snapshots, and with what belongs to them alone."""
    ids = {each["snapshot-id"] for each in snapshots}
    schemas = {body["current-schema-id"], *(each["schema-id"] for each in snapshots)}
    return {
        **body,
        "schemas": [each for each in body["schemas"] if each["schema-id"] in schemas],
        "snapshots": list(snapshots),
        "snapshot-log": [each for each in body["snapshot-log"] if each["snapshot-id"] in ids],
    }


def leave_old_behind(storage: Storage, table: str, before: datetime) -> None:
    """Write metadata without the snapshots that name a retired file which a collector saw at ``before`` or earlier, and
    without those before them. The first that stays names what went no more: paths have values of records. Raises as
    ``read``, ``load`` and what storage raises."""
    newest = read(storage, table)
    found = load(storage, table)
    if found is None or not has_log(found.state) or newest.body is None or not _is_shown(newest, found.state):
        return
    location = url_of(storage, table)
    due = {f"{location}/{file.path}" for file in found.state.retired if _is_due(file.shown, before)}
    snapshots = snapshots_in(newest.body)
    if not due:
        return
    look = partial(gone_with, storage, table, location)
    for place, known in zip(
        range(len(snapshots) - 1, -1, -1), in_parallel(look, snapshots[::-1], threads=THREADS), strict=True
    ):
        if known is None and not place:
            return
        if known is None or not due.isdisjoint(each.path for each in known.files):
            first, *others = snapshots[place:]
            if known is not None:
                path = _list_path(first["snapshot-id"])
                body = list_without_deleted(storage, table, location, first)
                storage.put(table_prefix(table) + path, body, if_absent=True)
                first = {**first, "manifest-list": f"{location}/{path}"}
            at = newest.body["last-updated-ms"] + 1
            made = _with_snapshots({**newest.body, "last-updated-ms": at}, [first, *others])
            _put(storage, table, newest.version + 1, made)
            return


def _is_due(shown: str | None, before: datetime) -> bool:
    moment = parse_timestamp(shown or "")
    return moment is not None and moment <= before


def kept(storage: Storage, state: TableState, objects: Sequence[Entry], *, now: datetime, grace: timedelta) -> set[str]:
    """Keys of a table's ``objects`` that have to stay for readers of its metadata: what a version names that was the
    newest in the last ``grace``. Metadata that goes with no table any more is kept or left as a whole. Raises what
    storage raises."""
    before = now - grace
    prefix = metadata_prefix(state.table)
    own = [entry for entry in objects if entry.key.startswith(prefix)]
    if not has_log(state):
        return {entry.key for entry in own} if any(entry.last_modified > before for entry in own) else set()
    versions = versions_in(own, state.table)
    order = sorted(versions)
    current = [
        version
        for version, following in zip(order, [*order[1:], None], strict=True)
        if following is None or versions[following].last_modified > before
    ]
    keys = {hint_key(state.table)} | {versions[version].key for version in current}
    bodies = in_parallel(partial(body_of, storage, state.table), current, threads=THREADS)
    # The files of all snapshots of a body are those of the last one, and what went with each but the first; also those
    # of earlier bodies, whose last one is among them.
    asked: dict[tuple[str, Ask], tuple[str, Snapshot]] = {}
    covered: set[str] = set()
    for body in reversed([each for each in bodies if each is not None]):
        first, *others = snapshots_in(body)
        last = others[-1] if others else first
        asks = [(manifests_of, first), *((gone_with, other) for other in others)]
        if last["manifest-list"] not in covered:
            asks.append((files_of, last))
        asked |= {(each["manifest-list"], ask): (body["location"], each) for ask, each in asks}
        covered |= {each["manifest-list"] for each in (first, *others)}

    def look(one: tuple[tuple[str, Ask], tuple[str, Snapshot]]) -> set[str]:
        (_, ask), (location, snapshot) = one
        found = ask(storage, state.table, location, snapshot)
        if found is None:
            return set()
        paths = (key_of(location, state.table, file.path) for file in found.files)
        return {*found.keys, *(key for key in paths if key is not None)}

    for known in in_parallel(look, list(asked.items()), threads=THREADS):
        keys |= known
    return keys


def disagreements(storage: Storage, table: str) -> Iterator[str]:
    """What of the metadata of a table is not as the state has it. Raises as ``read`` and ``load``."""
    newest = read(storage, table)
    found = load(storage, table)
    if found is None or not has_log(found.state):
        return
    state = found.state
    if not _is_shown(newest, state):
        # A run may have written both meanwhile.
        newest = read(storage, table)
    if not _is_shown(newest, state) or newest.current is None or newest.body is None:
        of_others = newest.version and newest.body is None
        what = "of others, or of another place" if of_others else "behind the table"
        yield f"the Iceberg metadata is {what}; run 'singerlake project run'"
        return
    location = url_of(storage, table)
    known = files_of(storage, table, location, newest.current)
    files = {f"{location}/{file.path}": file for file in state.files if file.path is not None}
    listed = {path: (file.rows, file.bytes) for path, file in files.items()}
    if known is None or {each.path: (each.rows, each.bytes) for each in known.files} != listed:
        yield f"the Iceberg metadata has other files than the table; {_MOVE}"
    else:
        partitions = partitions_of(state, _columns(state), newest.body)
        for each in known.files:
            spec, values = partitions.of(files[each.path])
            if each.spec and (each.spec, each.partition) != (spec["spec-id"], values):
                yield f"the Iceberg metadata has a file in another partition than the table; {_MOVE}"
                break
    fields = fields_of(_columns(state))
    current = newest.body["current-schema-id"]
    if not any(each["schema-id"] == current and each["fields"] == fields for each in newest.body["schemas"]):
        yield f"the Iceberg metadata has other columns than the table; {_MOVE}"
    if not newest.is_hinted:
        yield "version-hint.text does not name the newest Iceberg metadata; run 'singerlake project run'"


_MOVE = "move its folder away, and run the table again"


def check_installed() -> None:
    """Raise ``SettingError`` where what writes the metadata is not installed."""
    require_avro()
