"""The Python Data Source ``singerlake``: what Spark asks on the driver. Cheap to import; the rest comes when used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from singerlake.spark.snapshot import Pin


class SingerlakeDataSource(DataSource):
    """``spark.read.format("singerlake")``. Options: ``shared/docs/spark.md``.

    Spark makes one instance for a DataFrame, asks it for ``schema`` unless the user gave one, and keeps it: what
    ``schema`` pins, every later ``reader`` of that DataFrame reads.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        from singerlake.spark.options import read_options

        # Spark's own attribute of that name would keep the secrets where they can be printed.
        self.options: Any = {}
        self._options = read_options(options)
        self._pin: Pin | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "singerlake"

    def schema(self) -> StructType:
        """The columns of the versions selected; fixes what will be read. Raises ``NotALake``, ``UnknownName`` and
        whatever reading the manifest raises."""
        from singerlake.spark.columns import Struct
        from singerlake.spark.snapshot import declared, inferred, open_stream, pin, selected
        from singerlake.spark.spark_types import to_spark

        manifest = open_stream(self._options).snapshot()
        self._pin = pin(manifest, self._options)
        columns = declared(manifest, selected(manifest, self._pin), metadata=self._options.metadata)
        return to_spark(Struct(inferred(columns, self._options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A plan of what was pinned, or of the stream as it is now where a user's schema left it open."""
        from singerlake.spark.reader import plan

        return plan(self._options, self._pin, schema)
