"""Making a stream known by its SCHEMA alone.

What every reader and writer of the format understands is a whole new state, so the schema of a stream that has no
version comes as one: with its birth, or as a ``rebase`` of the same lineage. A rebase takes the place of the state that
it was made from and of no other, so it is made anew where another writer came first.
"""

from __future__ import annotations

from singerlake.clock import Backoff, timestamp
from singerlake.errors import TooManyConflictsError, UnknownOutcomeError
from singerlake.format import kept_schema, layout
from singerlake.format.schema_hash import hash_among
from singerlake.format.state.additions import Conflict
from singerlake.format.state.fold import with_schema
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.transactions import Rebase, Transaction
from singerlake.storage.port import Storage
from singerlake.stores.commit import commit_once
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore, Outdated

_ATTEMPTS = 20
_LONGEST_WAIT = 1.0


def put_schema(storage: Storage, state: Manifest, schema: StreamSchema, run: str, at: str) -> None:
    """Keep ``schema`` as an object, before any state says that it is there. What is there already stays."""
    held = kept_schema.kept(schema, tap=state.tap, stream=state.stream, created=at, run=run, lake_id=state.lake_id)
    key = layout.stream_prefix(state.tap, state.stream) + layout.schema_path(hash_among(schema.schema, {}))
    storage.put(key, kept_schema.to_json(held), if_absent=True)


def add_schema(
    place: StreamPlace, store: ManifestStore, base: Loaded, schema: StreamSchema, run: str
) -> Loaded | Conflict:
    """The state with ``schema`` as its first version, or the newest one where it has a version already; a conflict
    where the stream was closed. Raises ``TooManyConflictsError``, ``UnknownOutcomeError`` and what storage and store
    raise."""
    unknown: UnknownOutcomeError | None = None
    backoff = Backoff(place.clock, first=_LONGEST_WAIT, longest=_LONGEST_WAIT)
    for attempt in range(_ATTEMPTS):
        manifest = base.manifest
        if manifest.versions:
            return base
        if manifest.closed is not None:
            return Conflict(f"the stream continues in {manifest.closed}", successor=manifest.closed)
        now = timestamp(place.clock.now())
        if attempt == 0:
            put_schema(place.storage, manifest, schema, run, now)
        with place.alone("schema", store):
            change = Rebase(manifest=with_schema(manifest, schema, now))
            try:
                outcome = commit_once(
                    store, base, Transaction(id=place.ids(), at=now, change=change), clock=place.clock
                )
            except UnknownOutcomeError as error:
                unknown, outcome = error, Outdated()
        if isinstance(outcome, Loaded) and outcome.manifest.versions:
            store.publish(outcome, run_ended=True)
            return outcome
        if not isinstance(outcome, Outdated) or attempt:
            backoff.wait()
        base = store.catch_up(base) or base
    if unknown is not None:
        raise unknown
    raise TooManyConflictsError(
        "other writers kept changing a stream while its schema was added",
        hint="run again; nothing is lost",
        tap=place.tap,
        stream=place.stream,
    )
