"""Files of atomic runs that were not committed: no state is made of them. Section 11.6 of ``shared/docs/format.md``."""

from __future__ import annotations

from dataclasses import replace

from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.maintenance.rebuild.scanned_file import ScannedFile
from singerlake.maintenance.rebuild.survey import Survey
from singerlake.maintenance.verify.findings import Finding
from singerlake.manifests.atomic.decisions import Decisions
from singerlake.storage.port import Storage


def without_uncommitted(
    surveyed: Survey, storage: Storage, tap: str, stream: str, known: Manifest | None = None
) -> Survey:
    """What a survey found, without the files of atomic runs that no decision commits; each is a note. Files that
    ``known``, a state of the stream, lists or retired stay. So do all where the tap has no decision left: repeated
    perhaps, lost never.

    Raises ``CorruptObjectError``, ``UnsupportedFormatError`` for a decision that cannot be read, and what storage
    raises. Asks storage for nothing where no file is of an atomic run.
    """
    open_to_doubt = [file for file in surveyed.files if file.atomic_run is not None and not _is_known(file, known)]
    if not open_to_doubt:
        return surveyed
    decisions = Decisions(storage, tap)
    decided = decisions.all_of(decisions.listed().names)
    committed = {decision.run for decision in decided if decision.committed}
    gone = {id(file): file for file in open_to_doubt if decided and file.atomic_run not in committed}
    prefix = layout.stream_prefix(tap, stream)
    notes = tuple(
        Finding(
            "uncommitted", prefix + file.path, "is of an atomic run that was not committed; left out", problem=False
        )
        for file in gone.values()
    )
    files = [file for file in surveyed.files if id(file) not in gone]
    return replace(surveyed, files=files, findings=surveyed.findings + notes)


def _is_known(file: ScannedFile, known: Manifest | None) -> bool:
    return known is not None and (file.id in known.by_id or file.id in known.retired_by_id)
