"""Files of atomic runs that were not committed: no state is made of them. Section 11.6 of ``shared/docs/format.md``."""

from __future__ import annotations

from dataclasses import replace

from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.rebuild.spooled.found_files import FoundFiles
from singerlake.upkeep.rebuild.survey import Survey
from singerlake.upkeep.verify.findings import Finding


def without_uncommitted(
    surveyed: Survey, storage: Storage, tap: str, stream: str, known: Manifest | None = None
) -> Survey:
    """What a survey found, without the files of atomic runs that no decision commits; each is a note. Files that
    ``known``, a state of the stream, lists or retired stay. So do all where the tap has no decision left: repeated
    perhaps, lost never.

    Raises ``CorruptObjectError``, ``UnsupportedFormatError`` for a decision that cannot be read, and what storage
    and ``ScratchFile`` raise. Asks storage for nothing where no file is of an atomic run.
    """
    found = surveyed.files
    if not found.atomic:
        return surveyed
    listed = _listed(found, known) if known is not None else bytearray(found.numbers)
    retired = known.retired_by_id if known is not None else {}
    doubtful = {
        file.atomic_run
        for number, file in found.numbered()
        if not listed[number] and file.atomic_run is not None and file.id not in retired
    }
    if not doubtful:
        return surveyed
    decisions = Decisions(storage, tap)
    decided = decisions.all_of(decisions.listed().names)
    doubtful -= {decision.run for decision in decided if decision.committed}
    if not decided or not doubtful:
        return surveyed
    gone = [
        file.path
        for number, file in found.numbered()
        if not listed[number] and file.atomic_run in doubtful and file.id not in retired
    ]
    if found.spooled:
        gone.sort()
    prefix = layout.stream_prefix(tap, stream)
    notes = tuple(
        Finding("uncommitted", prefix + path, "is of an atomic run that was not committed; left out", problem=False)
        for path in gone
    )
    return replace(surveyed, files=found.without(gone), findings=surveyed.findings + notes)


def _listed(found: FoundFiles, known: Manifest) -> bytearray:
    """By number, whether a file of this id is listed."""
    places = found.places()
    listed = bytearray(found.numbers)
    for file in known.files:
        for number in places.find(hash(file.id)):
            if found[number].id == file.id:
                listed[number] = True
    return listed
