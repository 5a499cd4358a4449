"""Whether anything of what was to be erased is left below a stream's folder, whatever lists it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from singerlake.conditions import Condition
from singerlake.errors import LakeError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Entry, Storage
from singerlake.upkeep.erase.attached import LeftObject, left_objects, unfinished_objects
from singerlake.upkeep.erase.declared import as_declared
from singerlake.upkeep.erase.find import FindMessages, Found, Sought
from singerlake.upkeep.erase.matcher_cache import Meant, Ready
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.engine import Engine


def find_traces(
    storage: Storage, tap: str, stream: str, meant: Meant, engine: Engine, state: Callable[[], Manifest | None]
) -> Iterator[Finding]:
    """A finding for each object of a stream's folder that holds a record that is ``meant``, for each that cannot be
    looked into to its end, and for each attached file that no record has in the newest ``state``. ``engine`` reads
    them. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    attached: list[Entry] = []

    def sought() -> Iterator[Sought]:
        for entry in storage.list(prefix):
            path = entry.key[len(prefix) :]
            if layout.attached_name_in(path) is not None:
                attached.append(entry)
            elif not _is_metadata(path):
                yield Sought(entry.key, entry.size)

    objects = sought()
    if isinstance(meant, Condition) and (declared := _state(state)) is not None:
        meant = as_declared(meant, declared)
    ready = Ready(meant)
    for item, found in engine(FindMessages(ready), objects):
        if found.records:
            yield _trace(item.key, found.records)
        if found.trouble is not None and found.trouble.kind != "missing":
            yield Finding("erased", item.key, f"cannot be read to its end: {found.trouble.message}")
    for name, found in look_at_unfinished(storage, prefix, ready):
        yield _trace(name, found.records)
    newest = _state(state) if attached else None
    for left in chain(left_objects(newest, attached, prefix), unfinished_objects(storage, prefix)):
        yield Finding("erased", left.key, f"is attached to no record, so nobody can tell whose it was; {_way(left)}")


def look_at_unfinished(storage: Storage, prefix: str, ready: Ready) -> Iterator[tuple[str, Found]]:
    """The data files below ``prefix`` that are not whole, by name, where what there is of one holds a message that
    is meant. Raises what storage raises."""
    finder = FindMessages(ready)
    for name, opened in storage.unfinished(prefix):
        with opened as stored:
            # Of a data file there is no end yet; anything else is no gzip.
            found = finder.look_into(name, stored)
        if found.messages:
            yield name, found


def _state(state: Callable[[], Manifest | None]) -> Manifest | None:
    try:
        return state()
    except LakeError:
        # A finding of its own.
        return None


def _way(left: LeftObject) -> str:
    if left.id is not None:
        return "'singerlake gc --delete' deletes it after a grace time"
    if left.bytes is None:
        return "it is not whole: delete it by hand when no writer is at work"
    return "'singerlake gc --orphans --delete' does so if no run lists it"


def _trace(key: str, count: int) -> Finding:
    return Finding("erased", key, f"holds {'a record' if count == 1 else f'{count:,} records'} that should be erased")


def _is_metadata(path: str) -> bool:
    """Whether an object is of a kind that holds nothing of a record."""
    lock = path.rpartition("/")[2] == layout.LOCK
    return lock or path == layout.MANIFEST or path.startswith(f"{layout.LOG}/") or layout.is_kept_schema(path)
