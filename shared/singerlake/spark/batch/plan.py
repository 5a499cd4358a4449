"""From what a table means to a reader of it: which files, which columns, which partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from singerlake.arrow.plan.pruning import Predicate, prune
from singerlake.arrow.plan.request import MessageKinds
from singerlake.arrow.plan.snapshot import Pin, check_lineage, declared, looked_for, selected
from singerlake.arrow.plan.splits import Split, pack, partition_bytes, runs
from singerlake.arrow.schema.own import FILES, TIME
from singerlake.format.state.files.totals import totals_of
from singerlake.spark.batch.pushdown import PushingReader, check_supported
from singerlake.spark.batch.reader import SingerlakeReader
from singerlake.spark.lake import open_stream, snapshot
from singerlake.spark.options import ReadOptions
from singerlake.spark.spark_types import requested

if TYPE_CHECKING:
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
            return pack(runs(files, pinned.first, pinned.stop, size, attached=attached), size)
        return pack(
            (run for file, first, stop in left for run in runs((file,), first, stop, size, attached=attached)), size
        )

    if options.pushdown:
        check_supported()
        return PushingReader(options, stream.prefix, schema, columns, known, cut)
    return SingerlakeReader(options, stream.prefix, schema, columns, known, cut(()))
