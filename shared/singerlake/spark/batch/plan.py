"""From what a table means to a reader of it: which files, which columns, which partitions.

Filters that Spark pushes down (from 4.1 on, where ``spark.sql.python.filterPushdown.enabled`` is set) are only for
those who ask for it: up to 4.3.0, Spark keeps what a reader planned with one query's filters beside the DataFrame, and
takes it for the next query of the same DataFrame that has no filters to push, or for the other side of a join with
itself. Neither a reader nor a task can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from singerlake.arrow.plan.pruning import Comparison, Predicate, is_exact, prune
from singerlake.arrow.plan.request import MessageKinds
from singerlake.arrow.plan.snapshot import Pin, check_lineage, declared, looked_for, selected
from singerlake.arrow.plan.splits import Split, pack, partition_bytes, splits
from singerlake.arrow.schema.own import FILES, METADATA, OFFSET, TIME
from singerlake.errors import SettingError
from singerlake.format.state.files.totals import totals_of
from singerlake.spark.batch.reader import SingerlakeReader, SplitsPartition
from singerlake.spark.lake import open_stream, snapshot
from singerlake.spark.options import ReadOptions
from singerlake.spark.spark_types import requested

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


def plan(options: ReadOptions, pinned: Pin, schema: StructType, *, chosen: bool) -> SingerlakeReader:
    """A reader of ``pinned`` as ``schema``, which takes filters where that is wanted: Spark refuses it where its own
    setting for that is off. ``chosen``: the columns are a user's choice, and not all that there are.

    Raises ``LineageChangedError``, ``UnknownNameError`` for a column that is not declared, ``SettingError`` for a
    type no value has, and where this pyspark pushes no filters.
    """
    request = options.request
    stream = open_stream(options)
    manifest = snapshot(stream)
    check_lineage(manifest, request)
    files = selected(manifest, pinned)
    there = declared(manifest, totals_of(files).versions, request)
    columns = requested(schema, there, request)
    known = looked_for(columns, there, request, chosen=chosen)

    attached = request.files and columns.get(FILES) is not None

    def cut(conditions: Sequence[Predicate]) -> list[tuple[Split, ...]]:
        if request.messages is MessageKinds.ALL:
            # A file's span of times is that of its records.
            conditions = [condition for condition in conditions if condition.column != TIME]
        left = list(prune(files, pinned.first, pinned.stop, conditions)) if conditions else None
        read = files if left is None else [file for file, *_ in left]
        size = partition_bytes(read, pinned.first, pinned.stop, request)
        if left is None:
            return pack(splits(files, pinned.first, pinned.stop, size, attached=attached), size)
        return pack(
            (run for file, first, stop in left for run in splits((file,), first, stop, size, attached=attached)), size
        )

    if options.pushdown:
        check_supported()
        return PushingReader(options, stream.prefix, schema, columns, known, cut=cut)
    return SingerlakeReader(options, stream.prefix, schema, columns, known, cut(()))


_TESTS = {
    "EqualTo": Comparison.EQUAL,
    "EqualNullSafe": Comparison.EQUAL,
    "LessThan": Comparison.LESS,
    "LessThanOrEqual": Comparison.AT_MOST,
    "GreaterThan": Comparison.MORE,
    "GreaterThanOrEqual": Comparison.AT_LEAST,
    "In": Comparison.AMONG,
    "IsNull": Comparison.NULL,
    "StringStartsWith": Comparison.STARTS,
    "StringEndsWith": Comparison.ENDS,
    "StringContains": Comparison.CONTAINS,
}


def check_supported() -> None:
    """Raise ``SettingError`` where this pyspark pushes no filters to Python."""
    if not hasattr(DataSourceReader, "pushFilters"):
        raise SettingError("option 'pushdown' needs pyspark 4.1 or newer", hint="leave it out, or upgrade pyspark")


@dataclass(eq=False)
class PushingReader(SingerlakeReader):
    """A reader that takes filters on the lake's own columns. ``cut`` makes the partitions that are left by them. Spark
    refuses a reader that defines ``pushFilters`` while its setting is off, and names the setting."""

    cut: Callable[[Sequence[Predicate]], Sequence[tuple[Split, ...]]] | None = None
    conditions: tuple[Predicate, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "cut": None}

    def partitions(self) -> list[InputPartition]:
        return [SplitsPartition(part) for part in (self.cut(self.conditions) if self.cut else ())]

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Leaves out what ``filters`` cannot match. Spark gets those back that rows have to be asked again for."""
        conditions = [condition_of(each, self.schema) for each in filters]
        self.conditions = tuple(condition for condition in conditions if condition is not None)
        return [
            each
            for each, condition in zip(filters, conditions, strict=True)
            if condition is None or not is_exact(condition)
        ]


def condition_of(given: Filter, schema: StructType) -> Predicate | None:
    """A filter in our terms; None for another column, one read as another type than its own, or an unknown kind."""
    from pyspark.sql.types import LongType, StringType, TimestampType

    negated = type(given).__name__ == "Not"
    inner: Any = given.child if negated else given  # type: ignore[attr-defined]
    name = type(inner).__name__
    if name == "IsNotNull":
        name, negated = "IsNull", not negated
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    if len(path) != 1 or METADATA.get(path[0]) is None or name not in _TESTS:
        return None
    (column,) = path
    own = {OFFSET: LongType(), TIME: TimestampType()}.get(column, StringType())
    if column not in schema.names or schema[column].dataType != own:
        return None
    test = _TESTS[name]
    if test is Comparison.NULL:
        return Predicate(column, test, (), negated)
    value = inner.value
    values = tuple(value) if test is Comparison.AMONG else (value,)
    if name == "EqualNullSafe" and value is None:
        test, values = Comparison.NULL, ()
    return Predicate(column, test, values, negated)
