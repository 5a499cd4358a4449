"""Writing a file again that holds messages which nobody erased beside some that another file shows as erased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from singerlake.clock import IdSource
from singerlake.errors import StorageUnavailableError
from singerlake.format.lines.holes import HOLE
from singerlake.format.lines.messages import is_record_line, is_schema_line
from singerlake.storage.port import Storage
from singerlake.upkeep.erase.match import Matches
from singerlake.upkeep.erase.rewrite import Rewrite, RewriteFiles
from singerlake.upkeep.rebuild.choose import TornFile
from singerlake.upkeep.rebuild.rebuild import Hashes, place
from singerlake.upkeep.rebuild.scanned_file import ScannedFile
from singerlake.upkeep.rebuild.survey import Survey, SurveyTask
from singerlake.upkeep.verify.findings import Finding

_WHO = "singerlake rebuild"


@dataclass(frozen=True, slots=True)
class WriteTornFiles:
    """Writes files of ``stream``, below ``prefix``, again. ``hashes`` are the versions of the state that is to list
    them, ``lake_id`` is the lake's."""

    storage: Storage
    stream: str
    prefix: str
    hashes: Hashes
    lake_id: str | None
    at: datetime
    ids: IdSource

    def __call__(self, surveyed: Survey, torn: Sequence[TornFile]) -> Survey:
        """What was found, to which the new files come beside those that they were made of. One that cannot be written
        is a finding. Raises what storage, ``local_folder`` and ``ScratchDatabase`` raise."""
        findings: list[Finding] = []
        for each in torn:
            outcome = self._written(each)
            if isinstance(outcome, Finding):
                findings.append(outcome)
            else:
                surveyed.files.add(outcome)
        return replace(surveyed, findings=(*surveyed.findings, *findings))

    def _written(self, torn: TornFile) -> ScannedFile | Finding:
        facts = torn.file.facts
        listed = place(torn.file, facts, self.hashes.of(torn.file.schema), 0)
        # No state has this lineage: the file is listed nowhere yet, so it has no offset.
        item = Rewrite(listed, self.ids(), self.ids(), self.lake_id)
        task = RewriteFiles(_Places(torn.erased), self.prefix, self.stream, self.at, _WHO)
        outcome = task(self.storage, item)
        if isinstance(outcome, Finding):
            return outcome
        key = self.prefix + (outcome.file.path if outcome.file else listed.path)
        for entry in self.storage.list(key):
            if entry.key == key:
                return SurveyTask(self.stream, self.prefix)(self.storage, entry)
        raise StorageUnavailableError("a file that was just written is not listed", hint="run again", key=key)


@dataclass(frozen=True, slots=True)
class _Places:
    """What finds messages by their number in the file, as bits."""

    bits: int

    def matcher(self) -> _PlaceMatcher:
        return _PlaceMatcher(self.bits)


class _PlaceMatcher:
    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._seen = 0

    def begin(self, extra: bytes | None) -> None:
        """Nothing depends on it."""

    def __call__(self, lines: bytes) -> Matches:
        found: list[int] = []
        records = 0
        for at, line in enumerate(lines.split(b"\n")[:-1]):
            if is_schema_line(line):
                continue
            if self._bits >> self._seen & 1 and line != HOLE[:-1]:
                found.append(at)
                records += is_record_line(line)
            self._seen += 1
        return Matches(found, records)
