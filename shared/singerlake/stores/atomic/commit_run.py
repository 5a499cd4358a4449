"""The commit of an atomic run: all of its streams at once, or none. Section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from singerlake.format.state.model import Manifest
from singerlake.stores.atomic.in_database import DatabaseCommit
from singerlake.stores.atomic.in_log import LogCommit
from singerlake.stores.atomic.parts import AtomicRun, require_one_way


def commit_run(run: AtomicRun) -> dict[str, Manifest]:
    """The state of each stream with the run in it. When this returns, readers see it in all of them.

    Raises ``SettingError`` where the stores cannot do that, ``CommitRefusedError``, ``StreamClosedError``,
    ``TooManyConflictsError``, ``MissingFileError`` and what storage raises: nothing is visible then, but after
    ``UnknownOutcomeError`` it may be.
    """
    require_one_way(run.parts)
    if not run.parts:
        return {}
    together = run.parts[0].writer.store.abilities.together
    return (DatabaseCommit(run) if together else LogCommit(run)).commit()
