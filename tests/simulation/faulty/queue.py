"""Faulty queues: what goes wrong where a queue is believed, and where order and duplicates are left to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from singerlake.format.state import additions
from singerlake.format.state.additions import Conflict, add
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest
from singerlake.stores.queued import committer
from singerlake.stores.queued.committer import MOST, Worker
from singerlake.stores.writer import Receipt, StreamWriter, Upload
from tests.simulation.jobs import WriterJob
from tests.simulation.stores.kinds import KINDS, Kind
from tests.simulation.stores.queueing import CommitterJob, queueing
from tests.simulation.world.scheduler import Process


class _DeletesFirst(Worker):
    """Deletes messages before it commits them."""

    def once(self) -> int:
        messages = self.queue.receive(MOST, wait=0)
        if messages:
            self._delete(messages)
            self.committer.handle(messages)
        return len(messages)


class DeletesFirst(CommitterJob):
    """Works as its worker does, which a request that fails ends."""

    def worker(self, process: Process) -> Worker:
        honest = super().worker(process)
        return _DeletesFirst(honest.queue, honest.committer, honest.clock, ended=honest.ended)


class Trusting(WriterJob):
    """Tells that files are committed once no message of theirs is in the queue."""

    def _take(self, writer: StreamWriter, waiting: list[tuple[Receipt, list[Upload]]]) -> None:
        queue = self.world.shared["queue"]
        for receipt, uploads in waiting:
            pending = receipt.commit.pending
            if pending is None or any(pending.id in message.body for message in queue.waiting):
                continue
            for upload in uploads:
                self.world.truth.acked(upload.file.id)
        super()._take(writer, waiting)


def _twice(manifest: Manifest, change: Any, at: str) -> dict[str, Any] | Conflict:
    """Adds files whether they are there or not."""
    bare = msgspec.structs.replace(manifest, files=FileList(), retired=AppendOnlyList())
    fields = add(bare, change, at)
    if isinstance(fields, Conflict):
        return fields
    return {**fields, "files": manifest.files.extended(fields["files"]), "retired": manifest.retired}


@contextmanager
def _counts_twice() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(additions, "add", _twice))
        stack.enter_context(mock.patch.object(additions, "is_known", return_value=False))
        stack.enter_context(mock.patch.object(committer, "is_done", return_value=False))
        stack.enter_context(mock.patch("singerlake.format.state.fold.add", _twice))
        yield


def _in_any_order() -> AbstractContextManager[object]:
    """A committer looks for no file that has to be there before."""
    return mock.patch.object(committer, "_is_there", return_value=True)


_LOG = KINDS["log"]


def _with(patched: Callable[[], AbstractContextManager[object]]) -> Kind:
    made = queueing(_LOG)
    before = made.patched

    @contextmanager
    def both() -> Iterator[None]:
        with before(), patched():
            yield

    return replace(made, patched=both)


QUEUES = (
    replace(queueing(_LOG, DeletesFirst), name="queued-deletes-first", writer_job=Trusting),
    replace(_with(_counts_twice), name="queued-counts-twice"),
    replace(_with(_in_any_order), name="queued-in-any-order"),
)
