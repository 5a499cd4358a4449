"""Statements in SQL over tables of a lake: Spark says which tables they read, and its tasks write their rows.

A statement runs in a session of its own, which knows no views but those of the tables that it names. Which these are
Spark tells by what it does not find, so that classic sessions and Connect are asked alike.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake.arrow.schema.columns import Struct
from singerlake.arrow.schema.own import OFFSET
from singerlake.errors import SettingError, SingerlakeError
from singerlake.spark.tables.incremental_statement import table_read_row_by_row
from singerlake.spark.tables.snapshot import snapshot_frame
from singerlake.spark.tables.types import table_columns
from singerlake.spark.worker_storage import worker_storage
from singerlake.tables.declaration.statement import quoted
from singerlake.tables.sql.port import Find, RowsTask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from singerlake.storage.settings import StorageSettings

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.runSQLOnFiles": "false",
}
"""What a statement means must not depend on the machine that runs it. Without the last one, a statement could read
files that no table has."""
_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"


@dataclass(frozen=True)
class SparkSql:
    """Runs statements on ``session``. ``url`` and ``settings`` reach the lake from its workers."""

    session: SparkSession
    url: str
    settings: StorageSettings | None

    def query(self, statement: str, names: Sequence[str], find: Find) -> SparkQuery:
        """The statement, understood; see ``SqlEngine``."""
        session = self._session()
        try:
            return self._analyzed(session, statement, names, find)
        except BaseException:
            _close(session)
            raise

    def _analyzed(self, session: SparkSession, statement: str, names: Sequence[str], find: Find) -> SparkQuery:
        from pyspark.errors import AnalysisException, PySparkException

        text = statement.lower()
        for name in names:
            # A table of the session's catalog would be read in the place of the lake's.
            if name.lower() in text and session.catalog.tableExists(quoted(name)):
                self._show(session, quoted(name), find)
        seen: set[str] = set()
        while True:
            try:
                with _quiet():
                    # Within parentheses nothing but a query is understood.
                    frame = session.sql(f"SELECT * FROM ({statement}\n)")  # noqa: S608
                    columns = table_columns(frame.schema)
                return SparkQuery(self.url, self.settings, frame, columns, table_read_row_by_row(frame))
            except AnalysisException as error:
                relation = (error.getMessageParameters() or {}).get("relationName", "")
                if error.getCondition() != _NOT_FOUND or not relation or relation in seen:
                    raise _refused(error) from error
                seen.add(relation)
            except PySparkException as error:
                raise _refused(error) from error
            self._show(session, relation, find)

    def _session(self) -> SparkSession:
        try:
            session = self.session.newSession()
        except (AttributeError, NotImplementedError) as error:
            raise SettingError(
                "tables made by 'sql' need pyspark 4.3 or newer through Spark Connect",
                hint="upgrade pyspark, or leave --remote out",
            ) from error
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        return session

    def _show(self, session: SparkSession, relation: str, find: Find) -> None:
        shown = find(relation)
        frame = snapshot_frame(session, self.url, self.settings, shown.table)
        if shown.start:
            frame = frame.where(f"{OFFSET} >= {shown.start}")
        frame.createOrReplaceTempView(quoted(shown.table.name))


def _close(session: SparkSession) -> None:
    """End a session of one statement. Through Connect it has a client of its own, which would ask the server once more
    when the process ends, and wait; a classic one ends with the Java that it shares with others."""
    if not hasattr(type(session), "sparkContext") and not session.is_stopped:  # type: ignore[attr-defined]
        session.stop()


@dataclass(frozen=True)
class SparkQuery:
    """A statement that Spark has analyzed."""

    url: str
    settings: StorageSettings | None
    frame: DataFrame
    columns: Struct
    row_by_row: str | None

    def write(self, task: RowsTask) -> list[Any]:
        """The answers in the order of Spark's partitions; see ``Query``."""
        from pyspark.errors import PySparkException

        work = partial(_written, self.url, self.settings, task)
        names = [field.name for field in self.columns.fields]
        # Spark takes a name with a dot in it for the way to a field.
        numbered = self.frame.toDF(*(f"c{place}" for place in range(len(names))))

        # Spark itself sends Python's objects between driver and workers as pickles.
        def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pickle

            import pyarrow as pa
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            told = pickle.dumps(work(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches))
            yield pa.record_batch([pa.array([context.partitionId()]), pa.array([told])], names=["part", "answer"])

        session = self.frame.sparkSession
        try:
            with _quiet():
                rows = numbered.mapInArrow(answer, "part long, answer binary").collect()
        except PySparkException as error:
            condition = error.getCondition()
            if condition is None:
                raise
            # The rest of its message may hold a record.
            raise SettingError(
                f"the statement failed: {condition}", hint="correct it, as with try_cast or try_divide"
            ) from None
        finally:
            _close(session)
        answers = [pickle.loads(bytes(row.answer)) for row in sorted(rows, key=lambda row: row.part)]  # noqa: S301
        for each in answers:
            if isinstance(each, SingerlakeError):
                raise each
        return answers

    def close(self) -> None:
        """End its session; see ``Query``."""
        _close(self.frame.sparkSession)


def _written(
    url: str, settings: StorageSettings | None, task: RowsTask, batches: Iterator[pa.RecordBatch]
) -> Any | SingerlakeError:
    """In a worker. Errors are returned, not raised: Spark would try again, and show all of its own stack."""
    try:
        return task(worker_storage(url, settings), batches)
    except SingerlakeError as error:
        return error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without pyspark's own report of each error, with all of its stack: a table that is not found is none here."""
    logger = logging.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _refused(error: Any) -> SettingError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0].partition(" SQLSTATE")[0] if lines else "no reason"
    return SettingError(f"Spark refuses the statement: {first}", hint="write one query over tables of the lake")
