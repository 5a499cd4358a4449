"""Reading files on a Spark session: one task of Spark for each group of files, answers back to the driver."""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake.errors import SingerlakeError
from singerlake.spark.tables.sql import SparkSql
from singerlake.spark.worker_storage import worker_storage
from singerlake.work.batches import waves
from singerlake.work.engine import Answer, Item, Task, answers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from singerlake.storage.settings import StorageSettings

logger = logging.getLogger(__name__)

Work = Callable[[list[Any]], "list[Any] | SingerlakeError"]
"""What a worker does with a group."""

_GROUPS_PER_CORE = 4
"""Of one Spark job: some tasks take longer than others. Answers are shown and noted between two jobs."""


_CONNECT_CORES = 4
"""Spark Connect does not tell how many there are."""
ALL_AT_ONCE = 64
"""``groups_per_core`` of work whose answers are needed together."""


@dataclass(frozen=True)
class SparkTasks:
    """The engine of a Spark session, classic or Connect. ``url`` and ``settings`` reach the lake from its workers; they
    travel with the tasks, as the options of a DataFrame do. ``groups_per_core``: how many groups of files one job of
    Spark takes; more where no answer is needed before the last one."""

    session: SparkSession
    url: str
    settings: StorageSettings | None
    groups_per_core: int | None = None

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        work = partial(_answers, self.url, self.settings, task)
        connect = not hasattr(type(self.session), "sparkContext")
        cores = _CONNECT_CORES if connect else self.session.sparkContext.defaultParallelism
        most = (self.groups_per_core or _GROUPS_PER_CORE) * cores
        run = _by_arrow if connect else _by_objects
        for groups in waves(items, task.size, most):
            told = run(self.session, work, groups)
            for group, answer in zip(groups, told, strict=True):
                if isinstance(answer, SingerlakeError):
                    raise answer
                yield from zip(group, answer, strict=True)

    def sql(self) -> SparkSql:
        """What runs statements on the same session."""
        return SparkSql(self.session, self.url, self.settings)


def _by_objects(session: SparkSession, work: Work, groups: list[list[Any]]) -> list[Any]:
    return session.sparkContext.parallelize(groups, len(groups)).map(work).collect()


def _by_arrow(session: SparkSession, work: Work, groups: list[list[Any]]) -> list[Any]:
    """Through Spark Connect, which knows DataFrames alone: a partition and a row for each group."""
    sent = [pickle.dumps(group) for group in groups]

    # Spark itself sends Python's objects between driver and workers as pickles.
    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        import pyarrow as pa

        for batch in batches:
            for place in batch.column(0).to_pylist():
                told = pickle.dumps(work(pickle.loads(sent[place])))  # noqa: S301
                yield pa.record_batch([pa.array([place]), pa.array([told])], names=["place", "answer"])

    rows = session.range(0, len(groups), 1, len(groups)).mapInArrow(answer, "place long, answer binary").collect()
    answers = sorted(rows, key=lambda row: row.place)
    return [pickle.loads(bytes(row.answer)) for row in answers]  # noqa: S301


@contextmanager
def spark_tasks(
    url: str,
    settings: StorageSettings | None,
    *,
    master: str | None = None,
    remote: str | None = None,
    groups_per_core: int | None = None,
) -> Iterator[SparkTasks]:
    """The engine on the session that is active, or on a new one which ends with the block: of the Spark at ``master``,
    of the Connect server at ``remote``, or as the environment says. Raises ``SettingError`` for a missing Java."""
    from pyspark.sql import SparkSession

    from singerlake.spark.java import ensure_java

    active = SparkSession.getActiveSession()
    if active is not None:
        yield SparkTasks(active, url, settings, groups_per_core)
        return
    builder = SparkSession.builder.appName("singerlake")
    if remote is not None:
        builder = builder.remote(remote)
    elif "SPARK_REMOTE" not in os.environ:
        ensure_java()
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        if master is not None:
            builder = builder.master(master)
    session = builder.getOrCreate()
    try:
        yield SparkTasks(session, url, settings, groups_per_core)
    finally:
        try:
            session.stop()
        except Exception as error:
            # A Java that was killed has nothing to stop; what it kept from being done is the error to tell.
            logger.debug("the Spark session cannot be stopped", exc_info=error)


def _answers(
    url: str, settings: StorageSettings | None, task: Task[Any, Any], group: list[Any]
) -> list[Any] | SingerlakeError:
    """In a worker. Errors are returned, not raised: Spark would try again, and show all of its own stack."""
    try:
        return answers(task, worker_storage(url, settings), group)
    except SingerlakeError as error:
        return error
