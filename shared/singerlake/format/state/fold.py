"""The pure fold ``apply(manifest, transaction)``: the only place that hands out offsets."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

from singerlake.format import FORMAT
from singerlake.format.schema_hash import hash_among
from singerlake.format.state import attached_objects
from singerlake.format.state import transactions as tx
from singerlake.format.state.additions import Conflict, add, add_together, listed, schema_version, with_run
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest, Position, Retired, SchemaVersion, StreamSchema
from singerlake.format.state.prepared import commit, prepare, settle
from singerlake.format.state.selection import last_label
from singerlake.format.state.transactions import Transaction


def empty(
    *,
    tap: str,
    stream: str,
    store: str,
    lineage: str | None,
    created: str,
    transaction_id: str,
    lake_id: str | None = None,
) -> Manifest:
    """A stream's birth: transaction 0, no files. ``lineage`` is None for a state that stays in memory."""
    return Manifest(
        format=FORMAT,
        tap=tap,
        stream=stream,
        store=store,
        lake_id=lake_id,
        lineage=lineage,
        created=created,
        transaction=Position(0, transaction_id),
        next_offset=0,
        versions={},
        schemas={},
        files=FileList(),
    )


def in_lake(manifest: Manifest, lake_id: str | None) -> Manifest:
    """A state that says which lake it is of; a state that already names a lake stays as it is."""
    if manifest.lake_id is not None or lake_id is None:
        return manifest
    return msgspec.structs.replace(manifest, lake_id=lake_id)


def with_schema(manifest: Manifest, schema: StreamSchema, at: str) -> Manifest:
    """A state that knows ``schema``, its first version, without a message of it; one with a version stays as it is."""
    if manifest.versions:
        return manifest
    version = hash_among(schema.schema, {})
    return msgspec.structs.replace(
        manifest,
        versions={version: "v1"},
        schemas={version: schema_version(None, schema, manifest.next_offset, at)},
    )


def apply(manifest: Manifest, transaction: Transaction) -> Manifest | Conflict:
    """The state after ``transaction``, or why it does not fit.

    Pure and total: offsets are handed out here and nowhere else, they only grow, and a file that is already listed,
    or was replaced, is skipped, so that a retried transaction changes nothing but the transaction number.
    """
    if manifest.closed is not None:
        return Conflict(f"the stream was closed and continues in {manifest.closed}", successor=manifest.closed)
    change = transaction.change
    ids = tx.file_ids(change)
    if len(set(ids)) != len(ids):
        return Conflict("one file is named twice")
    if manifest.prepared is not msgspec.UNSET and not isinstance(change, tx.Settle):
        return Conflict(f"commit {manifest.prepared.commit} is not decided", undecided=manifest.prepared.commit)
    if isinstance(change, tx.AddFiles):
        fields = add(manifest, change, transaction.at)
    elif isinstance(change, tx.AddTogether):
        fields = add_together(manifest, change.parts, transaction.at)
    elif isinstance(change, tx.PrepareFiles):
        fields = prepare(manifest, change, transaction.at)
    elif isinstance(change, tx.CommitFiles):
        fields = commit(manifest, change, transaction.at)
    elif isinstance(change, tx.Settle):
        fields = settle(manifest, change, transaction.at)
    elif isinstance(change, tx.ReplaceFiles):
        fields = _replace(manifest, change, transaction.at)
    elif isinstance(change, tx.ExpireFiles):
        fields = _expire(manifest, change, transaction.at)
    elif isinstance(change, tx.RetireFiles):
        fields = _retire(manifest, change, transaction.at)
    elif isinstance(change, tx.CollectFiles):
        fields = _collect(manifest, change, transaction.at)
    elif isinstance(change, tx.RecordRun):
        fields = {"runs": with_run(manifest.runs, change.run)}
    elif isinstance(change, tx.Rebase):
        fields = _rebase(manifest, change)
    else:
        fields = {"closed": change.successor}
    if isinstance(fields, Conflict):
        return fields
    position = Position(manifest.transaction.number + 1, transaction.id)
    return msgspec.structs.replace(manifest, transaction=position, **fields)


def _replace(manifest: Manifest, change: tx.ReplaceFiles, at: str) -> dict[str, Any] | Conflict:
    new_ids = {file.id for file in change.new}
    known = [
        id in manifest.by_id or (id in manifest.retired_by_id and manifest.retired_by_id[id].by is not None)
        for id in new_ids
    ]
    if known and all(known):
        return {}
    if any(known):
        return Conflict("some, not all, of the new files are listed already")
    if any(id in manifest.retired_by_id for id in new_ids):
        return Conflict("a new file was retired as an orphan; upload it again under a new id")
    missing = [id for id in change.old if id not in manifest.by_id]
    if missing or not change.old or not change.new:
        return Conflict(f"files to replace are not listed: {', '.join(missing[:5])}")
    replaced = [manifest.by_id[id] for id in change.old]
    for before, after in pairwise(replaced):
        if before.end != after.offset:
            return Conflict("files to replace are not contiguous")
    if {file.version for file in replaced} != {file.version for file in change.new} or len(
        {file.version for file in replaced}
    ) != 1:
        return Conflict("files to replace and their replacements are not of one version")
    if sum(file.messages for file in replaced) != sum(file.messages for file in change.new):
        return Conflict("replacements do not hold the same number of messages")
    counts = [
        (sum(file.records for file in files), sum(file.erased for file in files)) for files in (replaced, change.new)
    ]
    if isinstance(change, tx.EraseFiles):
        (records, erased), (left, holes) = counts
        if holes < erased:
            return Conflict("replacements hold fewer erased messages")
        messages = sum(file.messages for file in replaced)
        if left > records or not records + erased <= left + holes <= messages:
            return Conflict("replacements do not hold a record or a hole for each one")
        if not attached_objects.fewer_rows(replaced, change.new):
            return Conflict("replacements have attached files that the files to replace do not have")
    elif counts[0][1] != counts[1][1]:
        return Conflict("replacements do not hold the same number of erased messages")
    elif not attached_objects.same_rows(replaced, change.new):
        return Conflict("replacements do not have the same attached files")
    offset = replaced[0].offset
    outputs: list[DataFile] = []
    for file in change.new:
        outputs.append(listed(file, file.version, offset))
        offset += file.messages
    start = manifest.place_of(replaced[0])
    files = manifest.files.replaced(start, start + len(replaced), outputs)
    gone = [Retired(id=file.id, path=file.path, by=_holder(outputs, file.offset), since=at) for file in replaced]
    retired = manifest.retired.extended(gone + attached_objects.left_behind(replaced, files, at))
    return {"files": files, "retired": retired}


def _expire(manifest: Manifest, change: tx.ExpireFiles, at: str) -> dict[str, Any] | Conflict:
    if change.lineage != manifest.lineage:
        return Conflict("the stream was rebuilt or dropped since, so that its offsets mean other messages")
    if change.before > manifest.next_offset:
        return Conflict(f"offset {change.before} is beyond the stream's end, {manifest.next_offset}")
    kept = manifest.files.index_behind(change.before)
    if not kept:
        return {}
    files, rest = manifest.files[:kept], manifest.files.replaced(0, kept, ())
    gone = [Retired(id=file.id, path=file.path, by=None, since=at) for file in files]
    return {
        "files": rest,
        "retired": manifest.retired.extended(gone + attached_objects.left_behind(files, rest, at)),
        "schemas": manifest.schemas if rest else _with_newest(manifest, files[-1].version),
    }


def _with_newest(manifest: Manifest, version: str) -> Mapping[str, SchemaVersion]:
    """The schemas of a state without files, the last of which had this version: noted where labels do not say so."""
    marked = None if version == last_label(manifest) else version
    return {
        each: msgspec.structs.replace(held, newest=True if each == marked else msgspec.UNSET)
        for each, held in manifest.schemas.items()
    }


def _holder(outputs: list[DataFile], offset: int) -> str:
    return next(file.id for file in outputs if file.end > offset)


def _retire(manifest: Manifest, change: tx.RetireFiles, at: str) -> dict[str, Any] | Conflict:
    listed = [id for id, _ in change.files if id in manifest.by_id]
    if listed:
        return Conflict(f"files to retire are listed: {', '.join(listed[:5])}")
    attached = attached_objects.objects_in(manifest.files)
    paths = manifest.files.with_path(path for _, path in change.files).union(attached.values())
    listed = [path for id, path in change.files if path in paths or id in attached]
    if listed:
        return Conflict(f"files to retire are listed: {', '.join(listed[:5])}")
    fresh = tuple(
        Retired(id=id, path=path, by=None, since=at) for id, path in change.files if id not in manifest.retired_by_id
    )
    return {"retired": manifest.retired.extended(fresh)}


def _collect(manifest: Manifest, change: tx.CollectFiles, at: str) -> dict[str, Any] | Conflict:
    """Each retired file takes these steps in order, and none twice; what is not retired any more was forgotten."""
    shown, deleted, forgotten = map(frozenset, (change.shown, change.deleted, change.forgotten))
    listed = [id for id in shown | deleted | forgotten if id in manifest.by_id]
    if listed:
        return Conflict(f"files to collect are listed: {', '.join(sorted(listed)[:5])}")
    retired: list[Retired] = []
    going = [file.path for file in manifest.retired if file.id in deleted]
    paths = manifest.files.with_path(going) | attached_objects.paths_in(manifest.files) if going else set()
    for file in manifest.retired:
        after = file
        if not change.means(file):
            retired.append(file)
            continue
        if file.id in deleted and file.path in paths:
            return Conflict(f"file {file.id} is to be deleted, and its path is listed")
        if file.id in forgotten:
            if file.deleted is None:
                return Conflict(f"file {file.id} is to be forgotten and was not deleted")
            continue
        if file.id in deleted and file.deleted is None:
            if file.shown is None:
                return Conflict(f"file {file.id} is to be deleted and was not shown as retired")
            after = msgspec.structs.replace(file, deleted=at)
        elif file.id in shown and file.shown is None:
            after = msgspec.structs.replace(file, shown=at)
        retired.append(after)
    return {} if retired == manifest.retired else {"retired": AppendOnlyList(retired)}


def _rebase(manifest: Manifest, change: tx.Rebase) -> dict[str, Any] | Conflict:
    base = change.manifest
    if (base.tap, base.stream) != (manifest.tap, manifest.stream):
        return Conflict("the new state is of another stream")
    if base.lineage == manifest.lineage and base.next_offset < manifest.next_offset:
        return Conflict("the new state keeps the lineage and lowers the next offset")
    going = list(base.files.with_ids(file.id for file in manifest.retired if file.deleted is not None))
    going += attached_objects.going(manifest.retired, base.files)
    if going and base.lineage == manifest.lineage:
        return Conflict(f"the new state lists files that are being deleted: {', '.join(going[:5])}")
    settled = max((name for name in (base.settled, manifest.settled) if name is not msgspec.UNSET), default=None)
    return {
        "settled": msgspec.UNSET if settled is None else settled,
        "lake_id": base.lake_id or manifest.lake_id,
        "lineage": base.lineage,
        "created": base.created,
        "next_offset": base.next_offset,
        "versions": base.versions,
        "schemas": base.schemas,
        "files": base.files,
        "retired": attached_objects.listed_again(base.retired, base.files),
        "runs": base.runs or manifest.runs,
    }
