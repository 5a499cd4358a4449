"""What the methods of ``Lake`` and ``LakeStream`` that look after a lake give: frozen, and what ``--json`` writes."""

from __future__ import annotations

from singerlake.stores.port import Trimmed
from singerlake.tables.maintain.status import StatusResult, TableStatus
from singerlake.tables.state.model import TableRun
from singerlake.upkeep.drop import DropFailure, DropResult, DropRunResult, StreamDrop
from singerlake.upkeep.erase.erase import ErasedFile, EraseResult, LeftFile, UnownedFile
from singerlake.upkeep.gc.expire import ExpireResult
from singerlake.upkeep.gc.gc import BatchGcResult, GcResult, StreamGc
from singerlake.upkeep.gc.segments import CollectedSegments
from singerlake.upkeep.migrate import MigrateResult, Migration, NewStreams
from singerlake.upkeep.rebuild.rebuild_lake import RebuildResult, StreamRebuild
from singerlake.upkeep.rebuild.repair import KindTotals
from singerlake.upkeep.reports.census import Census, ContentsResult, TapContents
from singerlake.upkeep.reports.history import StreamVersions, Version, VersionsResult
from singerlake.upkeep.reports.schema_diff import Changed, DiffResult, Property, Renamed, VersionName
from singerlake.upkeep.reports.status import HeldLock, StreamStatus, Tracked, UnactivatedVersion
from singerlake.upkeep.result import Failure, Finding, RecordTally, Tally
from singerlake.upkeep.trim import StreamTrim, TrimFailure, TrimResult
from singerlake.upkeep.vacuum.vacuum import Join, Joins, StreamVacuum, VacuumResult
from singerlake.upkeep.verify import VerifyResult

__all__ = [
    "BatchGcResult",
    "Census",
    "Changed",
    "CollectedSegments",
    "ContentsResult",
    "DiffResult",
    "DropFailure",
    "DropResult",
    "DropRunResult",
    "EraseResult",
    "ErasedFile",
    "ExpireResult",
    "Failure",
    "Finding",
    "GcResult",
    "HeldLock",
    "Join",
    "Joins",
    "KindTotals",
    "LeftFile",
    "MigrateResult",
    "Migration",
    "NewStreams",
    "Property",
    "RebuildResult",
    "RecordTally",
    "Renamed",
    "StatusResult",
    "StreamDrop",
    "StreamGc",
    "StreamRebuild",
    "StreamStatus",
    "StreamTrim",
    "StreamVacuum",
    "StreamVersions",
    "TableRun",
    "TableStatus",
    "Tally",
    "TapContents",
    "Tracked",
    "TrimFailure",
    "TrimResult",
    "Trimmed",
    "UnactivatedVersion",
    "UnownedFile",
    "VacuumResult",
    "VerifyResult",
    "Version",
    "VersionName",
    "VersionsResult",
]
