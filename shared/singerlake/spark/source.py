"""The Python Data Source ``singerlake``: what Spark asks on the driver. Cheap to import; the rest comes when used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from singerlake.arrow.snapshot import Pin
    from singerlake.format.model import Manifest


class SingerlakeDataSource(DataSource):
    """``spark.read.format("singerlake")``. Options: ``shared/docs/spark.md``.

    For each DataFrame Spark makes one instance on the driver, asks it for ``schema``, pickles it once, and asks a copy
    for a ``reader`` at every action. What is pinned when it is pickled is therefore what the DataFrame reads for as
    long as it lives. Under a user's schema Spark does so only at the first action, and never asks for ``schema``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        from singerlake.spark.options import read_options

        # The base class would keep the options, and so the secrets, as they came.
        self.options: Any = {}
        self._options = read_options(options)
        self._pin: Pin | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pin": self._pin or self._pinned()[1]}

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "singerlake"

    def schema(self) -> StructType:
        """The columns of the versions selected; pins what will be read. Raises ``NotALake``, ``UnknownName`` and
        whatever reading the manifest raises."""
        from singerlake.arrow.snapshot import declared, projected, selected
        from singerlake.spark.spark_types import to_spark

        manifest, self._pin = self._pinned()
        request = self._options.request
        columns = declared(manifest, selected(manifest, self._pin), request)
        return to_spark(projected(columns, manifest, request))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A plan to read what is pinned as ``schema``. Raises ``Rebuilt``, and for a user's schema ``UnknownName`` and
        ``SettingError``."""
        from singerlake.spark.reader import plan

        return plan(self._options, self._pin or self._pinned()[1], schema)

    def _pinned(self) -> tuple[Manifest, Pin]:
        from singerlake.arrow.snapshot import pin
        from singerlake.spark.lake import open_stream, snapshot

        manifest = snapshot(open_stream(self._options))
        return manifest, pin(manifest, self._options.request)
