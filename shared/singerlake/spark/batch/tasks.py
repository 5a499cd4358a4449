"""Reading files on a Spark session: one task of Spark for each group of files, answers back to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from singerlake.adapters import open_storage
from singerlake.errors import NotALakeError, SettingError, SingerlakeError
from singerlake.format import layout
from singerlake.maintenance.engines.engine import Answer, Item, Task, answers
from singerlake.maintenance.vacuum.groups import waves

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from singerlake.storage.port import Storage
    from singerlake.storage.s3.storage import S3Settings

_GROUPS_PER_CORE = 4
"""Of one Spark job: some tasks take longer than others. Answers are shown and noted between two jobs."""


@dataclass(frozen=True)
class SparkTasks:
    """The engine of a Spark cluster. ``url`` and ``settings`` reach the lake from its workers; they travel with the
    tasks, as the options of a DataFrame do."""

    context: SparkContext
    url: str
    settings: S3Settings | None

    def __call__(self, task: Task[Item, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
        work = partial(_answers, self.url, self.settings, task)
        for groups in waves(items, task.size, _GROUPS_PER_CORE * self.context.defaultParallelism):
            told = self.context.parallelize(groups, len(groups)).map(work).collect()
            for group, answer in zip(groups, told, strict=True):
                if isinstance(answer, SingerlakeError):
                    raise answer
                yield from zip(group, answer, strict=True)


@contextmanager
def spark_tasks(url: str, settings: S3Settings | None) -> Iterator[SparkTasks]:
    """The engine on the session that is active, or on a new one as the environment configures it, which then ends with
    the block. Raises ``SettingError`` where pyspark is missing, where there is no Java, and with Spark Connect."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SettingError("--engine spark needs pyspark", hint="run: pip install 'singerlake[spark]'") from error
    from singerlake.spark.java import ensure_java

    active = SparkSession.getActiveSession()
    if active is None:
        ensure_java()
    session = active or SparkSession.builder.appName("singerlake").getOrCreate()
    try:
        yield SparkTasks(_context(session), url, settings)
    finally:
        if active is None:
            session.stop()


def _context(session: SparkSession) -> SparkContext:
    if not hasattr(type(session), "sparkContext"):
        raise SettingError(
            "--engine spark does not work through Spark Connect",
            hint="unset SPARK_REMOTE, and run the command with spark-submit or where the driver is to be",
        )
    return session.sparkContext


def _answers(
    url: str, settings: S3Settings | None, task: Task[Any, Any], group: list[Any]
) -> list[Any] | SingerlakeError:
    """In a worker. Errors are returned, not raised: Spark would try again, and show all of its own stack."""
    try:
        storage = _storage(url, settings)
        if not storage.list_folder(f"{layout.RAW}/").folders:
            raise NotALakeError(
                "nothing here is a lake, on the machine that runs this task",
                hint="a local path has to be the same folder on the driver and all workers; or use s3://",
                path=url,
            )
        return answers(task, storage, group)
    except SingerlakeError as error:
        return error


@lru_cache(maxsize=8)
def _storage(url: str, settings: S3Settings | None) -> Storage:
    """One storage for all tasks of a Python worker, which Spark uses again."""
    return open_storage(url, settings)
