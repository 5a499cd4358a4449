"""Whether anything of what was to be erased is left below a stream's folder, whatever lists it."""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.format import layout
from singerlake.maintenance.engines.engine import Engine
from singerlake.maintenance.erase.condition import Condition
from singerlake.maintenance.erase.find import FindRecords, Sought
from singerlake.maintenance.verify.findings import Finding
from singerlake.storage.port import Storage


def find_traces(storage: Storage, tap: str, stream: str, condition: Condition, engine: Engine) -> Iterator[Finding]:
    """A finding for each object of a stream's folder that holds a record that ``condition`` means, and for each that
    cannot be looked into to its end. ``engine`` reads them. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    objects = (
        Sought(entry.key, entry.size) for entry in storage.list(prefix) if not _is_metadata(entry.key[len(prefix) :])
    )
    for item, found in engine(FindRecords(condition), objects):
        if found.records:
            records = "a record" if found.records == 1 else f"{found.records:,} records"
            yield Finding("erased", item.key, f"holds {records} that should be erased")
        if found.trouble is not None and found.trouble.kind != "missing":
            yield Finding("erased", item.key, f"cannot be looked into to its end: {found.trouble.message}")


def _is_metadata(path: str) -> bool:
    """Whether an object is of a kind that holds nothing of a record."""
    lock = path.rpartition("/")[2] == layout.LOCK
    return lock or path == layout.MANIFEST or path.startswith(f"{layout.LOG}/") or layout.is_kept_schema(path)
