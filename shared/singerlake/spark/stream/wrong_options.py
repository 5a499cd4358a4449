"""The reader of a query whose options are wrong: it says so when it is first asked for something."""
# ruff: noqa: N802  (the names of methods are pyspark's)

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader

from singerlake.errors import SingerlakeError
from singerlake.spark.stream.api import SupportsTriggerAvailableNow


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``error`` from every method but ``stop``.

    A data source that raises it instead of giving a reader is answered with an ``UnboundLocalError`` of pyspark's own
    (up to 4.3), which stops the reader that it has not got, and ends the query with that as its error.
    """

    def __init__(self, error: SingerlakeError) -> None:
        self._error = error

    def _refuse(self, *_: Any) -> NoReturn:
        raise self._error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        self._refuse()

    def getDefaultReadLimit(self) -> Any:
        self._refuse()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        self._refuse()

    def read(self, partition: Any) -> Any:
        self._refuse()

    def commit(self, end: dict[str, Any]) -> None:
        self._refuse()

    def stop(self) -> None:
        """Nothing was begun."""
