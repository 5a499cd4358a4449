"""The lake as a whole: the public object."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from singerlake.adapters import DEFAULT_STORE, IN_A_DATABASE, open_marks, open_storage
from singerlake.clock import Clock, IdSource, SystemClock, random_id
from singerlake.errors import LakeError, NotALakeError, SettingError, SingerlakeError, UnknownNameError
from singerlake.format import layout
from singerlake.format.metadata import catalogue, root
from singerlake.format.state.model import Manifest
from singerlake.glance import code
from singerlake.settings import StoreSettings
from singerlake.storage.port import Storage
from singerlake.storage.probe import at_once, in_turn
from singerlake.storage.settings import AnySettings, StorageSettings, together
from singerlake.stores.atomic.decisions import Commit, Decisions, commits_of
from singerlake.stores.atomic.view import StreamView, take_view
from singerlake.stream import LakeStream
from singerlake.tables.state.arbitrated import arbitrated
from singerlake.tables.state.commit import tables as table_names
from singerlake.tables.state.commit import tables_from
from singerlake.tables.state.keys import PUBLISHED
from singerlake.upkeep.caches import CatalogueFile
from singerlake.upkeep.defaults import GRACE, KEPT, MOST_WAITING, TARGET_BYTES
from singerlake.upkeep.result import check_least, check_now
from singerlake.upkeep.root_file import RootFile, copied_root
from singerlake.work.engine import Engine, Threads
from singerlake.work.machine import processors
from singerlake.work.parallel import THREADS

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

    from singerlake.conditions import Condition
    from singerlake.tables.compare.as_of import Maker, Past
    from singerlake.tables.compare.counts import RowDifference
    from singerlake.tables.compare.diff import TableDiffResult
    from singerlake.tables.compare.planned import PlannedDifferencesResult
    from singerlake.tables.compare.taps import CompareResult
    from singerlake.tables.maintain.catalog import CatalogResult
    from singerlake.tables.maintain.check import CheckResult
    from singerlake.tables.maintain.collect import GcTablesResult
    from singerlake.tables.maintain.drop import DropTablesResult
    from singerlake.tables.maintain.listing import ListTablesResult
    from singerlake.tables.maintain.register import RegisterResult
    from singerlake.tables.maintain.status import StatusResult
    from singerlake.tables.maintain.verify import VerifyTablesResult
    from singerlake.tables.project import ProjectedTable
    from singerlake.tables.read import LakeTable
    from singerlake.tables.run.one_table import TableRunner
    from singerlake.tables.run.sql_engine import SqlEngine
    from singerlake.tables.state.model import TableState
    from singerlake.upkeep.annotate import NotesResult
    from singerlake.upkeep.doctor import DoctorResult
    from singerlake.upkeep.drop import DropResult, DropRunResult
    from singerlake.upkeep.erase.streams import EraseStreamsResult
    from singerlake.upkeep.gc.gc import BatchGcResult, GcResult
    from singerlake.upkeep.lock_files import Lock, LocksResult
    from singerlake.upkeep.migrate import MigrateResult, Migration, NewStreams
    from singerlake.upkeep.policy import PoliciesResult, PolicyResult
    from singerlake.upkeep.rebuild.rebuild_lake import RebuildResult, StreamRebuild
    from singerlake.upkeep.reports.census import ContentsResult
    from singerlake.upkeep.reports.export import ExportResult
    from singerlake.upkeep.reports.history import VersionsResult
    from singerlake.upkeep.reports.status import RunsResult
    from singerlake.upkeep.reports.stores import StoreStatusResult
    from singerlake.upkeep.result import Failure, Report
    from singerlake.upkeep.root_file import IdentityResult
    from singerlake.upkeep.trim import TrimResult
    from singerlake.upkeep.vacuum.vacuum import VacuumResult
    from singerlake.upkeep.verify import VerifyResult

logger = logging.getLogger(__name__)

Found = TypeVar("Found")


@dataclass(frozen=True, repr=False)
class Lake:
    """Taps, streams and their metadata on one storage. Cheap to make; nothing is read before it is asked for."""

    storage: Storage
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = random_id
    stores: StoreSettings = field(default_factory=StoreSettings)
    settings: StorageSettings = field(default_factory=StorageSettings)
    _root: RootFile = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_root", RootFile(self.storage, self.ids))

    def __repr__(self) -> str:
        return f"Lake({self.storage.url!r})"

    def _repr_html_(self) -> str:
        return code(repr(self))

    @classmethod
    def open(
        cls, lake_root: str, settings: StorageSettings | AnySettings | None = None, stores: StoreSettings | None = None
    ) -> Lake:
        """The lake at a path, or at a ``file://``, ``s3://``, ``gs://``, ``az://`` or ``abfss://`` root. ``settings``
        are those of its storage, or of several. ``stores`` is for writers, and for readers of databases; what is on the
        lake needs none. Raises ``SettingError``."""
        every = together(settings)
        return cls(open_storage(lake_root, every), stores=stores or StoreSettings(), settings=every)

    def exists(self) -> bool:
        """Whether anything of a lake is there: root metadata, or any folder below ``raw/``."""
        return self._root.read() is not None or bool(self.storage.list_folder(f"{layout.RAW}/").folders)

    def require(self) -> Lake:
        """This lake, if there is one. Raises ``NotALakeError``."""
        if not self.exists():
            around = self._lake_around()
            hint = "check lake_root; a lake has a folder 'raw'" if around is None else f"the lake is {around}"
            raise NotALakeError("nothing here is a lake", hint=hint, lake_root=self.storage.url)
        return self

    def _lake_around(self) -> str | None:
        """The root of the lake whose raw streams this one's root lies among; None where it does not."""
        url = (self.storage.url if "://" in self.storage.url else os.path.realpath(self.storage.url)) + "/"
        for found in re.finditer(f"/{layout.RAW}(?=/)", url):
            outer = url[: found.start()]
            with suppress(SingerlakeError):
                if open_storage(outer, self.settings).head(layout.root_metadata_key()) is not None:
                    return outer
        return None

    def root_metadata(self) -> root.RootMetadata | None:
        """What ``singerlake.json`` says, or, where it is missing, its copy; None where there is neither. Raises
        ``CorruptObjectError``, ``UnsupportedFormatError``."""
        return self._root.read() or copied_root(self.storage)

    def lake_id(self, manifest_store: str | None = None) -> str:
        """The lake's identity, by which databases know it. Where there is no root metadata it is written, with the id
        that the streams name, or a new one where none does. ``manifest_store``: what streams not yet born will get;
        None: what the others have. Raises ``LostStateError`` where the streams name several, and ``SettingError`` where
        a new lake would lie among the streams of another."""
        if self._root.seen_id() is None:
            around = self._lake_around()
            if around is not None and not self.exists():
                raise SettingError(
                    "lake_root is a folder within another lake, where its streams are",
                    hint=f"set lake_root to {around}, or to a folder outside of it",
                    lake_root=self.storage.url,
                )
        return self._root.lake_id(manifest_store, default_kind=DEFAULT_STORE)

    def known_lake_id(self) -> str | None:
        """The identity for readers: what root metadata or else the streams say; nothing is written."""
        return self._root.known_id()

    def tables(self) -> list[str]:
        """Names of the tables that runs of ``singerlake project`` made or began."""
        return table_names(self.storage)

    def tables_from(self, tap: str) -> Mapping[str, tuple[str, ...]]:
        """The names of the tables that are made from each stream of a tap. Raises what storage raises."""
        return tables_from(self.storage, tap)

    def sql(
        self, statement: str, *, as_of: str | datetime | None = None, memory: int | None = None
    ) -> DuckDBPyRelation:
        """What a statement gives, as a relation of DuckDB: ``.show()``, ``.df()``, ``.pl()``, ``.fetchall()``. It reads
        tables by their names, and raw streams as ``raw.tap.stream``, each as it is now; or ``as_of`` a moment or the
        commit of an atomic run, as ``table`` takes them: tables as they would have been made then, and the records that
        streams had then. ``memory``: how many bytes DuckDB may hold, 1 GiB by default; what does not fit is in
        ``$TMPDIR``. Needs ``pip install 'singerlake[sql]'``, and ``as_of`` of a table ``'singerlake[tables]'``.

        Raises ``SettingError`` where it is not one statement that reads, or DuckDB refuses it, ``UnknownNameError``,
        with ``as_of`` as ``table``, and what storage raises.

        Example:
            >>> made = lake.project(all=True)
            >>> lake.sql("SELECT count(*) FROM users").fetchall()
            [(3,)]
        """
        from singerlake.tables.compare.as_of import stop_at
        from singerlake.tables.query import MEMORY, query
        from singerlake.tables.read import LakeTable

        if isinstance(as_of, int):
            raise SettingError("an offset is of one stream", hint="name a moment or a commit")

        @cache
        def until(tap: str, stream: str) -> tuple[int, str | None]:
            assert as_of is not None
            manifest = self.existing_stream(tap, stream).snapshot()
            return stop_at(self.storage, manifest, as_of, self.clock.now()), manifest.lineage

        def table(name: str) -> tuple[Storage, TableState]:
            found = LakeTable.load(self.storage, name)
            if as_of is not None:
                past = self._past(found)
                found = past.made(until(past.manifest.tap, past.manifest.stream)[0])
            return found.storage, found.state

        def records(tap: str, stream: str, columns: Sequence[str] | None) -> Any:
            stop, lineage = (None, None) if as_of is None else until(tap, stream)
            return self.existing_stream(tap, stream).to_arrow(columns=columns, to_offset=stop, lineage=lineage)

        memory = memory or MEMORY
        return query(self.storage, table, records, statement, memory=memory, past=as_of is not None)

    def table(self, name: str, *, as_of: str | datetime | int | None = None) -> LakeTable:
        """A table as it is now, or ``as_of`` a moment (``2026-03-01T00:00Z``, UTC where it names no zone), the commit
        of an atomic run, or an offset of its stream, which means the messages before it: the rows as a run would have
        made them then, as the table is declared now. They are made from raw into ``$TMPDIR``, where they are as long
        as the table is held; nothing is written to the lake. Erased records are in no row, whenever they were erased.
        How a moment is found: the how-to on the past of tables. Needs ``pip install 'singerlake[arrow]'``, and
        ``as_of`` ``'singerlake[tables]'``.

        Raises ``UnknownNameError`` listing the tables that are there; with ``as_of`` ``SettingError`` for what is not a
        moment or an offset of the stream, and for a table of a statement, ``ExpiredMessagesError``,
        ``LineageChangedError``, as ``snapshot`` for a commit, and as ``project``.

        Example:
            >>> made = lake.project(all=True)
            >>> lake.table("users", as_of=1).to_arrow(columns=["name"]).read_all().to_pylist()
            [{'name': 'Ada'}]
        """
        from singerlake.tables.read import LakeTable

        table = LakeTable.load(self.storage, name, self)
        if as_of is None:
            return table
        past = self._past(table)
        return past.made(past.stop(as_of))

    def diff_table(
        self,
        name: str,
        start: str | datetime | int,
        end: str | datetime | int | None = None,
        *,
        row: Callable[[RowDifference], object] | None = None,
    ) -> TableDiffResult:
        """What became of a table's rows between two moments or offsets, as ``singerlake project diff`` says: both are
        those of ``table``, by the columns of the later one; ``end`` is now by default. ``row`` is called with each row
        that differs, in the order of the key. Where a row comes from and when it was captured is not compared. A table
        that keeps history counts as the last row of each key; of one that keeps every record each is a row. Raises
        ``SettingError`` where ``start`` is the later one, and as ``table``.

        Example:
            >>> made = lake.project(all=True)
            >>> found = lake.diff_table("users", 1, row=lambda row: print(row.what, row.key))
            inserted {'id': 2}
            >>> print(found.inserted, found.changed, found.deleted)
            1 0 0
        """
        from singerlake.tables.compare.diff import diff_table

        return diff_table(self.storage.url, self._past(self.table(name)), start, end, row)

    def compare(
        self,
        first: str,
        second: str,
        stream: str | None = None,
        *,
        key: Sequence[str] = (),
    ) -> CompareResult:
        """What differs between two captures of one source, as ``singerlake compare`` says: of the streams that the taps
        ``first`` and ``second`` have, or those that ``stream`` or a pattern such as ``log_*`` means, the schemas in
        force and the last row of each key, by the columns of both. ``key`` are the key properties; by default those of
        each stream. Nothing is written to the lake: the rows are in ``$TMPDIR`` meanwhile.

        A stream that cannot be compared, as one without a key, stops no other: it is in ``failed``. Raises
        ``UnknownNameError``, and what storage raises for the lake as a whole.

        Example:
            >>> lake.compare("my-tap", "my-tap", key=["id"]).same
            True
        """
        from singerlake.tables.compare.taps import compare_taps

        streams = self.existing_streams(first), self.existing_streams(second)
        every = list(dict.fromkeys((*streams[0], *streams[1])))
        meant = every if stream is None else matching(stream, every)
        if stream is not None and not meant:
            what = f"taps {first!r} and {second!r} have no stream {stream!r}"
            raise UnknownNameError(what, hint=_known(every, stream), lake_root=self.storage.url)
        named = [name for name in streams[0] if name in meant], [name for name in streams[1] if name in meant]
        return compare_taps(self.storage.url, self.table_maker(), (first, second), named, key)

    def _past(self, table: LakeTable) -> Past:
        from singerlake.tables.compare.as_of import Past

        return Past.of(self.table_maker(), table.state)

    def table_maker(self) -> Maker:
        """What makes tables beside the lake, in ``$TMPDIR``."""
        from singerlake.tables.compare.as_of import Maker

        return Maker(self.table_runner(), open_storage)

    def project(
        self,
        file: str | Path | None = None,
        *,
        all: bool = False,
        tables: Sequence[str] = (),
        full_refresh: bool = False,
        dry_run: bool = False,
        engine: Engine | None = None,
        raise_errors: bool = True,
        progress: Report | None = None,
    ) -> list[ProjectedTable]:
        """Bring tables up to their streams, as ``singerlake project run`` does; with ``dry_run`` only plan to, as
        ``singerlake project plan`` does. Each table is published in one write; one that fails stays as it was and stops
        no other. Needs ``pip install 'singerlake[tables]'``.

        ``file`` is a ``projections.yml`` for this lake: its ``lake_root`` is not looked at. ``all`` makes a table of
        every stream without a file. ``tables`` names those that are meant, all by default. ``engine`` is what does the
        work: threads of this process, or a Spark session by ``singerlake.spark.spark_engine(spark, lake)``.
        ``progress`` is called for each larger table.

        Gives the tables in the order of their declarations. Where some failed it raises, after all others were made,
        the error of the first one, with notes on the others; ``raise_errors=False`` gives each table its ``error``
        instead. Raises ``SettingError`` where ``file`` is wrong, ``UnknownNameError`` where it declares no table of
        ``tables``, and what storage raises; of a table ``CheckFailedError`` and any other ``LakeError``,
        ``ConfigurationError`` or ``RetryableError``.

        Example:
            >>> for table in lake.project(all=True):
            ...     print(f"{table.name}: {table.status}, {table.rows} rows, {table.inserted} new")
            users: made, 2 rows, 2 new
            >>> lake.table("users").to_arrow(columns=["name"]).read_all().to_pylist()
            [{'name': 'Ada'}, {'name': 'Grace'}]
        """
        from singerlake.tables.project import declared_tables, project, raise_failed
        from singerlake.tables.run.sql_engine import KnowsSql

        declared = declared_tables(file, every=all)
        streams = {tap: self.streams(tap) for tap in self.require().taps()}
        sql = engine.sql if isinstance(engine, KnowsSql) else None
        chosen = None if engine is None else lambda _: engine
        runner = self.table_runner(chosen, sql, storage=None if dry_run else self.tables_storage())
        projected = project(
            runner,
            declared,
            streams,
            tables,
            full_refresh=full_refresh,
            dry_run=dry_run,
            together=engine is None,
            progress=progress,
        )
        if raise_errors:
            raise_failed(projected)
        return projected

    def diff_planned(
        self,
        file: str | Path | None = None,
        *,
        all: bool = False,
        tables: Sequence[str] = (),
        full_refresh: bool = False,
        row: Callable[[str, RowDifference], object] | None = None,
    ) -> PlannedDifferencesResult:
        """What ``project`` with these arguments would make of the rows that tables have, as ``singerlake project plan
        --diff`` says it: the columns that would come, go and change, and the rows of the same messages, compared as
        ``diff_table`` does. ``row`` is called with the name of the table and each row that differs. New messages do not
        count, and nothing is written to the lake.

        A table that cannot be compared, as that of a statement, stops no other: it is in ``failed``. Raises as
        ``project`` for ``file`` and ``tables``.

        Example:
            >>> made = lake.project(all=True)
            >>> for one in lake.diff_planned(all=True).tables:
            ...     print(one.table, one.fate, one.changed)
            users kept 0
        """
        from singerlake.tables.compare.planned import planned_differences
        from singerlake.tables.project import declared_tables, planned_tables

        streams = {tap: self.streams(tap) for tap in self.require().taps()}
        declared = declared_tables(file, every=all)
        planned = planned_tables(self.table_runner(), declared, streams, tables, full_refresh=full_refresh)
        return planned_differences(self.storage.url, self.table_maker(), planned, row)

    def list_tables(
        self, file: str | Path | None = None, *, all: bool = False, tables: Sequence[str] = ()
    ) -> ListTablesResult:
        """How tables stand, as ``singerlake project ls`` lists them: their rows, files and bytes, how far they are
        behind their streams, and their last run. These are the tables that are there, and before them those that
        ``file`` declares, or ``all`` makes of every stream; or of these the ``tables`` that it names.

        A table that cannot be read, or that means no stream, has its ``trouble``. Raises ``SettingError`` where
        ``file`` is wrong, ``UnknownNameError``, and what storage raises.

        Example:
            >>> made = lake.project(all=True)
            >>> for one in lake.list_tables().tables:
            ...     print(one.table, one.rows, "rows,", one.behind, "messages behind")
            users 2 rows, 0 messages behind
        """
        from singerlake.tables.maintain.listing import list_tables
        from singerlake.tables.project import declared_tables

        return list_tables(self, declared_tables(file, every=all) if all or file is not None else (), tables)

    def verify_tables(
        self,
        tables: Sequence[str] = (),
        *,
        deep: bool = False,
        engine: Engine | None = None,
        engine_for: Callable[[int], Engine] | None = None,
        progress: Report | None = None,
    ) -> VerifyTablesResult:
        """Read the files of tables whole and compare them with what the table says, as ``singerlake project verify``
        does; with ``deep`` make each table once more from raw, beside, and compare the rows one by one. It means the
        ``tables`` that it names, all by default, and publishes nothing.

        ``engine`` does the work, or ``engine_for`` gives what does it for about so many bytes; None: threads of this
        process. What is wrong is a finding. A table that cannot be checked stops no other: it is in ``failed``. Raises
        ``UnknownNameError``, and what storage raises.

        Example:
            >>> made = lake.project(all=True)
            >>> result = lake.verify_tables(deep=True)
            >>> print(result.sound, [(each.table, each.rows) for each in result.tables], result.findings)
            True [('users', 2)] ()
        """
        from singerlake.tables.maintain.verify import verify_tables

        own = engine or Threads(self.storage)
        chosen = engine_for or (lambda _: own)
        names = self._named_tables(tables)
        return verify_tables(self.storage, names, deep=deep, engine=chosen, runner=self.table_runner, progress=progress)

    def gc_tables(
        self, tables: Sequence[str] = (), *, grace: timedelta = GRACE, dry_run: bool = False
    ) -> GcTablesResult:
        """Delete files that tables replaced or never listed, as ``singerlake project gc --delete`` does; with
        ``dry_run`` only name them. It means the ``tables`` that it names, all by default. ``grace`` is how long a file
        stays, 7 days by default; it must be longer than any read and any run of a table.

        A table that cannot be collected stops no other: it is in ``failed``. Raises ``UnknownNameError``,
        ``SettingError``, and what storage raises for the lake as a whole.

        Example:
            >>> made = lake.project(all=True)
            >>> [(one.table, len(one.keys)) for one in lake.gc_tables().tables]
            [('users', 0)]
        """
        from singerlake.tables.maintain.collect import collect_tables

        check_least("grace time", grace)
        names, storage = self._named_tables(tables), self.storage if dry_run else self.tables_storage()
        return collect_tables(storage, names, grace=grace, dry_run=dry_run, clock=self.clock, ids=self.ids)

    def drop_tables(self, tables: Sequence[str], *, dry_run: bool = False) -> DropTablesResult:
        """Delete tables, as ``singerlake project drop --delete`` does; with ``dry_run`` only say what would go. The
        streams that they were made from stay, and so a table can be made again. A table that cannot be dropped stops no
        other: it is in ``failed``. Raises ``SettingError`` where no table is named, ``UnknownNameError``, and what
        storage raises for the lake as a whole.

        Example:
            >>> made = lake.project(all=True)
            >>> [(one.table, one.rows) for one in lake.drop_tables(["users"]).tables]
            [('users', 2)]
        """
        from singerlake.tables.maintain.drop import drop_tables

        if not tables:
            raise SettingError("no table is named", hint="name each table that is to go")
        names, storage = self._named_tables(tables), self.storage if dry_run else self.tables_storage()
        return drop_tables(storage, names, dry_run=dry_run)

    def catalog(self, tables: Sequence[str] = ()) -> CatalogResult:
        """What describes tables to engines of Delta and Iceberg, as ``singerlake catalog ls`` lists it: where it is,
        and whether it shows the table as it is. It means the ``tables`` that it names, all by default. A table that
        cannot be read is in ``failed``. Raises ``UnknownNameError``, and what storage raises for the lake as a whole.

        Example:
            >>> made = lake.project(all=True)
            >>> lake.catalog().entries
            ()
        """
        from singerlake.tables.maintain.catalog import list_catalog

        return list_catalog(self.storage, self._named_tables(tables))

    def sync_catalog(self, tables: Sequence[str] = ()) -> CatalogResult:
        """Bring the Delta log and the Iceberg metadata of tables to them without a run, as ``singerlake catalog sync``
        does: after a lake was copied or moved, since Iceberg names files by their whole URL, or where a run died before
        it. No file of a table is read or written. It means the ``tables`` that it names, all by default. A table that
        could not be described is in ``failed``. Raises as ``catalog``.

        Example:
            >>> made = lake.project(all=True)
            >>> lake.sync_catalog().failed
            ()
        """
        from singerlake.tables.maintain.catalog import sync_catalog

        return sync_catalog(self.tables_storage(), self._named_tables(tables), self.clock)

    def register_tables(self, to: str, tables: Sequence[str] = (), *, namespace: str = PUBLISHED) -> RegisterResult:
        """Have an Iceberg catalog lead to the newest metadata of tables, as ``singerlake catalog register`` does.
        ``to`` is the name of a catalog in pyiceberg's configuration, or its URI. It means the ``tables`` that it names,
        by default all that have Iceberg metadata. Nothing in the lake is written or deleted. A table whose name another
        table has there is in ``failed``.

        Raises ``SettingError``, ``AccessDeniedError`` and ``StorageUnavailableError`` where the catalog cannot be
        asked: tables before that are registered. Raises as ``catalog``.

        Example:
            >>> made = lake.project(all=True)
            >>> lake.register_tables("sqlite://", namespace="raw").tables
            ()
        """
        from singerlake.tables.maintain.register import register_tables

        return register_tables(self.storage, self._named_tables(tables), to, namespace, named=bool(tables))

    def _named_tables(self, tables: Sequence[str]) -> list[str]:
        from singerlake.tables.declaration.streams import hint_for

        if isinstance(tables, str):
            raise SettingError("tables is one text", hint=f"give a list of names, as [{tables!r}]")
        there = self.tables()
        for name in tables:
            if name not in there:
                raise UnknownNameError(
                    f"no table {name!r} in this lake", hint=hint_for(name, there), lake_root=self.storage.url
                )
        return list(dict.fromkeys(tables)) or there

    def tables_storage(self) -> Storage:
        """The storage as writers of tables use it. Where it honours no conditions and new streams are in a database,
        that says which of two writers came first. Raises ``ConditionsUnprovenError``, ``SettingError``."""
        metadata = self.root_metadata()
        kind = None if metadata is None else metadata.manifest_store
        if kind not in IN_A_DATABASE or self.storage.capabilities().conditional_put:
            return self.storage
        marks = open_marks(kind, settings=self.stores, s3=self.settings.s3, lake_id=self.lake_id(), clock=self.clock)
        return arbitrated(self.storage, marks, self.ids)

    def table_runner(
        self,
        engine: Callable[[int], Engine] | None = None,
        sql: Callable[[], SqlEngine] | None = None,
        *,
        storage: Storage | None = None,
    ) -> TableRunner:
        """What brings tables up to their streams. ``engine`` gives what runs tasks on about so many bytes; None:
        threads of this process. ``sql`` gives what runs the statements of tables; None: nothing does. ``storage`` is
        that of ``tables_storage`` where tables are to be written, and not only planned."""
        from singerlake.tables.run.one_table import TableRunner
        from singerlake.tables.run.sql_engine import without_spark

        return TableRunner(
            storage or self.storage,
            self.lake_id,
            # Only a stream without a state is looked for in the tap's listing, which grows with every stream.
            lambda tap, stream: self.stream(tap, stream).state() or self.existing_stream(tap, stream).snapshot(),
            engine or (lambda _: Threads(self.storage, processors())),
            self.clock,
            self.ids,
            sql or without_spark,
        )

    def is_unborn(self) -> bool:
        """Whether nothing of any stream is there yet. A stream without a state may have one in a database."""
        return not any(self.streams(tap) for tap in self.taps())

    def taps(self) -> list[str]:
        """Tap ids by one delimiter listing, so that no lost update of a cache can hide one."""
        return self._names(f"{layout.RAW}/")

    def streams(self, tap: str) -> list[str]:
        """Stream names of a tap, likewise."""
        return self._names(layout.tap_prefix(tap))

    def stream(self, tap: str, name: str) -> LakeStream:
        """One stream, whether or not it has data. Raises ``NameTooLongError``, ``SettingError``."""
        return LakeStream(self, tap, name)

    def existing_streams(self, tap: str) -> list[str]:
        """Stream names of a tap that is there. Raises ``UnknownNameError``, which lists the taps."""
        known_taps = self.taps()
        if tap not in known_taps:
            raise self._no_tap(tap, known_taps)
        return self.streams(tap)

    def _no_tap(self, tap: str, known: Sequence[str]) -> UnknownNameError:
        of = [each for each in known if matching(tap, self.streams(each))]
        hint = f"it is a stream of {_listed(of)}" if of else _known(known, tap)
        return UnknownNameError(f"no tap {tap!r} in this lake", hint=hint, lake_root=self.storage.url)

    def existing_stream(self, tap: str, name: str) -> LakeStream:
        """One stream that is there. Raises ``UnknownNameError``, which lists those that are."""
        return self._known_stream(tap, name, self.existing_streams(tap))

    def _known_stream(self, tap: str, name: str, known: list[str]) -> LakeStream:
        if name not in known:
            raise UnknownNameError(
                f"tap {tap!r} has no stream {name!r}", hint=_known(known, name), lake_root=self.storage.url
            )
        return LakeStream(self, tap, name)

    def snapshot(
        self, tap: str, streams: Sequence[str] | None = None, *, as_of: str | None = None
    ) -> dict[str, StreamView]:
        """One view of ``streams`` of a tap, by name in that order; None: of all, in the order of names. Of each atomic
        run the view has everything or nothing. ``as_of`` is the name of a commit: the streams as they were after it.

        Raises ``UnknownNameError`` for a tap, a stream or a commit that is not there, ``SettingError`` where
        ``streams`` is one text, ``LineageChangedError`` where a stream was rebuilt or dropped since ``as_of``,
        ``RetryableError`` where not every stream shows that commit yet, and as ``LakeStream.snapshot``.

        Example:
            >>> for name, view in lake.snapshot("my-tap").items():
            ...     print(name, lake.stream("my-tap", name).to_arrow(to_offset=view.end).read_all().num_rows)
            photos 1
            users 2
        """
        if isinstance(streams, str):
            raise SettingError("streams is one text", hint=f"give a list of names, as [{streams!r}]")
        known = self.existing_streams(tap)
        wanted = known if streams is None else streams
        loads = {name: self._known_stream(tap, name, known).snapshot for name in wanted}
        return take_view(self.storage, tap, loads, as_of, means=lambda _: streams is None)

    def commits(self, tap: str, *, aborted: bool = False) -> list[Commit]:
        """The commits of a tap's atomic runs that took place, oldest first; with ``aborted`` also those that were
        decided against. Raises ``UnknownNameError`` for a tap that is not there, ``CorruptObjectError`` and
        ``UnsupportedFormatError``."""
        self.existing_streams(tap)
        return commits_of(Decisions(self.storage, tap), aborted=aborted)

    def catalogue(self, tap: str) -> dict[str, Any]:
        """The tap's Singer Catalog: ``catalogue.json`` joined with a listing, so that a stream whose entry was lost to
        a race is read from its manifest, and one whose folder is gone is left out, as are streams without a version. An
        entry is of the stream's newest version (``selection.newest_version``), and may be behind during a run. A
        catalogue that cannot be read counts as none."""
        entry_of = self._entry_of(tap)
        return {"streams": [entry for name in self.streams(tap) if (entry := entry_of(name)) is not None]}

    def _entry_of(self, tap: str) -> Callable[[str], dict[str, Any] | None]:
        cached = CatalogueFile(self.storage, tap).entries()
        return lambda name: cached.get(name) or catalogue.entry(self.stream(tap, name).snapshot())

    def catalogue_or_state(self, tap: str) -> tuple[list[dict[str, Any]], Manifest | None]:
        """The streams of ``catalogue``, for a reader that reads the state of each that it wants: where the tap has one
        stream alone its state gives the entry, and is given with it, which saves asking for ``catalogue.json``. A
        stream that is not in the catalogue and whose state cannot be read has an ``unknown_entry``: whether it is
        wanted is not known here. Raises what storage raises."""
        names = self.streams(tap)
        if len(names) == 1:
            with suppress(LakeError):
                state = self.stream(tap, names[0]).state()
                entry = catalogue.entry(state) if state is not None else None
                if entry is not None:
                    return [entry], state
        entry_of = self._entry_of(tap)

        def entry_or_unknown(name: str) -> dict[str, Any] | None:
            try:
                return entry_of(name)
            except LakeError:
                return catalogue.unknown_entry(name)

        return [entry for name in names if (entry := entry_or_unknown(name)) is not None], None

    def catalogued(self, tap: str) -> frozenset[str]:
        """Streams that the tap's catalogue knows and whose folder is there, in two requests: each has a version."""
        return frozenset(CatalogueFile(self.storage, tap).entries()).intersection(self.streams(tap))

    def announce(self, *manifests: Manifest) -> None:
        """Bring ``catalogue.json`` and ``singerlake.json`` up to what streams' manifests say, those of one tap in one
        write, side by side where storage is far. Both are caches of what the streams hold: a lost race leaves them
        behind, never wrong, and is not an error."""
        for tap in dict.fromkeys(manifest.tap for manifest in manifests):
            own = [manifest for manifest in manifests if manifest.tap == tap]
            together = in_turn if self.storage.near else at_once
            tell_catalogue = partial(self._tell_catalogue, own, likely_absent=self._root.was_read_without(tap))
            together([tell_catalogue, partial(self._tell_root, own[-1])])

    def _tell_catalogue(self, manifests: Sequence[Manifest], *, likely_absent: bool) -> None:
        fresh = [entry for entry in map(catalogue.entry, manifests) if entry is not None]
        if fresh:
            CatalogueFile(self.storage, manifests[0].tap).update(fresh, likely_absent=likely_absent)

    def _tell_root(self, manifest: Manifest) -> None:
        self.lake_id(manifest.store)
        self._root.add_tap(manifest.tap)

    def chosen_taps(self, tap: str | None = None) -> list[str]:
        """The taps that a name or a pattern such as ``pg_*`` means, all for None. A name that is there means no other.
        Raises ``UnknownNameError``, which lists what is there."""
        known = self.taps()
        if tap is None:
            return known
        meant = matching(tap, known)
        if not meant:
            raise self._no_tap(tap, known)
        return meant

    def chosen(self, tap: str | None = None, stream: str | None = None) -> list[tuple[str, str]]:
        """The ``(tap, stream)`` pairs that names or patterns such as ``log_*`` mean: of the taps that ``tap`` means,
        the streams that ``stream`` does, all for None. Raises ``UnknownNameError``, which lists what is there."""
        taps = {name: self.streams(name) for name in self.chosen_taps(tap)}
        every = [(name, each) for name, streams in taps.items() for each in streams]
        if stream is None:
            return every
        meant = set(matching(stream, [each for _, each in every]))
        if not meant:
            where = f"tap {tap!r}" if tap is not None else "this lake"
            known = sorted({each for _, each in every})
            hint = _known(known, stream)
            raise UnknownNameError(f"{where} has no stream {stream!r}", hint=hint, lake_root=self.storage.url)
        return [pair for pair in every if pair[1] in meant]

    def one_tap(self, tap: str | None = None) -> str:
        """The one tap that a name or a pattern means, or that is there. Raises ``SettingError`` where there are
        several, which lists them, and as ``chosen_taps``."""
        return _one("tap", self.chosen_taps(tap), str, self.storage.url)

    def one_stream(self, tap: str | None = None, stream: str | None = None) -> LakeStream:
        """The one stream that the names or patterns mean, or that is there. Raises ``SettingError`` where there are
        several, which lists them, and as ``chosen``."""
        return self.stream(*_one("stream", self.chosen(tap, stream), "/".join, self.storage.url))

    def contents(self, tap: str | None = None, stream: str | None = None) -> ContentsResult:
        """What one stream, all of a tap, or all hold: versions, files, records, bytes and the last write, as
        ``singerlake ls`` lists them. Reads the manifests and no data file. A stream whose manifest is missing or cannot
        be read has its ``trouble``. Raises ``UnknownNameError``, and what storage raises.

        Example:
            >>> for stream in lake.contents().streams:
            ...     print(stream.tap, stream.stream, list(stream.versions.values()), stream.records, "records")
            my-tap users ['v1', 'v2'] 3 records
        """
        from singerlake.upkeep.reports.census import contents_of

        return contents_of(self, tap, stream)

    def versions(self, tap: str | None = None, stream: str | None = None) -> VersionsResult:
        """The schema versions of one stream, of all of a tap, or of all: since when, from which offset on, and how much
        each has, as ``singerlake versions`` lists them. Reads the manifests and no data file. A stream whose manifest
        cannot be read is among the ``findings``. Raises ``UnknownNameError``, ``SettingError``, and what storage
        raises.

        Example:
            >>> for stream in lake.versions("my-tap").streams:
            ...     print(stream.stream, [(each.label, each.first_offset) for each in stream.versions])
            users [('v1', 0), ('v2', 2)]
        """
        from singerlake.upkeep.reports.history import versions_in

        return versions_in(self, tap, stream)

    def status(self, tap: str | None = None, stream: str | None = None, *, runs: int = 3) -> StatusResult:
        """The last runs of one stream, of all of a tap, or of all, what they did and how they ended; and how the tables
        stand that are made from them: as ``singerlake status`` lists them. ``runs`` is how many captures of each
        stream, how many other runs, and how many runs of each table.

        A stream or a table whose state is missing or cannot be read has its ``trouble``. Raises ``UnknownNameError``,
        ``SettingError``, and what storage raises.

        Example:
            >>> for stream in lake.status("my-tap").streams:
            ...     print(stream.stream, stream.store, [(run.kind, run.outcome) for run in stream.runs])
            users lockfile []
        """
        from singerlake.tables.maintain.status import status_of

        check_least("runs", runs)
        return status_of(self, tap, stream, runs=runs)

    def runs(self, tap: str | None = None, stream: str | None = None, *, last: int = 20) -> RunsResult:
        """The ``last`` runs over the streams that are meant, the newest first, as ``singerlake status --by-run`` lists
        them: as far as the states of the streams remember. A state that cannot be read is a finding. Raises
        ``UnknownNameError``, ``SettingError``, and what storage raises.

        Example:
            >>> [(run.writer, run.outcome, run.streams) for run in lake.runs("my-tap").runs]
            []
        """
        from singerlake.upkeep.reports.status import runs_in

        check_least("last", last)
        return runs_in(self, tap, stream, last)

    def check(
        self,
        tap: str | None = None,
        stream: str | None = None,
        *,
        max_age: timedelta | None = None,
        max_behind: int | None = None,
    ) -> CheckResult:
        """What is wrong with the streams that are meant, and with the tables that are made from them, for a monitor, as
        ``singerlake check`` says it. ``max_age``: how old the last write to a stream may be; ``max_behind``: how
        many messages of its stream a table may lack; None: any. Raises ``UnknownNameError``, ``SettingError``, and what
        storage raises.

        Example:
            >>> lake.check("my-tap").level
            'ok'
        """
        from singerlake.tables.maintain.check import checked

        if max_age is not None:
            check_least("max_age", max_age)
        if max_behind is not None:
            check_least("max_behind", max_behind)
        return checked(self.status(tap, stream, runs=1), self.clock.now(), max_age=max_age, max_behind=max_behind)

    def doctor(self) -> DoctorResult:
        """What this machine and the lake's storage give, tried out, as ``singerlake doctor`` says it: what may be read,
        written and deleted, which conditions storage honours, how far clocks are apart. It writes a few small objects
        below ``_singerlake_probe/``, and removes them. What fails is in the result; nothing of it is raised. The lake
        need not be there yet.

        Example:
            >>> lake.doctor().level
            'ok'
        """
        from singerlake.upkeep.doctor import examine

        return examine(self)

    def gc(
        self,
        tap: str | None = None,
        stream: str | None = None,
        *,
        grace: timedelta = GRACE,
        orphans: bool = False,
        keep: int = KEPT,
        dry_run: bool = False,
        threads: int = THREADS,
        progress: Report | None = None,
    ) -> GcResult:
        """Delete what no reader can need any more, as ``singerlake gc --delete`` does; with ``dry_run`` only say what
        would be deleted. It means one stream, all of a tap, or all.

        A file needs at least two runs, a ``grace`` time apart: the first notes that it was replaced, a later one
        deletes it. ``grace`` is 7 days by default; it must be longer than any read and any pause of a writer. What the
        policy of a stream says expires first. ``orphans``: retire files that nothing lists, too. ``keep`` is how many
        transactions of a stream stay, 200 by default. ``threads`` is how many files are read at once.

        A stream that cannot be collected stops no other: it is in ``failed``, or among the ``findings`` where its state
        cannot be read. Raises ``UnknownNameError``, ``SettingError``, and what storage raises for the lake as a whole.

        Example:
            >>> joined = lake.vacuum("my-tap")
            >>> for one in lake.gc("my-tap").streams:
            ...     print(one.stream, one.deleted.files, "deleted;", one.waiting.files, "wait until", one.until.date())
            users 0 deleted; 2 wait until 2026-01-08
        """
        from singerlake.upkeep.gc.gc import GcOptions, collect_lake

        check_least("grace time", grace)
        check_least("keep", keep)
        check_least("threads", threads, 1)
        return collect_lake(self, tap, stream, GcOptions(grace, orphans, keep, dry_run, threads), progress)

    def vacuum(
        self,
        tap: str | None = None,
        stream: str | None = None,
        *,
        target_bytes: int = TARGET_BYTES,
        most_waiting: int = MOST_WAITING,
        dry_run: bool = False,
        threads: int = THREADS,
        progress: Report | None = None,
    ) -> VacuumResult:
        """Join small neighbouring files into larger ones, as ``singerlake vacuum --yes`` does; with ``dry_run`` only
        plan to. It means one stream, all of a tap, or all. Messages keep their offsets. The replaced files stay until
        ``gc``.

        ``target_bytes`` are the most stored bytes of a joined file, 128 MiB by default; files of half that size are
        left alone. ``most_waiting`` is how many replaced files of a stream may wait for ``gc``, 250,000 by default;
        others are joined by a later run. ``threads`` is how many files are made at once.

        A stream whose state cannot be read is among the ``findings`` and stops no other. Raises ``UnknownNameError``,
        ``SettingError``, ``TooManyConflictsError``, ``UnknownOutcomeError`` and what storage raises; what was joined
        until then stays.

        Example:
            >>> for one in lake.vacuum("my-tap").streams:
            ...     print(one.stream, one.joined.files, "files joined into", one.into.files)
            users 2 files joined into 1
        """
        from singerlake.upkeep.vacuum.vacuum import vacuum_lake, vacuum_stream

        check_least("target_bytes", target_bytes, 1)
        check_least("most_waiting", most_waiting)
        check_least("threads", threads, 1)
        work = partial(vacuum_stream, target_bytes=target_bytes, most_waiting=most_waiting, threads=threads)
        return vacuum_lake(self, tap, stream, work, dry_run=dry_run, progress=progress)

    def verify(
        self,
        tap: str | None = None,
        stream: str | None = None,
        *,
        sample: str | None = None,
        seed: str | None = None,
        journal: Path | None = None,
        erased: str | Condition | None = None,
        undeclared: bool = False,
        ignore: Collection[str] = (),
        engine: Engine | None = None,
        progress: Report | None = None,
    ) -> VerifyResult:
        """Read every listed file whole and compare bytes, checksum, counts and schema with the metadata, as
        ``singerlake verify`` does. It means one stream, all of a tap, or all, and changes nothing.

        ``sample`` reads only a share of each stream's files (``"10%"``) or so many (``"500"``), drawn by ``seed``; of
        the others presence and size are checked. ``journal`` is a file of this machine that notes what was read: files
        that it says are sound, and that have not changed, are not read again. ``erased`` is a condition as
        ``LakeStream.erase`` takes it: records that it means are findings, in whatever object of a stream they are, and
        so is a table that was made before its stream was erased from. ``undeclared`` is that of ``erase``. ``ignore``
        leaves findings of these kinds out. ``engine`` reads the files; None: threads of this process.

        What is wrong is a finding. Raises ``UnknownNameError``, ``SettingError``, and what storage raises.

        Example:
            >>> result = lake.verify("my-tap")
            >>> print(result.sound, result.files, result.messages, result.findings)
            True 3 3 ()
        """
        from singerlake.conditions import parse_where
        from singerlake.tables.maintain.erased import tables_of_before
        from singerlake.upkeep.verify import parse_sample, verify_lake

        if seed is not None and sample is None:
            raise SettingError("seed is given without sample", hint="give both")
        if undeclared and erased is None:
            raise SettingError("undeclared is given without erased", hint="give both")
        return verify_lake(
            self,
            tap,
            stream,
            sample=None if sample is None else parse_sample(sample, self.ids() if seed is None else seed),
            journal=journal,
            erased=parse_where(erased, "erased") if isinstance(erased, str) else erased,
            undeclared=undeclared,
            ignore=ignore,
            engine=engine,
            progress=progress,
            beside=partial(tables_of_before, self),
        )

    def rebuild(
        self,
        tap: str | None = None,
        stream: str | None = None,
        *,
        adopt: bool = False,
        discard_manifest: bool = False,
        journal: Path | None = None,
        dry_run: bool = False,
        file_ids: bool = True,
        engine: Engine | None = None,
        progress: Report | None = None,
        planned: Callable[[StreamRebuild], object] = lambda _: None,
    ) -> RebuildResult:
        """Make manifests, catalogues and root metadata again from the data files, as ``singerlake rebuild --yes`` does;
        with ``dry_run`` only say what would change. It means one stream, all of a tap, or all.

        A missing manifest is made from the data files alone. A readable one keeps its offsets, and wrong entries are
        corrected; with ``adopt`` sound files that it does not list are added after the others. One that cannot be read
        is left alone, unless ``discard_manifest`` makes it again: its offsets begin a new lineage then. ``journal`` is
        that of ``verify``. ``file_ids`` names the files that change, which takes memory for each of them. ``planned``
        is called with each plan before it is carried out.

        A stream whose state cannot be read is among the ``findings`` and stops no other. Raises ``UnknownNameError``,
        ``SettingError``, ``TooManyConflictsError``, ``UnknownOutcomeError``, and what storage raises.

        Example:
            >>> for one in lake.rebuild("my-tap", dry_run=True).streams:
            ...     print(one.stream, one.changed, one.files)
            users False 3
        """
        from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, rebuild_lake

        return rebuild_lake(
            self,
            tap,
            stream,
            asked=RepairOptions(discard=discard_manifest, adopt=adopt, dry_run=dry_run),
            journal=journal,
            file_ids=file_ids,
            engine=engine,
            progress=progress,
            planned=planned,
        )

    def trim(
        self, tap: str | None = None, stream: str | None = None, *, keep: int = KEPT, dry_run: bool = False
    ) -> TrimResult:
        """Remove the transactions that a snapshot covers, as ``singerlake store trim --yes`` does; with ``dry_run``
        only count them. It means one stream, all of a tap, or all. The last ``keep`` of a stream stay, 200 by default.

        A stream that cannot be trimmed stops no other: it is in ``failed``. Raises ``UnknownNameError``,
        ``SettingError``, and what storage raises for the lake as a whole."""
        from singerlake.upkeep.trim import trim_lake

        check_least("keep", keep)
        return trim_lake(self, tap, stream, keep=keep, dry_run=dry_run)

    def migrate(
        self,
        to: str,
        tap: str | None = None,
        stream: str | None = None,
        *,
        dry_run: bool = False,
        moved: Callable[[Migration | Failure | NewStreams], object] = lambda _: None,
    ) -> MigrateResult:
        """Move streams to another manifest store, as ``singerlake store migrate --yes`` does; with ``dry_run`` only say
        what would be moved. ``to`` is the kind of the store. Offsets, lineage, runs and transaction numbers stay;
        writers that run meanwhile change to the new store. Without names the whole lake is moved, and later streams
        begin in the new store. Call it again if it stopped half-way. ``moved`` is called with what was done to each
        stream, and when new streams get the store.

        A stream that cannot be moved stops no other: it is in ``failed``. Raises ``ConfigurationError``, which all
        streams would meet, and what storage raises for the lake as a whole.

        Example:
            >>> for one in lake.migrate("log", dry_run=True).streams:
            ...     print(one.stream, one.source, "->", one.target, one.messages)
            users lockfile -> log 3
        """
        from singerlake.upkeep.migrate import migrate_lake

        return migrate_lake(self, to, tap, stream, dry_run=dry_run, moved=moved)

    def drop(
        self,
        tap: str,
        stream: str | None = None,
        *,
        now: bool = False,
        dry_run: bool = False,
        progress: Report | None = None,
    ) -> DropResult:
        """Drop a tap with all of its streams, or one stream, as ``singerlake drop --delete`` does; with ``dry_run``
        only say what would be dropped. From then on no reader finds the streams. Their files stay until ``gc`` has run
        twice, a grace time apart; with ``now`` they go at once, and readers that still read them fail. Tables that were
        made from the streams stay. ``progress`` counts no bytes.

        A stream that cannot be dropped stops no other: it is in ``failed``. Raises ``UnknownNameError``,
        ``SettingError`` for ``now`` with ``dry_run``, and what storage raises.

        Example:
            >>> for one in lake.drop("my-tap", "users", dry_run=True).streams:
            ...     print(one.stream, one.files.files, "files,", one.records, "records")
            users 3 files, 3 records
        """
        from singerlake.upkeep.drop import drop_streams

        check_now(now, dry_run)
        return drop_streams(self, tap, stream, now=now, dry_run=dry_run, progress=progress)

    def erase(
        self,
        where: str | Condition,
        tap: str | None = None,
        stream: str | None = None,
        *,
        now: bool = False,
        dry_run: bool = False,
        undeclared: bool = False,
        engine: Engine | None = None,
        progress: Report | None = None,
        erased: Callable[[EraseStreamsResult], object] = lambda _: None,
    ) -> EraseStreamsResult:
        """Erase the records that a condition means from one stream, all of a tap, or all, as ``singerlake erase
        --delete`` does; with ``dry_run`` only say where they are. Streams that declare no such property are skipped.
        The arguments are those of ``LakeStream.erase``; ``erased`` is called after each stream with what was done so
        far.

        A stream that cannot be worked on stops no other: it is in ``failed``. Raises ``SettingError`` for a condition
        that is not valid, and for ``now`` with ``dry_run``, ``UnknownNameError`` where no stream has the property, what
        ``LakeStream.erase`` raises where one stream is meant, and what storage raises for the lake as a whole.

        Example:
            >>> found = lake.erase("name = 'Ada'", dry_run=True)
            >>> print([(one.stream, one.records) for one in found.streams], [one.stream for one in found.skipped])
            [('users', 1)] []
        """
        from singerlake.conditions import parse_where
        from singerlake.upkeep.erase.streams import erase_streams

        check_now(now, dry_run)
        return erase_streams(
            self,
            parse_where(where) if isinstance(where, str) else where,
            tap,
            stream,
            now=now,
            dry_run=dry_run,
            undeclared=undeclared,
            engine=engine,
            progress=progress,
            erased=erased,
        )

    def drop_run(
        self,
        tap: str,
        run: str,
        stream: str | None = None,
        *,
        now: bool = False,
        dry_run: bool = False,
        progress: Report | None = None,
    ) -> DropRunResult:
        """Drop the messages that one run of a target brought, from all streams of a tap or from one, as ``singerlake
        drop --run`` does; with ``dry_run`` only say where they are. ``run`` is the id that ``status`` shows. All other
        messages keep their offsets. ``now`` is that of ``LakeStream.erase``.

        A stream of which they cannot be dropped stops no other: it is in ``failed``. Raises ``UnknownNameError`` for a
        tap or a stream that is not there, and where no stream holds a message of the run, ``SettingError`` for ``now``
        with ``dry_run``, and what storage raises."""
        from singerlake.upkeep.drop import drop_run

        check_now(now, dry_run)
        return drop_run(self, tap, stream, run, now=now, dry_run=dry_run, progress=progress)

    def store_status(self, tap: str | None = None, stream: str | None = None) -> StoreStatusResult:
        """Which manifest store keeps one stream, all of a tap, or all, and how far its state is, as ``singerlake store
        ls`` lists them. A stream whose state is missing or cannot be read has its ``trouble``. Raises
        ``UnknownNameError``, ``SettingError``, and what storage raises.

        Example:
            >>> for one in lake.store_status("my-tap").streams:
            ...     print(one.stream, one.store, one.transaction, "published:", one.published)
            users lockfile 3 published: 3
        """
        from singerlake.upkeep.reports.stores import store_status_of

        return store_status_of(self, tap, stream)

    def export(self, tap: str | None = None, stream: str | None = None, *, runs: int = 3) -> ExportResult:
        """All that is known of one stream, of all of a tap, or of all, without the data, as ``singerlake export``
        writes it: the notes of each tap, and the versions, counts and last ``runs`` of each stream. Reads the manifests
        and no data file. A
        stream whose manifest is missing or cannot be read is an ``UnreadStream``. Raises ``UnknownNameError``, and what
        storage raises.

        Example:
            >>> for tap in lake.export().taps:
            ...     print(tap.tap, [(stream.stream, stream.records) for stream in tap.streams])
            my-tap [('users', 3)]
        """
        from singerlake.upkeep.reports.export import export_of

        check_least("runs", runs)
        return export_of(self, tap, stream, runs=runs)

    def locks(self, tap: str | None = None, stream: str | None = None, *, key: str | None = None) -> LocksResult:
        """The locks that writers of one stream, all of a tap, or all hold, as ``singerlake lock ls`` lists them; or the
        one at ``key``, if it is held. Raises ``UnknownNameError``, also where no lock has the key, ``SettingError``,
        and what storage raises.

        Example:
            >>> [lock.writer for lock in lake.locks("my-tap").locks]
            []
        """
        from singerlake.upkeep.lock_files import held_lock, held_locks

        if key is None:
            return held_locks(self, tap, stream)
        if tap is not None or stream is not None:
            raise SettingError("key is given with a tap", hint="give one of them")
        return held_lock(self, key)

    def break_lock(self, lock: Lock) -> bool:
        """Release the lock of a writer that is gone, as ``singerlake lock break --yes`` does; False where it changed
        since ``locks`` gave it, and was left alone. A writer that is still alive loses no data, because commits do not
        depend on locks. Raises what storage raises."""
        from singerlake.upkeep.lock_files import break_held

        return break_held(self, lock)

    def annotate(
        self,
        tap: str,
        *,
        owner: str | None = None,
        description: str | None = None,
        links: Mapping[str, str] | None = None,
        unlink: Sequence[str] = (),
    ) -> NotesResult:
        """Note who owns a tap, what it is and where to read on, as ``singerlake annotate`` does, and give the notes.
        None, and a link that is not named, stay as they are; an empty text takes one away. ``links`` are URLs by name,
        and ``unlink`` names links to remove. Raises ``UnknownNameError``, ``SettingError`` for what no page could show,
        ``LostStateError`` where there is no root metadata, ``TooManyConflictsError``, and what storage raises.

        Example:
            >>> notes = lake.annotate("my-tap", owner="Ada", links={"wiki": "https://example.com"})
            >>> print(notes.owner, notes.links)
            Ada {'wiki': 'https://example.com'}
        """
        from singerlake.upkeep.annotate import Edit, annotate_tap

        edit = Edit(owner=owner, description=description, links=links or {}, unlink=tuple(unlink))
        return annotate_tap(self, tap, edit)

    def policies(self, tap: str | None = None) -> PoliciesResult:
        """How long the streams of a tap, or of all, are kept, as ``singerlake policy ls`` shows it. A stream that no
        policy means is kept for ever. Raises ``UnknownNameError``, and what storage raises."""
        from singerlake.upkeep.policy import policies_of

        return policies_of(self, tap)

    def set_policy(
        self, tap: str, stream: str | None = None, *, older_than: str | None = None, keep_versions: int | None = None
    ) -> PolicyResult:
        """Say how long a stream is kept, or all streams of a tap that have no policy of their own, as ``singerlake
        policy set`` does. The two rules are those of ``LakeStream.expire``. Nothing expires until the next ``gc``.
        Raises ``SettingError`` for an age that is not valid and where neither rule is given, ``UnknownNameError``,
        ``LostStateError`` where there is no root metadata, ``TooManyConflictsError``, and what storage raises.

        Example:
            >>> lake.set_policy("my-tap", older_than="400d").retention
            {'': {'older_than': '400d'}}
            >>> lake.unset_policy("my-tap").retention
            {}
        """
        from singerlake.upkeep.policy import set_policy

        if keep_versions is not None:
            check_least("keep_versions", keep_versions, 1)
        return set_policy(self, tap, stream, older_than, keep_versions)

    def unset_policy(self, tap: str, stream: str | None = None) -> PolicyResult:
        """Take the policy of a stream away, or that of all others of a tap, as ``singerlake policy unset`` does. Raises
        ``UnknownNameError`` where there is none, and as ``set_policy``."""
        from singerlake.upkeep.policy import unset_policy

        return unset_policy(self, tap, stream)

    def identity(self) -> IdentityResult:
        """The id by which databases know the lake, as ``singerlake.json`` and as the streams have it. Raises
        ``CorruptObjectError``, ``UnsupportedFormatError``, and what storage raises.

        Example:
            >>> found = lake.identity()
            >>> [found.lake_id] == list(found.streams)
            True
        """
        from singerlake.upkeep.root_file import IdentityResult, evidence

        metadata = self._root.read()
        named = evidence(self.storage)
        return IdentityResult(self.storage.url, metadata.lake_id if metadata else None, named.lakes)

    def identify(self, lake_id: str) -> bool:
        """Write the id by which databases know the lake, as ``singerlake store identify --lake-id`` does; True where it
        was another. Everything else in ``singerlake.json`` stays. Raises ``SettingError`` for an id that no lake has,
        ``LostStateError`` where the streams name others, ``TooManyConflictsError``, and what storage raises."""
        from singerlake.upkeep.root_file import identify

        return identify(self.storage, lake_id, default_kind=DEFAULT_STORE)

    def gc_batches(self, root: str, *, grace: timedelta = GRACE, dry_run: bool = False) -> BatchGcResult:
        """Delete the batch files of tap-singerlake below ``root`` that are older than ``grace`` (7 days by default),
        whether or not a target has loaded them; with ``dry_run`` only name them. ``root`` is that of ``batch_config``,
        and is read with the lake's settings. Raises ``SettingError``, and what storage raises."""
        from singerlake.upkeep.gc.gc import collect_batches

        check_least("grace time", grace)
        storage = open_storage(root, self.settings)
        return collect_batches(storage, grace=grace, dry_run=dry_run, clock=self.clock, ids=self.ids)

    def _names(self, prefix: str) -> list[str]:
        names = (layout.from_segment(folder.rstrip("/")) for folder in self.storage.list_folder(prefix).folders)
        return sorted(name for name in names if name is not None)


_LISTED = 20
"""Names that an error lists."""


def matching(pattern: str, names: Sequence[str]) -> list[str]:
    """The name that ``pattern`` is, or else those that it matches: names hold any character."""
    return [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]


def _one(kind: str, found: Sequence[Found], called: Callable[[Found], str], lake_root: str) -> Found:
    if not found:
        raise UnknownNameError(f"this lake has no {kind} yet", hint="capture something first", lake_root=lake_root)
    if len(found) > 1:
        raise SettingError(
            f"one {kind} is needed, and {len(found):,} match",
            hint=f"name one, as commands do by --{kind}: {_listed([called(each) for each in found])}",
            lake_root=lake_root,
        )
    return found[0]


def _known(names: Sequence[str], asked: str) -> str:
    near = get_close_matches(asked, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near and len(names) > 1 else ""
    return f"{meant}it has: {_listed(names)}" if names else "it has none yet"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"
