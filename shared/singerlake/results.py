"""What the methods of ``Lake`` and ``LakeStream`` that look after a lake give: frozen, and what ``--json`` writes."""

from __future__ import annotations

from singerlake.format.metadata.retention import Retention, WrongRetention
from singerlake.site.build import SiteFile, SiteResult, SiteTrouble
from singerlake.stores.port import Trimmed
from singerlake.tables.compare.counts import RowDifference
from singerlake.tables.compare.diff import TableDiffResult
from singerlake.tables.compare.planned import PlannedDifference, PlannedDifferencesResult
from singerlake.tables.compare.taps import CompareResult, StreamComparison
from singerlake.tables.maintain.catalog import CatalogEntry, CatalogResult
from singerlake.tables.maintain.check import CheckFinding, CheckResult
from singerlake.tables.maintain.collect import GcTablesResult, TableGc
from singerlake.tables.maintain.drop import DropTablesResult, TableDrop
from singerlake.tables.maintain.failure import TableFailure
from singerlake.tables.maintain.listing import ListedTable, ListTablesResult
from singerlake.tables.maintain.register import RegisteredTable, RegisterResult
from singerlake.tables.maintain.status import StatusResult, TableStatus
from singerlake.tables.maintain.verify import CheckedTable, TableFinding, VerifyTablesResult
from singerlake.tables.state.model import TableRun
from singerlake.tables.why.origins import SourceRows
from singerlake.tables.why.why import Absence, Cell, EarlierValue, RecordOrigin, WhyResult
from singerlake.upkeep.annotate import NotesResult
from singerlake.upkeep.doctor import DoctorCheck, DoctorResult
from singerlake.upkeep.drop import DropFailure, DropResult, DropRunResult, StreamDrop
from singerlake.upkeep.erase.erase import ErasedFile, EraseResult, LeftFile, UnownedFile
from singerlake.upkeep.erase.streams import EraseStreamsResult, SkippedStream
from singerlake.upkeep.gc.expire import ExpireResult
from singerlake.upkeep.gc.gc import BatchGcResult, GcResult, StreamGc
from singerlake.upkeep.gc.segments import CollectedSegments
from singerlake.upkeep.lock_files import Lock, LocksResult
from singerlake.upkeep.migrate import MigrateResult, Migration, NewStreams
from singerlake.upkeep.policy import PoliciesResult, PolicyResult
from singerlake.upkeep.put import PutResult
from singerlake.upkeep.rebuild.rebuild_lake import RebuildResult, StreamRebuild
from singerlake.upkeep.rebuild.repair import KindTotals
from singerlake.upkeep.reports.census import Census, ContentsResult, TapContents
from singerlake.upkeep.reports.export import ExportedStream, ExportedTap, ExportResult, UnreadStream
from singerlake.upkeep.reports.history import StreamVersions, Version, VersionsResult
from singerlake.upkeep.reports.schema_diff import Changed, DiffResult, Property, Renamed, SchemaDiff, VersionName
from singerlake.upkeep.reports.status import (
    HeldLock,
    LakeRun,
    RunsResult,
    Silence,
    StreamStatus,
    Tracked,
    UnactivatedVersion,
)
from singerlake.upkeep.reports.stores import StoreStatusResult, StreamStore
from singerlake.upkeep.result import Failure, Finding, RecordTally, Tally
from singerlake.upkeep.root_file import IdentityResult
from singerlake.upkeep.trim import StreamTrim, TrimFailure, TrimResult
from singerlake.upkeep.vacuum.vacuum import Join, Joins, StreamVacuum, VacuumResult
from singerlake.upkeep.verify import StreamVerify, Traces, VerifyResult

__all__ = [
    "Absence",
    "BatchGcResult",
    "CatalogEntry",
    "CatalogResult",
    "Cell",
    "Census",
    "Changed",
    "CheckFinding",
    "CheckResult",
    "CheckedTable",
    "CollectedSegments",
    "CompareResult",
    "ContentsResult",
    "DiffResult",
    "DoctorCheck",
    "DoctorResult",
    "DropFailure",
    "DropResult",
    "DropRunResult",
    "DropTablesResult",
    "EarlierValue",
    "EraseResult",
    "EraseStreamsResult",
    "ErasedFile",
    "ExpireResult",
    "ExportResult",
    "ExportedStream",
    "ExportedTap",
    "Failure",
    "Finding",
    "GcResult",
    "GcTablesResult",
    "HeldLock",
    "IdentityResult",
    "Join",
    "Joins",
    "KindTotals",
    "LakeRun",
    "LeftFile",
    "ListTablesResult",
    "ListedTable",
    "Lock",
    "LocksResult",
    "MigrateResult",
    "Migration",
    "NewStreams",
    "NotesResult",
    "PlannedDifference",
    "PlannedDifferencesResult",
    "PoliciesResult",
    "PolicyResult",
    "Property",
    "PutResult",
    "RebuildResult",
    "RecordOrigin",
    "RecordTally",
    "RegisterResult",
    "RegisteredTable",
    "Renamed",
    "Retention",
    "RowDifference",
    "RunsResult",
    "SchemaDiff",
    "Silence",
    "SiteFile",
    "SiteResult",
    "SiteTrouble",
    "SkippedStream",
    "SourceRows",
    "StatusResult",
    "StoreStatusResult",
    "StreamComparison",
    "StreamDrop",
    "StreamGc",
    "StreamRebuild",
    "StreamStatus",
    "StreamStore",
    "StreamTrim",
    "StreamVacuum",
    "StreamVerify",
    "StreamVersions",
    "TableDiffResult",
    "TableDrop",
    "TableFailure",
    "TableFinding",
    "TableGc",
    "TableRun",
    "TableStatus",
    "Tally",
    "TapContents",
    "Traces",
    "Tracked",
    "TrimFailure",
    "TrimResult",
    "Trimmed",
    "UnactivatedVersion",
    "UnownedFile",
    "UnreadStream",
    "VacuumResult",
    "VerifyResult",
    "VerifyTablesResult",
    "Version",
    "VersionName",
    "VersionsResult",
    "WhyResult",
    "WrongRetention",
]
