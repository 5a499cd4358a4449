"""The streaming reader: ``spark.readStream.format("singerlake")``.

Spark keeps one reader for as long as a query runs, in a Python process of its own on the driver, and asks it where the
stream ends and what lies between two offsets. A copy goes to the tasks and does nothing but read.
"""
# ruff: noqa: N802, N815  (the names of methods are pyspark's)

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from singerlake.arrow.plan.snapshot import check_lineage, declared, looked_for, pin, selected
from singerlake.arrow.plan.splits import pack, partition_bytes, splits
from singerlake.arrow.schema.columns import Array, Column, Struct, Variant, merge
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.arrow.schema.own import FILES
from singerlake.arrow.values.known import KnownObject
from singerlake.errors import MissingFileError, SettingError, SingerlakeError
from singerlake.format import layout
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import offset_left, schema_of
from singerlake.humanize import shown
from singerlake.newest import StateReader
from singerlake.spark.batch.reader import SingerlakeReader, SplitsPartition
from singerlake.spark.lake import open_stream
from singerlake.spark.options import Limits, ReadOptions
from singerlake.spark.spark_types import requested
from singerlake.spark.stream.offsets import Positions, admitted, bookmark_at, from_spark, to_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType


try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before pyspark 4.2, which pins the end of such a query by itself
    SupportsTriggerAvailableNow = object  # type: ignore[assignment,misc]


__all__ = ["SupportsTriggerAvailableNow", "check_supported", "default_limit", "limits_under"]


def check_supported(limits: Limits) -> None:
    """Raise ``SettingError`` where limits are asked for, and this pyspark has no way to keep them."""
    if limits and SupportsTriggerAvailableNow is object:
        raise SettingError(
            "options 'maxRecordsPerTrigger', 'maxFilesPerTrigger' and 'maxBytesPerTrigger' need pyspark 4.2 or newer",
            hint="leave them out, or upgrade pyspark",
        )


def default_limit(limits: Limits) -> ReadLimit:
    """``limits`` as Spark takes them. It takes one limit only, and gives it back; the others are applied with it."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

    if limits.records is not None:
        return ReadMaxRows(limits.records)
    if limits.files is not None:
        return ReadMaxFiles(limits.files)
    if limits.bytes is not None:
        return ReadMaxBytes(limits.bytes)
    return ReadAllAvailable()


def limits_under(given: ReadLimit | None, own: Limits) -> Limits:
    """The limits of a batch: the query's ``own``, and what Spark says. It says ``ReadAllAvailable``, or with an older
    pyspark nothing, where the trigger means that all there is be read at once."""
    if given is None:
        return Limits()
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

    if isinstance(given, ReadAllAvailable):
        return Limits()
    if isinstance(given, ReadMaxRows):
        return replace(own, records=_least(own.records, given.max_rows))
    if isinstance(given, ReadMaxFiles):
        return replace(own, files=_least(own.files, given.max_files))
    if isinstance(given, ReadMaxBytes):
        return replace(own, bytes=_least(own.bytes, given.max_bytes))
    return own


def _least(own: int | None, given: int) -> int:
    return given if own is None else min(own, given)


def not_read(columns: Struct, declared: Struct) -> tuple[list[str], list[str]]:
    """The properties that ``declared`` has and ``columns`` do not, and those whose columns do not take every value of
    the type declared; both as paths: ``who.name``, ``tags[].id``."""
    missing: list[str] = []
    other: list[str] = []
    for path, difference in _differences(columns, declared, ""):
        (other if difference else missing).append(path)
    return missing, other


def _differences(column: Column, declared: Column, path: str) -> Iterator[tuple[str, bool]]:
    """Paths, with False where there is no such column, and True where it is of too narrow a type."""
    if isinstance(column, Struct) and isinstance(declared, Struct):
        for field in declared.fields:
            own = column.get(field.name)
            inner = f"{path}.{field.name}" if path else field.name
            if own is None:
                yield inner, False
            else:
                yield from _differences(own.type, field.type, inner)
    elif isinstance(column, Array) and isinstance(declared, Array):
        yield from _differences(column.element, declared.element, path + "[]")
    elif not isinstance(column, Variant) and merge(column, declared) != column:
        yield path, True


logger = logging.getLogger(__name__)

_NAMED = 20
"""Columns that a warning names; a tap may declare thousands."""


@dataclass
class StreamPartition(InputPartition):
    """The work of one task of a batch. ``columns`` are what the query settled on when it started, ``known`` what its
    files declare: the tasks' copy of the reader is made apart from the one that plans."""

    work: SplitsPartition
    columns: Struct
    known: KnownObject | None


@dataclass
class _Followed:
    """What a query follows, from its first look on. ``versions`` are hashes: a rebuild may give labels anew."""

    newest: StateReader
    positions: Positions
    first: int
    versions: tuple[str, ...] | None


class SingerlakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream as ``schema`` from offset to offset. ``whole``: the schema is all that the lake declared when it
    was loaded, and no choice of a user's.

    Nothing is read before Spark asks. Every method may raise ``NotALakeError``, ``UnknownNameError``,
    ``LostStateError`` and what reading the stream's state raises. Raises ``SettingError`` for options that a stream
    cannot have.
    """

    def __init__(self, options: ReadOptions, schema: StructType, *, whole: bool) -> None:
        if options.request.to_offset is not None:
            raise SettingError(
                "option 'to_offset' is not for streams: a stream has no end",
                hint="leave it out; Trigger.AvailableNow stops at the current end",
            )
        if options.request.as_of is not None or options.request.from_commit is not None:
            name = "from_commit" if options.request.as_of is None else "as_of"
            raise SettingError(
                f"option {name!r} is not for streams", hint="from_offset or from_version say where a stream begins"
            )
        if options.pushdown:
            raise SettingError(
                "option 'pushdown' is not for streams: Spark pushes no filters to them",
                hint="leave it out; from_offset or from_version say where a stream begins",
            )
        check_supported(options.limits)
        self._options = options
        self._schema = schema
        self._whole = whole
        self._followed: _Followed | None = None
        self._columns: Struct | None = None
        self._declared: Struct | None = None
        self._newest: Manifest | None = None
        self._target: Bookmark | None = None
        self._returned: Bookmark | None = None
        self._told: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        nothing = {"_followed": None, "_columns": None, "_declared": None, "_newest": None}
        return {**self.__dict__, **nothing}

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins: at ``from_version``, ``from_offset``, or the beginning. Raises
        ``LineageChangedError`` where ``lineage`` is another one than the stream's, ``ExpiredMessagesError``."""
        state, source = self._look()
        request = self._options.request
        check_lineage(state, request)
        if request.from_offset is not None:
            offset_left(state, request.from_offset, skip_expired=request.skip_expired)
        return to_spark(bookmark_at(state, source.first))

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Where the next batch ends: ``start`` itself where nothing is new. Before pyspark 4.2 Spark gives no arguments
        and takes all there is. Raises ``LostBookmarkError``."""
        state, source = self._look()
        stop = state.next_offset
        if self._target is not None:
            if start is not None and source.positions.reached(state, from_spark(start), self._target):
                # What came later, and may have expired unread, is for the next query.
                return start
            stop = min(stop, source.positions.offset(state, self._target))
        if start is None:
            return to_spark(self._same_or_new(state, source, stop))
        first = source.positions.offset(state, from_spark(start))
        if first >= stop:
            return start
        limits = limits_under(limit, self._options.limits)
        end = admitted(self._files(state, first, stop), first, stop, limits) if limits else stop
        return to_spark(bookmark_at(state, end))

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits given as options; ``latestOffset`` keeps them all."""
        return default_limit(self._options.limits)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the stream as it was last seen, for Spark's progress reports."""
        return None if self._newest is None else to_spark(bookmark_at(self._newest, self._newest.next_offset))

    def prepareForTriggerAvailableNow(self) -> None:
        """Make the end of the stream as it is now the end of the query."""
        state, _ = self._look()
        self._target = bookmark_at(state, state.next_offset)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the batch [start, end), which may be one of long ago. Raises ``LostBookmarkError``,
        ``LineageChangedError``, and for a user's schema ``UnknownNameError`` and ``SettingError``."""
        state, source = self._look()
        first, stop = source.positions.between(state, from_spark(start), from_spark(end))
        files = list(self._files(state, first, stop))
        if not files:
            return []
        columns = self._columns or self._settle(state, dict.fromkeys(file.version for file in files))
        if self._whole:
            self._tell_of_new(state, files, columns)
        known = self._known(state, files, columns)
        target = partition_bytes(files, first, stop, self._options.request)
        attached = self._options.request.files and columns.get(FILES) is not None
        return [
            StreamPartition(SplitsPartition(part), columns, known)
            for part in pack(splits(files, first, stop, target, attached=attached), target)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, in a task. Raises as ``SingerlakeReader.read``."""
        assert isinstance(partition, StreamPartition)
        prefix = layout.stream_prefix(self._options.tap, self._options.stream)
        reader = SingerlakeReader(self._options, prefix, self._schema, partition.columns, partition.known)
        try:
            yield from reader.read(partition.work)
        except MissingFileError as error:
            raise MissingFileError(
                "a data file is gone: gc removed it after this batch was planned",
                hint="start the query again, it continues from its checkpoint; if the file is still missing then, run "
                "'singerlake verify'",
                **error.context,
            ) from error

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: a lake keeps what was read."""

    def stop(self) -> None:
        self._followed = self._newest = None

    def _look(self) -> tuple[Manifest, _Followed]:
        """The stream's state as it is now. The first look settles what the options and the schema mean, or why not."""
        if self._followed is None:
            stream = open_stream(self._options)
            newest = stream.state_reader()
            state = newest.look()
            request = self._options.request
            # Where a query begins counts for its first start alone; what was before may have expired since.
            pinned = pin(state, replace(request, skip_expired=True))
            self._settle(state, totals_of(selected(state, pinned)).versions)
            self._followed = _Followed(
                newest, Positions(stream, skip_expired=request.skip_expired), pinned.first, pinned.versions
            )
        else:
            state = self._followed.newest.look()
        self._newest = state
        return state, self._followed

    def _settle(self, state: Manifest, versions: Iterable[str]) -> Struct:
        """What the schema's columns mean by what ``versions`` declare. It stays so while the query runs: what a string
        column holds, the string or its JSON, must not change from one row to the next. Before there is data, nobody
        can tell; it is then the first batch that does."""
        known = declared(state, versions, self._options.request)
        columns = requested(self._schema, known, self._options.request)
        if known is not None:
            self._columns, self._declared = columns, known
        return columns

    def _known(self, state: Manifest, files: list[DataFile], columns: Struct) -> KnownObject | None:
        """What is known of the records of a batch. A column that came after the query's is not: what it holds has no
        place but ``_rescued_data``. A choice of columns leaves it out with the others."""
        request = self._options.request
        if self._whole:
            return looked_for(columns, columns, request, chosen=False)
        declared = self._declared
        if declared is not None:
            versions = dict.fromkeys(file.version for file in files)
            newer = merge(declared, columns_of(schema_of(state, version).schema for version in versions))
            declared = newer if isinstance(newer, Struct) else declared
        return looked_for(columns, declared, request, chosen=True)

    def _same_or_new(self, state: Manifest, source: _Followed, stop: int) -> Bookmark:
        """The bookmark of an offset, the one returned before where that means the same: Spark compares texts."""
        if self._returned is None or source.positions.offset(state, self._returned) != stop:
            self._returned = bookmark_at(state, stop)
        return self._returned

    def _files(self, state: Manifest, first: int, stop: int) -> Iterator[DataFile]:
        versions = self._followed.versions if self._followed is not None else None
        files = state.files_from(first, stop) if first < stop else FileList()
        return iter(files if versions is None else files.of_versions(versions))

    def _tell_of_new(self, state: Manifest, files: list[DataFile], columns: Struct) -> None:
        """Say once of each version what of it this query does not read."""
        for version in dict.fromkeys(file.version for file in files):
            if version in self._told:
                continue
            self._told.add(version)
            missing, other = not_read(columns, columns_of([schema_of(state, version).schema]))
            what = [
                f"{text} {', '.join(map(repr, names[:_NAMED]))}"
                + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
                for text, names in (("new columns", missing), ("wider types of", other))
                if names
            ]
            if what:
                logger.warning(
                    "%s/%s: version %s (%s) brings %s; this query keeps the columns it started with; start it again to "
                    "get the new ones",
                    shown(state.tap),
                    shown(state.stream),
                    state.versions[version],
                    version,
                    shown(", and ".join(what)),
                )


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``error`` from every method but ``stop``. A data source that raises it instead of giving a reader is
    answered with an ``UnboundLocalError`` of pyspark's own (up to 4.3), which stops the reader that it has not got, and
    ends the query with that as its error."""

    def __init__(self, error: SingerlakeError) -> None:
        self._error = error

    def _refuse(self, *_: Any) -> NoReturn:
        raise self._error

    initialOffset = latestOffset = reportLatestOffset = getDefaultReadLimit = _refuse  # type: ignore[assignment]
    prepareForTriggerAvailableNow = partitions = read = commit = _refuse  # type: ignore[assignment]

    def stop(self) -> None:
        """Nothing was begun."""
