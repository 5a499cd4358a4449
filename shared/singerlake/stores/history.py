"""Why the history of a stream that a manifest store has is not the one that the lake's readers have seen."""

from __future__ import annotations

from singerlake.errors import ForeignManifestError, LostStateError, StreamClosedError
from singerlake.stores.port import ManifestStore
from singerlake.stores.publish import Published


def no_history(
    store: ManifestStore, there: Published | None, *, tap: str, stream: str, lake_id: str | None
) -> LostStateError:
    """For a database without a history of a stream that the lake has data of: perhaps it knows it by another id.
    ``there`` is what ``manifest.json`` says."""
    kind = store.kind
    hint = f"point the {kind} settings at the right database, or restore it, or run 'singerlake rebuild'"
    said = there.lake_id if there else None
    lakes: tuple[str, ...] = ()
    if said is None:
        lakes = store.other_lakes()
    elif said != lake_id:
        lakes = (said,)
    if not lakes:
        return LostStateError(
            f"the lake has data of this stream, the manifest store {kind} has no history of it",
            hint=hint,
            tap=tap,
            stream=stream,
        )
    whose = "manifest.json says that it is of" if said else f"the manifest store {kind} knows a stream of this name of"
    return LostStateError(
        f"singerlake.json says that this lake is {lake_id!r}, and the manifest store {kind} has no history of it here; "
        f"{whose} {', '.join(map(repr, lakes))}",
        hint=f"if that is this lake, run 'singerlake store identify LAKE --lake-id {' or '.join(lakes)}'; else {hint}",
        tap=tap,
        stream=stream,
    )


def refuse_other_lake(store: ManifestStore, there: Published, *, key: str, lake_id: str | None) -> None:
    """Raise ``ForeignManifestError`` where ``manifest.json``, at ``key``, is of a lake with another id."""
    if there.lake_id is None or there.lake_id == lake_id:
        return
    raise ForeignManifestError(
        f"manifest.json belongs to lake {there.lake_id!r}, singerlake.json calls this one {lake_id!r}",
        hint=f"if it is that lake, run 'singerlake store identify LAKE --lake-id {there.lake_id}'; else delete "
        f"manifest.json, which the manifest store {store.kind} then writes again",
        key=key,
    )


def too_old(store: ManifestStore, number: int, there: Published, *, tap: str, stream: str) -> LostStateError:
    """For a database that was put back to transaction ``number``, older than what readers have seen."""
    return LostStateError(
        f"the manifest store {store.kind} is at transaction {number}, readers have seen transaction {there.number}",
        hint="restore the database to a newer state, or run 'singerlake rebuild --discard-manifest'",
        tap=tap,
        stream=stream,
    )


def stream_closed(tap: str, stream: str, successor: str) -> StreamClosedError:
    """For a stream that is still on its way to the manifest store ``successor``."""
    return StreamClosedError(
        f"a migration of this stream is not finished; its new manifest store is {successor!r}",
        hint="finish it with 'singerlake store migrate', then run again",
        tap=tap,
        stream=stream,
    )
