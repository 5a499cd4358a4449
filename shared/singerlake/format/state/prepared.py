"""What an atomic run adds to one stream: prepared first and settled once its commit is decided, or committed together
with the decision. Section 11.6 of ``shared/docs/format``. Pure; ``singerlake.format.state.fold`` applies it."""

from __future__ import annotations

from typing import Any

import msgspec

from singerlake.format.decision import Brought, Decision
from singerlake.format.state import transactions as tx
from singerlake.format.state.additions import Conflict, add
from singerlake.format.state.model import Manifest, Prepared


def prepare(manifest: Manifest, change: tx.PrepareFiles, at: str) -> dict[str, Any] | Conflict:
    """The fields of the undecided state. What would not fit once it is settled does not fit now."""
    fields = _later(manifest, change.commit) or add(manifest, change, at)
    if isinstance(fields, Conflict):
        return fields
    prepared = Prepared(commit=change.commit, files=change.files, schemas=change.schemas, run=change.run)
    return {"prepared": prepared}


def commit(manifest: Manifest, change: tx.CommitFiles, at: str) -> dict[str, Any] | Conflict:
    """The fields of the state with what the run brought, whose commit this transaction decides."""
    fields = _later(manifest, change.commit) or add(manifest, change, at)
    if isinstance(fields, Conflict):
        return fields
    return {**fields, "settled": change.commit}


def settle(manifest: Manifest, change: tx.Settle, at: str) -> dict[str, Any] | Conflict:
    """The fields of the state with, or without, what the one before it prepared."""
    prepared = manifest.prepared
    if prepared is msgspec.UNSET:
        return Conflict(f"commit {change.commit} is to be settled, and nothing is prepared")
    if prepared.commit != change.commit:
        return Conflict(f"commit {change.commit} is to be settled, and what is prepared is of {prepared.commit}")
    if not change.committed:
        return {"prepared": msgspec.UNSET}
    fields = add(manifest, prepared, at)
    if isinstance(fields, Conflict):
        return fields
    return {**fields, "prepared": msgspec.UNSET, "settled": change.commit}


def settlement(decision: Decision) -> tx.Transaction:
    """The transaction that settles a commit: the same one, by whoever it is appended."""
    change = tx.Settle(commit=decision.id, committed=decision.committed)
    return tx.Transaction(id=f"{decision.id}-settled", at=decision.at, change=change)


def _later(manifest: Manifest, name: str) -> Conflict | None:
    """Why a commit of this name cannot come now: the names in a stream ascend."""
    if manifest.settled is msgspec.UNSET or manifest.settled < name:
        return None
    return Conflict(f"commit {manifest.settled} came before commit {name}, which is not greater")


def brought(undecided: Manifest) -> Brought | None:
    """What the run would bring to the stream of an undecided state; None where that is nothing."""
    prepared = undecided.prepared
    assert prepared is not msgspec.UNSET
    fields = add(undecided, prepared, undecided.created)
    assert not isinstance(fields, Conflict)
    return _between(undecided, fields["next_offset"])


def brought_between(before: Manifest, after: Manifest) -> Brought | None:
    """What came to a stream from one state of a lineage to a later one; None where that is nothing."""
    return _between(before, after.next_offset)


def _between(before: Manifest, end: int) -> Brought | None:
    assert before.lineage is not None
    offset = before.next_offset
    return Brought(lineage=before.lineage, offset=offset, end=end) if end > offset else None
