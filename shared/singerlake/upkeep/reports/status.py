"""How streams stand: their last runs, who writes to them now, and what a tap forgot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from singerlake.errors import LakeError
from singerlake.format.state.model import Manifest
from singerlake.format.state.table_versions import unactivated
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.lock_files import LockFile, locks_of
from singerlake.upkeep.reports.runs import Tracked, last_signs, track
from singerlake.work.parallel import THREADS, in_parallel

NO_MANIFEST = "no manifest; run 'singerlake rebuild'"
States = Mapping[tuple[str, str], Manifest | None]
"""The state of each stream by tap and name; None where it has none that can be read."""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock at ``key`` that ``writer`` holds, None where it cannot be read. ``changed`` is the storage's time."""

    key: str
    writer: str | None
    changed: datetime


@dataclass(frozen=True, slots=True)
class UnactivatedVersion:
    """Records of ``run`` (its id) came with this table ``version``, and no ACTIVATE_VERSION followed."""

    version: int
    run: str


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """``store`` keeps the stream's state, whose newest ``transaction`` has that number. ``runs``: the newest first.
    ``trouble`` says why there are no figures."""

    tap: str
    stream: str
    store: str | None
    transaction: int | None
    runs: tuple[Tracked, ...]
    locks: tuple[HeldLock, ...]
    unactivated: UnactivatedVersion | None
    trouble: str | None


def stream_statuses(
    lake: LakeContext, pairs: Sequence[tuple[str, str]], runs: int
) -> tuple[tuple[StreamStatus, ...], States]:
    """The status of each stream, with the states that it is from. ``runs``: how many of each kind."""
    looked_at = list(in_parallel(lambda pair: _look(lake, *pair), pairs, threads=THREADS))
    states = {pair: manifest for pair, (manifest, *_) in zip(pairs, looked_at, strict=True)}
    signs = last_signs(manifest for manifest in states.values() if manifest)
    now = lake.clock.now()
    statuses = []
    for (tap, stream), (manifest, locks, trouble) in zip(pairs, looked_at, strict=True):
        left = unactivated(manifest) if manifest else None
        statuses.append(
            StreamStatus(
                tap=tap,
                stream=stream,
                store=manifest.store if manifest else None,
                transaction=manifest.transaction.number if manifest else None,
                runs=track(manifest, locks, signs, now=now, last=runs) if manifest else (),
                locks=tuple(
                    HeldLock(held.key, held.body.writer_id if held.body else None, held.changed)
                    for held in locks
                    if not held.free
                ),
                unactivated=UnactivatedVersion(left.version, left.run.id) if left else None,
                trouble=trouble,
            )
        )
    return tuple(statuses), states


def _look(lake: LakeContext, tap: str, stream: str) -> tuple[Manifest | None, tuple[LockFile, ...], str | None]:
    """State, locks, and why there is no state."""
    locks = tuple(locks_of(lake.storage, tap, stream))
    try:
        # Never from the data files: nothing but a state remembers runs.
        manifest = lake.stream(tap, stream).state()
    except LakeError as error:
        return None, locks, f"{error.message}; {error.hint}"
    return manifest, locks, None if manifest else NO_MANIFEST
