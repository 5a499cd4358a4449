"""The Python Data Source ``singerlake``: what Spark asks on the driver. Cheap to import; the rest comes when used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from singerlake.errors import ExpiredMessagesError, SettingError, SingerlakeError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from singerlake.arrow.plan.request import Request
    from singerlake.arrow.plan.snapshot import Pin
    from singerlake.arrow.schema.columns import Struct
    from singerlake.format.state.model import Manifest
    from singerlake.spark.options import ReadOptions
    from singerlake.spark.tables.reader import Snapshot, TableOptions


class SingerlakeDataSource(DataSource):
    """``spark.read.format("singerlake")``, ``readStream`` and ``df.write``. Options: ``docs/how-to/spark.md``.

    For each DataFrame Spark makes one instance on the driver, asks it for ``schema``, pickles it once, and asks a copy
    for a ``reader`` at every action. What is pinned when it is pickled is therefore what the DataFrame reads for as
    long as it lives. Under a user's schema Spark does so only at the first action, and never asks for ``schema``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        # The base class would keep the options, and so the secrets, where anybody shows them.
        self.options: Any = {}
        self._given = dict(options)
        self._pin: Pin | None = None
        self._whole = False
        self._refused: SingerlakeError | None = None
        self._snapshot: Snapshot | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self._pin is not None or self._snapshot is not None:
            return self.__dict__
        try:
            if self._is_table:
                return {**self.__dict__, "_snapshot": self._table()[1]}
            return {**self.__dict__, "_pin": self._pinned()[1]}
        except SingerlakeError as error:
            # Raised here the user would see a PicklingError; a reader is asked for next.
            return {**self.__dict__, "_refused": error}

    @classmethod
    def name(cls) -> str:
        return "singerlake"

    def schema(self) -> StructType:
        """The columns of the versions selected; pins what will be read. Raises as ``open_stream`` and ``wanted_of``."""
        from singerlake.arrow.plan.snapshot import declared, projected, selected
        from singerlake.format.state.files.totals import totals_of
        from singerlake.spark.spark_types import to_spark

        if self._is_table:
            from singerlake.spark.tables.reader import schema_of

            there, self._snapshot = self._table()
            return schema_of(there, self._table_options)
        manifest, self._pin = self._pinned_for_schema()
        request = self._options.request
        columns = declared(manifest, totals_of(selected(manifest, self._pin)).versions, request)
        self._whole = request.columns is None
        return to_spark(projected(columns, manifest, request))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A plan to read what is pinned as ``schema``. Raises ``LineageChangedError``, and for a user's schema what
        pinning raises, ``UnknownNameError`` and ``SettingError``."""
        from singerlake.spark.batch.plan import plan
        from singerlake.spark.stream.offsets import no_limits_in_batch

        if self._refused is not None:
            raise self._refused
        if self._is_table:
            return (self._snapshot or self._table()[1]).reader(self._table_options, schema)
        no_limits_in_batch(self._options.limits)
        return plan(self._options, self._pin or self._pinned()[1], schema, chosen=not self._whole)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader of what comes after what, as ``schema``; what is pinned is the batch's. Of options that a stream
        cannot have the reader says so itself."""
        from singerlake.spark.stream.reader import RefusedStream, SingerlakeStreamReader

        if self._is_table:
            hint = "stream what it is made of, with the options 'tap' and 'stream'"
            return RefusedStream(SettingError("a table cannot be read as a stream", hint=hint))
        try:
            return SingerlakeStreamReader(self._options, schema, whole=self._whole)
        except SingerlakeError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer of rows of ``schema``; the stream is there when this returns. Raises ``SettingError`` where
        ``overwrite`` is asked for and for what JSON cannot hold, ``UnknownNameError``, and as opening a stream."""
        from singerlake.spark.write import prepare, write_options

        if self._is_table:
            raise SettingError(
                "df.write cannot write a table", hint="tables are made by 'singerlake project'; write a stream instead"
            )
        return prepare(write_options(self._given), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Refused: raises ``SettingError``."""
        raise SettingError(
            "df.writeStream cannot write a lake", hint="write each batch of it with foreachBatch and df.write"
        )

    def _table(self) -> tuple[Struct, Snapshot]:
        from singerlake.spark.tables.reader import snapshot_of

        return snapshot_of(self._table_options)

    @property
    def _is_table(self) -> bool:
        return any(name.lower() == "table" for name in self._given)

    @cached_property
    def _table_options(self) -> TableOptions:
        from singerlake.spark.tables.reader import table_options

        return table_options(self._given)

    @cached_property
    def _options(self) -> ReadOptions:
        """Only here do the options become those of reading, since a writer has others."""
        from singerlake.spark.options import read_options

        return read_options(self._given)

    def _pinned_for_schema(self) -> tuple[Manifest, Pin]:
        """As ``_pinned``, but that offsets may have expired: a streaming query goes on from its checkpoint, which may
        be above. A batch is refused when it is read."""
        try:
            return self._pinned()
        except ExpiredMessagesError as error:
            self._refused = error
            return self._pinned(replace(self._options.request, skip_expired=True))

    def _pinned(self, request: Request | None = None) -> tuple[Manifest, Pin]:
        from singerlake.arrow.plan.snapshot import pin
        from singerlake.spark.lake import open_stream, wanted_of

        manifest, bounded = wanted_of(open_stream(self._options), request or self._options.request)
        return manifest, pin(manifest, bounded)
