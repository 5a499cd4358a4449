"""How a stream gets new files: offsets, versions, and counts of their run. Pure; ``state.fold`` applies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from singerlake.format.schema_hash import hash_among
from singerlake.format.state import attached_objects
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import Manifest, Prepared, Run, SchemaVersion, StreamSchema
from singerlake.format.state.transactions import AddFiles, CommitFiles, PrepareFiles

RUNS_KEPT = 50
"""Runs a manifest remembers; older ones fall out at the front."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a transaction does not fit the state, and never will. ``successor`` is the manifest store that a closed
    stream goes on in, ``undecided`` the commit that has to be settled first."""

    reason: str
    successor: str | None = None
    undecided: str | None = None


Addition = AddFiles | PrepareFiles | CommitFiles | Prepared
"""New files in the order of their messages, with the schemas of their versions, and the run that brought them."""


def add(manifest: Manifest, change: Addition, at: str) -> dict[str, Any] | Conflict:
    offset = manifest.next_offset
    added: list[DataFile] = []
    versions, schemas = dict(manifest.versions), dict(manifest.schemas)
    for file in change.files:
        gone = manifest.retired_by_id.get(file.id)
        if gone is not None and gone.by is None:
            return Conflict(f"file {file.id} was retired as an orphan; upload it again under a new id")
        there = manifest.by_id.get(file.id)
        if there is not None and there.sha256 != file.sha256:
            return Conflict(f"file {file.id} is listed with other content")
        if gone is not None or there is not None:
            continue
        schema = change.schemas.get(file.version)
        if schema is None and file.version not in schemas:
            return Conflict(f"no schema for version {file.version}")
        version = file.version
        if schema is not None:
            version = hash_among(schema.schema, {known: held.schema for known, held in schemas.items()})
        if version not in versions:
            versions[version] = f"v{len(versions) + 1}"
        schemas[version] = schema_version(schemas.get(version), schema, offset, at)
        added.append(listed(file, version, offset))
        offset += file.messages
    deleted = attached_objects.going(manifest.retired, added)
    if deleted:
        return Conflict(
            f"attached files are being deleted: {', '.join(deleted[:5])}; run again, which stores them anew"
        )
    runs = manifest.runs
    if change.run is not None:
        runs = with_run(runs, change.run, added)
    return {
        "next_offset": offset,
        "versions": versions,
        "schemas": schemas,
        "files": manifest.files.extended(added),
        "retired": attached_objects.listed_again(manifest.retired, added),
        "runs": runs,
    }


def add_together(manifest: Manifest, parts: Sequence[Addition], at: str) -> dict[str, Any] | Conflict:
    """The fields after ``parts`` in turn. A part that is in the state already is passed over with its run."""
    if not parts:
        return Conflict("a transaction of several has none")
    state, changed = manifest, dict[str, Any]()
    for part in parts:
        if part.files and all(is_known(state, file) for file in part.files):
            continue
        fields = add(state, part, at)
        if isinstance(fields, Conflict):
            return fields
        changed |= fields
        state = msgspec.structs.replace(state, **fields)
    return changed


def is_known(manifest: Manifest, file: NewFile) -> bool:
    """Whether a file that was to be added is listed, or was and is replaced since."""
    listed = manifest.by_id.get(file.id)
    if listed is not None:
        return listed.sha256 == file.sha256
    gone = manifest.retired_by_id.get(file.id)
    return gone is not None and gone.by is not None


def listed(file: NewFile, version: str, offset: int) -> DataFile:
    """``file`` with its place in the log. ``version`` differs from the file's own where two writers brought two
    schemas under one short hash; the path stays as it is, since nothing is read from it."""
    return DataFile(**{**msgspec.structs.asdict(file), "version": version, "offset": offset})


def schema_version(old: SchemaVersion | None, new: StreamSchema | None, offset: int, at: str) -> SchemaVersion:
    """The latest schema under a hash, with the place where the hash first appeared."""
    if new is None:
        assert old is not None
        return old
    return SchemaVersion(
        schema=new.schema,
        key_properties=new.key_properties,
        bookmark_properties=new.bookmark_properties,
        first_offset=offset if old is None else old.first_offset,
        first_seen=at if old is None else old.first_seen,
    )


def with_run(runs: tuple[Run, ...], run: Run, added: list[DataFile] | None = None) -> tuple[Run, ...]:
    """The runs with ``run`` brought up to date: what it says of itself, on top of the counts kept here."""
    before = next((known for known in runs if known.id == run.id), None)
    base = before or (msgspec.structs.replace(run, files=0, messages=0, records=0, bytes=0) if run.captures else run)
    counted = added or []
    merged = msgspec.structs.replace(
        base,
        status=run.status,
        updated=run.updated,
        files=base.files + len(counted),
        messages=base.messages + sum(file.messages for file in counted),
        records=base.records + sum(file.records for file in counted),
        bytes=base.bytes + sum(file.bytes for file in counted),
        table_version=base.table_version if run.table_version is msgspec.UNSET else run.table_version,
        activated=base.activated if run.activated is msgspec.UNSET else run.activated,
    )
    if before is not None:
        return tuple(merged if known.id == run.id else known for known in runs)
    alike = [known for known in runs if known.captures == run.captures]
    gone = alike[0] if len(alike) >= RUNS_KEPT else None
    return (*(known for known in runs if known is not gone), merged)
