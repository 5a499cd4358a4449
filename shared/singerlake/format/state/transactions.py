"""What writers agree on: typed changes to one stream, each applied by ``singerlake.format.state.fold.apply``."""

from __future__ import annotations

from typing import get_args

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.manifest import stored
from singerlake.format.state.model import Manifest, Retired, Run, StreamSchema


class AddFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="add_files"):
    """New files in the order of their messages, with the schemas of their versions (hash -> schema)."""

    files: tuple[NewFile, ...]
    schemas: dict[str, StreamSchema]
    run: Run | None = None


class AttachFiles(AddFiles, frozen=True, kw_only=True, tag_field="kind", tag="attach_files"):
    """The same, where records of the new files have attached files."""


class AddTogether(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="add_together"):
    """What several writers add at once, in the order of ``parts``, each as if it came alone."""

    parts: tuple[AddFiles | AttachFiles, ...]


class PrepareFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="prepare_files"):
    """What an atomic run adds to this stream once its commit is decided; ``commit`` is the commit's name."""

    commit: str
    files: tuple[NewFile, ...]
    schemas: dict[str, StreamSchema]
    run: Run | None = None


class CommitFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="commit_files"):
    """What an atomic run adds to this stream in the transaction of a database that decides its commit as well."""

    commit: str
    files: tuple[NewFile, ...]
    schemas: dict[str, StreamSchema]
    run: Run | None = None


class Settle(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="settle"):
    """The end of what the transaction before it prepared: added to the stream where it is ``committed``."""

    commit: str
    committed: bool


class ReplaceFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="replace_files"):
    """The same messages under the same offsets in other files: ``old`` ids, contiguous, one version."""

    old: tuple[str, ...]
    new: tuple[NewFile, ...]


class EraseFiles(ReplaceFiles, frozen=True, kw_only=True, tag_field="kind", tag="erase_files"):
    """The same, but for records that are holes now."""


class ExpireFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="expire_files"):
    """The first files are listed no more, as far as they end by ``before``, an offset of this ``lineage`` alone."""

    before: int
    lineage: str


class RetireFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="retire_files"):
    """Stage one of collection for files no transaction lists: ``(id, path)`` each."""

    files: tuple[tuple[str, str], ...]


class CollectFiles(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="collect_files"):
    """Stage two of collection, in ids of retired files: seen as such in ``manifest.json``, deleted, or forgotten.
    ``since``: of attached ones, since when they were retired in that state. The transaction's time is the storage's."""

    shown: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    since: dict[str, str] | msgspec.UnsetType = msgspec.UNSET

    def means(self, file: Retired) -> bool:
        """Whether a retired file is still the one that was looked at: an attached one may have come back since."""
        return not self.since or self.since.get(file.id, file.since) == file.since


class RecordRun(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="record_run"):
    """How a run stands; keyed by its id."""

    run: Run


class Rebase(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rebase"):
    """A whole new state, from a rebuild or a migration."""

    manifest: Manifest


class Close(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="close"):
    """The stream continues in another manifest store; every later commit here is void."""

    successor: str


Change = (
    AddFiles
    | AttachFiles
    | AddTogether
    | PrepareFiles
    | CommitFiles
    | Settle
    | ReplaceFiles
    | EraseFiles
    | ExpireFiles
    | RetireFiles
    | CollectFiles
    | RecordRun
    | Rebase
    | Close
)


def file_ids(change: Change) -> tuple[str, ...]:
    """The ids of files that a change names, in its order."""
    if isinstance(change, AddFiles | PrepareFiles | CommitFiles):
        return tuple(file.id for file in change.files)
    if isinstance(change, AddTogether):
        return tuple(file.id for part in change.parts for file in part.files)
    if isinstance(change, ReplaceFiles):
        return (*change.old, *(file.id for file in change.new))
    if isinstance(change, RetireFiles):
        return tuple(id for id, _ in change.files)
    if isinstance(change, CollectFiles):
        return (*change.shown, *change.deleted, *change.forgotten)
    return ()


def addition(files: tuple[NewFile, ...], schemas: dict[str, StreamSchema], run: Run | None = None) -> AddFiles:
    """The change that adds ``files``, of the kind that the oldest readers know that may read them."""
    kind = AttachFiles if any(file.attached for file in files) else AddFiles
    return kind(files=files, schemas=schemas, run=run)


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """A change with its own identity and the moment of its commit (RFC 3339, UTC)."""

    id: str
    at: str
    change: Change


def as_written(transaction: Transaction) -> Transaction:
    """A transaction as a log keeps it: a whole new state as it is stored."""
    change = transaction.change
    if not isinstance(change, Rebase):
        return transaction
    return msgspec.structs.replace(transaction, change=Rebase(manifest=stored(change.manifest)))


prepare_decoders(*get_args(Change), Transaction)
