"""Transactions as JSON merge patches (RFC 7386) keyed by file id: what an entry of the ``merge`` store holds, by
section 11.5 of ``shared/docs/format``. As null removes, what a tap or a manifest says, which may be null, stands in a
patch as a JSON text. Where a change has an order, the entry says it beside the patch."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.format.state import transactions as tx
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, Run, StreamSchema


class MergeEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transaction as it waits for its place: an entry of section 11.5 of ``shared/docs/format``."""

    id: str
    at: str
    patch: dict[str, Any]
    order: tuple[str, ...] = ()
    after: str | None = None


def to_entry(transaction: tx.Transaction, *, after: str | None = None) -> MergeEntry:
    """``transaction`` as an entry. The file ids of a change must differ from each other."""
    patch, order = _patch(transaction.change)
    return MergeEntry(id=transaction.id, at=transaction.at, patch=patch, order=order, after=after)


def to_transaction(entry: MergeEntry) -> tx.Transaction:
    """The transaction that an entry holds. Raises ``msgspec.ValidationError`` where it holds none."""
    return tx.Transaction(id=entry.id, at=entry.at, change=_change(entry.patch, entry.order))


def _patch(change: tx.Change) -> tuple[dict[str, Any], tuple[str, ...]]:
    order = tx.file_ids(change)
    if isinstance(change, tx.AddFiles):
        schemas = {version: _schema_out(schema) for version, schema in change.schemas.items()}
        runs = {"runs": {change.run.id: _fields(change.run)}} if change.run is not None else {}
        # Under a name of its own: a writer that does not know attached files must not pass over them.
        name = "attached" if isinstance(change, tx.AttachFiles) else "files"
        return {name: {file.id: _file_out(file) for file in change.files}, "schemas": schemas, **runs}, order
    if isinstance(change, tx.ReplaceFiles):
        gone: dict[str, Any] = dict.fromkeys(change.old)
        # Under a name of its own: a writer that does not know holes must not take the one for the other.
        name = "erased" if isinstance(change, tx.EraseFiles) else "files"
        return {name: gone | {file.id: _file_out(file) for file in change.new}}, order
    if isinstance(change, tx.ExpireFiles):
        return {"expired": {"before": change.before, "lineage": change.lineage}}, order
    if isinstance(change, tx.RetireFiles):
        return {"retired": dict(change.files)}, order
    if isinstance(change, tx.CollectFiles):
        since = {"since": change.since} if change.since else {}
        return {"collected": {id: step for step in _STEPS for id in getattr(change, step)}, **since}, order
    if isinstance(change, tx.RecordRun):
        return {"runs": {change.run.id: _fields(change.run)}}, order
    if isinstance(change, tx.Close):
        return {"closed": change.successor}, order
    if isinstance(change, tx.Rebase):
        return {"manifest": encode(change.manifest).decode()}, order
    raise TypeError(f"a merge log has no entry for {type(change).__name__}")


def _change(patch: dict[str, Any], order: tuple[str, ...]) -> tx.Change:
    if "manifest" in patch:
        return tx.Rebase(manifest=decode(_text(patch["manifest"]), Manifest))
    if "closed" in patch:
        return msgspec.convert({"kind": "close", "successor": patch["closed"]}, tx.Close)
    if "retired" in patch:
        paths = _object(patch, "retired")
        return msgspec.convert({"kind": "retire_files", "files": _ordered(paths, order)}, tx.RetireFiles)
    if "collected" in patch:
        steps = _ordered(_object(patch, "collected"), order)
        if any(step not in _STEPS for _, step in steps):
            raise msgspec.ValidationError("a step of collection that is not known")
        named = {name: tuple(id for id, step in steps if step == name) for name in _STEPS}
        since = {"since": patch["since"]} if "since" in patch else {}
        return msgspec.convert({**named, **since, "kind": "collect_files"}, tx.CollectFiles)
    if "expired" in patch:
        return msgspec.convert({**_object(patch, "expired"), "kind": "expire_files"}, tx.ExpireFiles)
    if "erased" in patch:
        files = _ordered(_object(patch, "erased"), order)
        return tx.EraseFiles(old=_gone(files), new=_new(files))
    if "attached" in patch:
        files = _ordered(_object(patch, "attached"), order)
        return _adding(tx.AttachFiles, patch, files, _new(files))
    if "files" in patch:
        files = _ordered(_object(patch, "files"), order)
        new = _new(files)
        if "schemas" not in patch:
            return tx.ReplaceFiles(old=_gone(files), new=new)
        return _adding(tx.AddFiles, patch, files, new)
    if "runs" in patch:
        return tx.RecordRun(run=_run_in(patch))
    raise msgspec.ValidationError("a patch of an unknown kind")


def _adding(
    kind: type[tx.AddFiles], patch: dict[str, Any], files: list[tuple[str, Any]], new: tuple[NewFile, ...]
) -> tx.AddFiles:
    if len(new) != len(files):
        raise msgspec.ValidationError("removes files and brings schemas")
    schemas = {version: _schema_in(schema) for version, schema in _object(patch, "schemas").items()}
    return kind(files=new, schemas=schemas, run=_run_in(patch) if "runs" in patch else None)


_STEPS = ("shown", "deleted", "forgotten")


def _gone(files: list[tuple[str, Any]]) -> tuple[str, ...]:
    return tuple(id for id, file in files if file is None)


def _new(files: list[tuple[str, Any]]) -> tuple[NewFile, ...]:
    return tuple(_file_in(id, file) for id, file in files if file is not None)


def _ordered(items: dict[str, Any], order: tuple[str, ...]) -> list[tuple[str, Any]]:
    if len(order) != len(items) or set(order) != set(items):
        raise msgspec.ValidationError("the order and the patch name different files")
    return [(id, items[id]) for id in order]


def _object(patch: dict[str, Any], name: str) -> dict[str, Any]:
    value = patch.get(name)
    if not isinstance(value, dict):
        raise msgspec.ValidationError(f"{name} is not an object")
    return value


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise msgspec.ValidationError("not a JSON text")
    return value.encode()


_LEFT_OUT = ("erased", "attached")
"""Of a file, where there is none."""
_OF_A_FILE = tuple(name for name in NewFile.__struct_fields__ if name != "id")


def _file_out(file: NewFile) -> dict[str, Any]:
    fields = msgspec.structs.asdict(file)
    return {name: fields[name] for name in _OF_A_FILE if name not in _LEFT_OUT or fields[name]}


def _file_in(id: str, fields: Any) -> NewFile:
    if not isinstance(fields, dict):
        raise msgspec.ValidationError("a file is not an object")
    return msgspec.convert({**fields, "id": id}, NewFile)


def _fields(run: Run) -> dict[str, Any]:
    return {
        name: value
        for name in Run.__struct_fields__
        if name != "id" and (value := getattr(run, name)) is not msgspec.UNSET
    }


def _run_in(patch: dict[str, Any]) -> Run:
    runs = _object(patch, "runs")
    if len(runs) != 1:
        raise msgspec.ValidationError("not one run")
    [(id, fields)] = runs.items()
    return msgspec.convert({**fields, "id": id} if isinstance(fields, dict) else fields, Run)


def _schema_out(schema: StreamSchema) -> dict[str, Any]:
    return {
        "schema": encode(schema.schema).decode(),
        "key_properties": schema.key_properties,
        "bookmark_properties": schema.bookmark_properties,
    }


def _schema_in(fields: Any) -> StreamSchema:
    if not isinstance(fields, dict):
        raise msgspec.ValidationError("a schema is not an object")
    return msgspec.convert({**fields, "schema": decode(_text(fields.get("schema")), object)}, StreamSchema)


prepare_decoders(MergeEntry)
