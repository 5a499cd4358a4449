"""``singerlake commit-worker``: commits what writers sent to a queue."""

from __future__ import annotations

import logging
import threading
from functools import partial

import click

from singerlake.adapters import open_queue
from singerlake.cli.help import command, examples
from singerlake.cli.options import variable, with_lake
from singerlake.committer import committer_of
from singerlake.lake import Lake
from singerlake.stores.queued.committer import Worker
from singerlake.stores.queued.settings import URL, QueueSettings

logger = logging.getLogger(__name__)

_WAIT = 5
_LEAST_HIDDEN = 60


@examples(
    "singerlake commit-worker lake --queue-url https://sqs.example.com/1/q.fifo",
    "singerlake commit-worker lake --queue-url https://sqs.example.com/1/q.fifo --once",
)
@command("Commit what writers sent to a queue.")
@partial(with_lake, stores=True)
@click.option(
    "--queue-url", envvar=variable(URL), metavar="URL", required=True, help="The SQS FIFO queue that writers send to."
)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=4, show_default=True, metavar="N", help="Batches at work at once."
)
@click.option("--once", is_flag=True, help="Commit one batch, if there is one within 5 seconds, and end.")
@click.option("--idle-exit", type=click.FloatRange(0), metavar="SECONDS", help="End when no message came for so long.")
def commit_worker(lake: Lake, queue_url: str, threads: int, once: bool, idle_exit: float | None) -> None:
    """Commit what writers sent to a queue.

    Writers send new files there if their commit_queue_url names it. Up to ten transactions of a stream are committed as
    one. Runs until a signal ends it, after the batches at work. Any number of workers may run, for any number of lakes
    one queue each; without any, writers commit by themselves after commit_queue_patience_seconds.
    """
    queue = open_queue(QueueSettings(url=queue_url), lake.settings.s3, lake.clock)
    hidden = queue.hidden_seconds()
    if hidden < _LEAST_HIDDEN:
        logger.warning(
            "the queue gives a message to another worker after %d s, which a batch may take; set VisibilityTimeout to "
            "%d or more",
            hidden,
            _LEAST_HIDDEN,
        )
    ended, committer = threading.Event(), committer_of(lake)
    workers = [Worker(queue, committer, lake.clock, wait=_WAIT, ended=ended) for _ in range(threads)]
    if once:
        workers[0].once()
    else:
        _run(workers, ended, idle_exit)


def _run(workers: list[Worker], ended: threading.Event, idle_exit: float | None) -> None:
    """All workers, until they end. Where one fails in a way that does not pass, all end, and its error is raised."""
    failed: list[BaseException] = []

    def work(worker: Worker) -> None:
        try:
            worker.run(idle_exit=idle_exit)
        except BaseException as error:
            failed.append(error)
            ended.set()

    running = [threading.Thread(target=work, args=(worker,), name=f"commit-{at}") for at, worker in enumerate(workers)]
    for thread in running:
        thread.start()
    try:
        for thread in running:
            thread.join()
    finally:
        ended.set()
        for thread in running:
            thread.join()
    if failed:
        raise failed[0]
