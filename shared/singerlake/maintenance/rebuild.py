"""A stream's manifest from its data files alone.

Nothing but the files' own bytes decides: identity, version, counts and order come from their headers and messages,
never from where they lie or what they are called. ``survey`` reads, ``rebuilt`` is pure.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from singerlake.errors import BrokenFile, MissingFile
from singerlake.format import layout
from singerlake.format.fold import empty
from singerlake.format.hashing import hash_among
from singerlake.format.model import DataFile, Manifest, NewFile, Retired, SchemaVersion, StreamSchema
from singerlake.maintenance.choose import Found, choose, distinct, identify
from singerlake.maintenance.findings import Finding
from singerlake.maintenance.scan import Scanned, scan
from singerlake.storage.port import Entry, Storage

THREADS = 8
"""Files read at once unless told otherwise; each holds a few MiB."""

Progress = Callable[[int], None]
"""Called on the caller's thread with the stored bytes of each file once it has been read."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A stream's state made anew, and what was odd on the way."""

    manifest: Manifest
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What a stream's folder holds: the sound data files, and findings about the others."""

    found: tuple[Found, ...]
    findings: tuple[Finding, ...]


def rebuild_manifest(
    storage: Storage,
    tap: str,
    stream: str,
    *,
    store: str,
    lineage: str | None,
    created: str,
    transaction_id: str,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Rebuilt:
    """The state of a stream from all of its data files, under a new ``lineage`` (None: in memory, for a reader).

    Broken files are left out and reported; files are chosen so that every source is covered, exactly once where that
    can be; offsets begin at 0 in the order (``created``, ``run``, ``seq``). Raises what storage raises.
    """
    surveyed = survey(storage, tap, stream, data_files(storage, tap, stream), threads=threads, progress=progress)
    birth = empty(tap=tap, stream=stream, store=store, lineage="", created=created, transaction_id=transaction_id)
    return rebuilt(surveyed, msgspec.structs.replace(birth, lineage=lineage))


def data_files(storage: Storage, tap: str, stream: str) -> list[Entry]:
    """Every object that lies where the data files of a stream lie."""
    prefix = layout.stream_prefix(tap, stream)
    return [entry for entry in storage.list(prefix) if layout.is_data_file(entry.key[len(prefix) :])]


def survey(
    storage: Storage,
    tap: str,
    stream: str,
    entries: Iterable[Entry],
    *,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Survey:
    """Read data files of one stream in parallel. Raises what storage raises."""
    prefix = layout.stream_prefix(tap, stream)
    found: list[Found] = []
    findings: list[Finding] = []

    def read(entry: Entry) -> tuple[Entry, Scanned | Finding]:
        return entry, read_file(storage, entry.key, stream)

    schemas: dict[bytes, StreamSchema] = {}
    for entry, outcome in in_parallel(read, entries, threads=threads):
        if isinstance(outcome, Finding):
            findings.append(outcome)
        else:
            schema = schemas.setdefault(_text(outcome.schema), outcome.schema)
            found.append(identify(entry.key[len(prefix) :], entry.last_modified, replace(outcome, schema=schema)))
        if progress is not None:
            progress(entry.size)
    return Survey(tuple(found), tuple(findings))


def _text(schema: StreamSchema) -> bytes:
    return json.dumps(msgspec.structs.asdict(schema)).encode("utf-8", "surrogatepass")


def read_file(storage: Storage, key: str, stream: str) -> Scanned | Finding:
    """What one data file says, or why it cannot be a file of ``stream``."""
    try:
        with storage.open(key) as body:
            scanned = scan(body, key=key)
    except BrokenFile as error:
        return Finding("broken", key, f"{error.message}; left out")
    except MissingFile:
        return Finding("vanished", key, "was there when the folder was listed, and is not any more")
    if scanned.stream != stream:
        return Finding("misplaced", key, f"holds messages of stream {scanned.stream!r}; left out")
    if not scanned.messages:
        return Finding("empty", key, "holds no message but its schema; left out", problem=False)
    return scanned


def rebuilt(surveyed: Survey, birth: Manifest) -> Rebuilt:
    """What the stream would be had its files been committed to ``birth``, a state without files, one by one."""
    prefix = layout.stream_prefix(birth.tap, birth.stream)
    files, copies = distinct(surveyed.found, prefix=prefix)
    choice = choose(files, prefix=prefix)
    versions: dict[str, str] = {}
    schemas: dict[str, SchemaVersion] = {}
    listed: list[DataFile] = []
    offset = 0
    hashes = Hashes({})
    for file in choice.files:
        new = describe(file, hashes.of(file.scanned.schema))
        versions.setdefault(new.version, f"v{len(versions) + 1}")
        before = schemas.get(new.version)
        schemas[new.version] = SchemaVersion(
            schema=file.scanned.schema.schema,
            key_properties=file.scanned.schema.key_properties,
            bookmark_properties=file.scanned.schema.bookmark_properties,
            first_offset=before.first_offset if before else offset,
            first_seen=before.first_seen if before else file.created,
        )
        listed.append(place(new, offset))
        offset += new.messages
    manifest = msgspec.structs.replace(
        birth,
        next_offset=offset,
        versions=versions,
        schemas=schemas,
        files=tuple(listed),
        retired=tuple(
            Retired(id=file.id, path=file.path, by=holder, since=birth.created) for file, holder in choice.covered
        ),
    )
    return Rebuilt(manifest, surveyed.findings + tuple(copies) + choice.findings)


class Hashes:
    """The versions of schemas in a stream that knows ``known`` (hash -> schema) and each schema asked for since."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = dict(known)
        self._seen: dict[int, tuple[StreamSchema, str]] = {}

    def of(self, schema: StreamSchema) -> str:
        """The hash of a file's SCHEMA line. Cheap for an object that was asked for before."""
        seen = self._seen.get(id(schema))
        if seen is None:
            version = hash_among(schema.schema, self._known)
            self._known.setdefault(version, schema.schema)
            seen = self._seen[id(schema)] = (schema, version)
        return seen[1]


def describe(file: Found, version: str) -> NewFile:
    """A file as a transaction lists it; ``version`` is its own SCHEMA line's."""
    scanned = file.scanned
    return NewFile(
        id=file.id,
        path=file.path,
        version=version,
        messages=scanned.messages,
        records=scanned.records,
        bytes=scanned.bytes,
        raw_bytes=scanned.raw_bytes,
        sha256=scanned.sha256,
        first=scanned.first or file.created,
        last=scanned.last or file.created,
        members=scanned.members,
    )


def place(file: NewFile, offset: int) -> DataFile:
    """``file`` at an offset of the log."""
    return DataFile(**{name: getattr(file, name) for name in file.__struct_fields__}, offset=offset)


Item = TypeVar("Item")
Answer = TypeVar("Answer")


def in_parallel(work: Callable[[Item], Answer], items: Iterable[Item], *, threads: int) -> Iterator[Answer]:
    """``work`` done on each item by up to ``threads`` threads; answers in the order of the items, few of them waiting
    at any time. The first exception ends it."""
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="singerlake-read") as pool:
        waiting: deque[Future[Answer]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
