"""Files of atomic runs that were not committed: no state is made of them. Section 11.6 of ``shared/docs/format``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.rebuild.found_files import FoundFiles
from singerlake.upkeep.rebuild.scanned_file import ScannedFile
from singerlake.upkeep.rebuild.survey import Survey
from singerlake.upkeep.verify.findings import Finding


def without_uncommitted(
    surveyed: Survey, storage: Storage, tap: str, stream: str, known: Manifest | None = None
) -> Survey:
    """What a survey found, from which the files of atomic runs that no decision commits go; each is a note. Files that
    ``known``, a state of the stream, lists or retired stay. So do all where the tap has no decision left: repeated
    perhaps, lost never.

    Raises ``CorruptObjectError``, ``UnsupportedFormatError`` for a decision that cannot be read, and what storage
    and ``ScratchDatabase`` raise. Asks storage for nothing where no file is of an atomic run.
    """
    found = surveyed.files
    if next(found.atomic(), None) is None:
        return surveyed
    listed = _listed(found, known) if known is not None else bytearray(found.numbers)
    retired = known.retired_by_id if known is not None else {}

    def unknown() -> Iterator[tuple[int, ScannedFile]]:
        return (each for each in found.atomic() if not listed[each[0]] and each[1].id not in retired)

    doubtful = {file.atomic_run for _, file in unknown()}
    if not doubtful:
        return surveyed
    decisions = Decisions(storage, tap)
    decided = decisions.all_of(decisions.listed().names)
    doubtful -= {decision.run for decision in decided if decision.committed}
    if not decided or not doubtful:
        return surveyed
    gone = sorted((each for each in unknown() if each[1].atomic_run in doubtful), key=lambda each: each[1].path)
    for number, file in gone:
        found.remove(number, file)
    prefix = layout.stream_prefix(tap, stream)
    notes = tuple(
        Finding(
            "uncommitted", prefix + file.path, "is of an atomic run that was not committed; left out", problem=False
        )
        for _, file in gone
    )
    return replace(surveyed, findings=surveyed.findings + notes)


def _listed(found: FoundFiles, known: Manifest) -> bytearray:
    """By number, whether a file of this id is listed."""
    listed = bytearray(found.numbers)
    for file in known.files:
        for number, same in found.with_id(file.id):
            listed[number] |= same.id == file.id
    return listed
