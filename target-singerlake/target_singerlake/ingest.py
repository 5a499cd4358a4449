"""One run of the target: input in, files into the lake, STATE out. All that several threads share meets here."""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import IO, Any

from singerlake.adapters import open_storage
from singerlake.clock import Clock, IdSource
from singerlake.errors import (
    AccessDeniedError,
    InputError,
    InvalidMessageError,
    NameTooLongError,
    SchemaChangeError,
    TruncatedInputError,
)
from singerlake.format.layout import stream_segment
from singerlake.lake import Lake
from singerlake.spools import SpoolFolder, Spools
from singerlake.storage.settings import StorageSettings
from singerlake.terminal import bar
from target_singerlake.attaching import Attaching, attaching_of, sources_of
from target_singerlake.errors import RecordAgainstSchemaError, RecordBeforeSchemaError
from target_singerlake.files.growing import Compressor, LakeId
from target_singerlake.files.open_files import OpenFiles
from target_singerlake.files.publishing import (
    OUT_OF_REACH,
    PENDING_FILES,
    SETTLE_EVERY,
    AtomicPublisher,
    Committed,
    Publisher,
)
from target_singerlake.input.batch import Batch
from target_singerlake.input.messages import Block, EarlyActivations, Message, Records
from target_singerlake.input.passthrough import PassthroughDecoder, RecordCheck, parse
from target_singerlake.input.quarantine import Quarantine
from target_singerlake.input.reader import Input, Waker
from target_singerlake.input.schema import Schema, schema_of, state_value
from target_singerlake.input.schema_changes import SchemaChanges
from target_singerlake.input.validation import Validators
from target_singerlake.mapped import MappedDecoder
from target_singerlake.progress import Progress
from target_singerlake.settings import Settings
from target_singerlake.state import HeldStates, StateOutput

_WAIT = 1.0
"""Seconds to wait for a commit before time is looked at again."""


_BLOCK_PART = 8
"""A block of the input takes at most this part of the memory: an eighth."""


class _CutShortError(Exception):
    """A signal ends the run before the rest of the input is taken in."""


class Ingest:
    """Everything of one run: ``consume`` once, then ``finish`` once. Either may raise, and that is its end."""

    def __init__(
        self,
        lake: Lake,
        settings: Settings,
        storages: StorageSettings,
        *,
        rewriter: MappedDecoder | None,
        logger: logging.Logger,
        clock: Clock,
        ids: IdSource,
    ) -> None:
        self._settings = settings
        # One for each bucket of BATCH files: a client of a cloud takes longer to make than a small file to read.
        self._bucket = cache(partial(open_storage, settings=storages))
        self._clock = clock
        self._logger = logger
        run_id = ids()
        # Before anything is made that would have to be removed, since a setting may be wrong.
        sources = sources_of(settings, storages)
        self._waker = Waker()
        self._compressor = Compressor(settings.compress_threads, settings.max_memory_bytes)
        self._publisher = (AtomicPublisher if settings.atomic_run else Publisher)(
            lake,
            settings,
            run_id=run_id,
            writer_id=f"{socket.gethostname()}-{os.getpid()}-{run_id}",
            clock=clock,
            wake=self._waker.wake,
        )
        self._spool = _spool_folder(settings.spool_dir)
        self._states = HeldStates()
        self._output = StateOutput()
        self._progress = Progress(logger, clock.monotonic())
        self._streams = OpenFiles(
            settings,
            run_id=run_id,
            folder=self._spool.path,
            ids=ids,
            lake_id=LakeId(
                lambda: lake.lake_id(settings.manifest_store), self._compressor.fail, settings.max_memory_bytes
            ),
            compressor=self._compressor,
            states=self._states,
            opened=self._publisher.open,
            closed=self._publisher.publish,
        )
        self._attaching = attaching_of(
            settings, lake, sources, self._publisher.state, self._waker.wake, self._spool.path, logger
        )
        self._cut_short = False
        self._checks: dict[str, RecordCheck] = {}
        self._quarantine = Quarantine(logger) if settings.invalid_records == "quarantine" else None
        validates = settings.validate_records or self._quarantine is not None
        self._early = EarlyActivations(self._states)
        self._decoder: PassthroughDecoder | MappedDecoder = rewriter or PassthroughDecoder(
            self._checks, self._early, in_order=validates
        )
        self._decoder.early = self._early
        if rewriter is not None:
            rewriter.requires_keys = self._quarantine is None
        self._validators = Validators() if validates else None
        self._changes = SchemaChanges(settings.schema_changes or {}, self._publisher.state)
        self._refused: dict[str, tuple[Schema, SchemaChangeError]] = {}
        self._signal: int | None = None
        self._counts: Counter[str] = Counter()

    def stop(self, signal_number: int) -> None:
        """Ask the run to commit what is whole and end. Called from a signal handler: only a flag is set."""
        self._signal = signal_number

    def consume(self, source: IO[Any] | None) -> Counter[str]:
        """Take in all of the input; the counts of messages by type. Input that no Singer reader can accept ends it,
        and so does a name that no lake can, after what came before is committed and its STATE emitted. Raises
        ``InputError``, ``NameTooLongError`` and what the lake raises."""
        with self._closing_on_error(), self._waker, bar(sys.stderr) as self._progress.bar:
            try:
                rest = self._read(source)
                if self._signal is None:
                    self._take_rest(rest)
                    self._early.require_none()
            except (InputError, NameTooLongError):
                self._drain("failed")
                raise
        return self._counts

    def finish(self) -> None:
        """Commit what is open and say how it went. Raises what the lake raises."""
        with self._closing_on_error(), bar(sys.stderr) as self._progress.bar:
            self._drain("finished" if self._signal is None else "stopped")
        self._close_all()

    @property
    def broken_output(self) -> str:
        """Why STATE could not be emitted; empty where it could."""
        return self._output.broken

    def _read(self, source: IO[Any] | None) -> bytes:
        most = min(self._streams.member_bytes, self._settings.max_memory_bytes // _BLOCK_PART)
        incoming = Input(source, self._waker, most=most)
        for block in incoming.blocks(self._patience):
            if block:
                self._feed(block)
                incoming.block_bytes = self._decoder.block_bytes
            del block
            self._tick()
            if self._signal is not None:
                return b""
        return incoming.rest

    def _take_rest(self, rest: bytes) -> None:
        """What came after the last newline: a whole message that merely lacks it, or half of one."""
        if not rest.strip():
            return
        try:
            whole = isinstance(parse(rest, self._decoder.next_number, exact=False), dict)
        except InvalidMessageError:
            whole = False
        if not whole:
            left = "nothing of an atomic run" if self._settings.atomic_run else "everything before it"
            raise TruncatedInputError(
                "the input ended in the middle of a line",
                hint=f"{left} is committed; find out why the tap stopped, then run again",
                line=self._decoder.next_number,
                length=len(rest),
            )
        self._feed(rest + b"\n")

    def _patience(self) -> float:
        """Seconds until something has to be done without input."""
        now = self._clock.monotonic()
        if self._signal is not None:
            return 0.0
        oldest, age = self._streams.oldest(), self._settings.max_file_age_seconds
        due = oldest + age if oldest is not None and age else math.inf
        if self._publisher.unsettled:
            due = min(due, now + SETTLE_EVERY)
        return min(due, self._publisher.looks.next, self._progress.next_line()) - now

    def _tick(self) -> None:
        """What time and other threads have to say between two blocks."""
        self._compressor.check()
        if self._attaching:
            self._attaching.check()
        monotonic = self._streams.monotonic = self._clock.monotonic()
        age = self._settings.max_file_age_seconds
        if age:
            self._streams.close_older(monotonic - age)
        self._take_outcomes()
        while self._publisher.backlog > PENDING_FILES:
            self._take_outcomes(_WAIT)
            self._progress.tick(self._clock.monotonic())
        self._progress.tick(monotonic)

    def _feed(self, block: Block) -> None:
        self._streams.now, self._streams.monotonic = self._clock.now(), self._clock.monotonic()
        self._progress.read(len(block))
        self._take(self._decoder.messages(block, self._decoder.next_number))
        self._streams.keep_within_memory(len(block))

    def _take(self, messages: Iterator[Records | Message]) -> None:
        for message in messages:
            if self._cut_short:
                return
            if isinstance(message, Message):
                self._other(message)
            elif self._validators is None:
                self._records(message)
            else:
                for record in message.one_by_one():
                    self._records(self._validated(self._validators, record))

    def _validated(self, validators: Validators, record: Records) -> Records:
        """The record, or that of the quarantine in its place. Raises ``RecordAgainstSchemaError`` without one."""
        if record.stream in self._refused:
            return self._quarantined(record, *self._refused[record.stream])
        schema = self._schema_of(record.stream, record.number)
        try:
            validators.check(schema, record)
        except RecordAgainstSchemaError as error:
            return self._quarantined(record, schema, error)
        return record

    def _quarantined(
        self, record: Records, schema: Schema, error: RecordAgainstSchemaError | SchemaChangeError
    ) -> Records:
        if self._quarantine is None:
            raise error
        own, record = self._quarantine.take(schema, record, error)
        self._use(own)
        return record

    def _use(self, schema: Schema) -> bool:
        """Make a schema its stream's; whether it says something new."""
        if is_new := self._streams.use_schema(schema):
            self._progress.seen(schema.stream)
        return is_new

    def _records(self, records: Records) -> None:
        if self._attaching and records.stream in self._attaching:
            self._with_files(self._attaching, records)
            return
        self._streams.add(records.stream, records.data, records.count, records.times)
        self._progress.records(records.stream, records.count)
        self._counts["RECORD"] += records.count

    def _with_files(self, attaching: Attaching, records: Records) -> None:
        """Take in records whose files are attached. A signal ends it between two files, the record of which is left
        out: it may have millions. So is what comes behind it in the input, since a STATE there holds for all."""
        try:
            for line, time, files in attaching.records(records, self._tick, self._require_no_signal):
                self._streams.add(records.stream, line, 1, [time], files=files)
                self._progress.records(records.stream, 1)
                self._counts["RECORD"] += 1
                self._require_no_signal()
        except _CutShortError:
            self._cut_short = True

    def _require_no_signal(self) -> None:
        if self._signal is not None:
            raise _CutShortError

    def _other(self, message: Message) -> None:
        self._counts[message.kind] += 1
        if message.kind == "STATE":
            self._state(message)
        elif message.kind == "SCHEMA":
            self._schema(message)
        elif message.kind == "ACTIVATE_VERSION":
            self._activation(message)
        else:
            self._batch(message)

    def _schema(self, message: Message) -> None:
        known = self._streams.schema(message.stream)
        self._refused.pop(message.stream, None)
        if known is not None and known.line == message.line:
            return
        schema = schema_of(message.line, message.number)
        # Asked here, since threads that would raise it later may not have committed what came before.
        stream_segment(schema.stream)
        # A record without its key is for the quarantine.
        keys = schema.content.key_properties if self._quarantine is None else ()
        try:
            self._changes.check(schema, known, message.number)
        except SchemaChangeError as error:
            if self._quarantine is None:
                raise
            self._refused[schema.stream] = schema, error
            self._checks.setdefault(schema.stream, RecordCheck(schema.stream, keys))
        else:
            if self._use(schema):
                self._checks[schema.stream] = RecordCheck(schema.stream, keys)
                if self._attaching:
                    self._attaching.schema(schema)
        self._take_outcomes()

    def _activation(self, message: Message) -> None:
        stream, line = message.stream, message.line
        if stream in self._refused and self._quarantine is not None:
            own, line = self._quarantine.activation(self._refused[stream][0], message)
            stream = own.stream
            self._use(own)
        self._streams.add(stream, line, 1, None, held=message.held)

    def _state(self, message: Message) -> None:
        value = state_value(message.line, message.number)
        if value is not None:
            self._keep_bare()
            self._states.arrived(value)
            self._emit()

    def _keep_bare(self) -> None:
        """Have streams known that got a SCHEMA and no message: a tap may not send it again after this STATE."""
        for schema in self._streams.take_bare():
            self._publisher.keep(schema, self._states.opened())

    def _batch(self, message: Message) -> None:
        batch = Batch(message.line, message.number)
        for url in batch.urls:
            try:
                for block, number in batch.blocks(url, self._bucket):
                    self._take(self._decoder.messages(block, number))
                    self._streams.keep_within_memory(len(block))
                    self._tick()
            except InvalidMessageError as error:
                context = {**error.context, "batch_file": url}
                raise type(error)(error.message, hint=error.hint, **context) from error

    def _schema_of(self, stream: str, number: int) -> Schema:
        schema = self._streams.schema(stream)
        if schema is None:
            raise RecordBeforeSchemaError(
                "a message came before its stream's SCHEMA",
                hint="the tap must send SCHEMA first",
                line=number,
                stream=stream,
            )
        return schema

    def _take_outcomes(self, patience: float = 0.0) -> None:
        for outcome in self._publisher.outcomes(patience):
            for epoch in outcome.epochs:
                self._states.committed(epoch)
            if isinstance(outcome, Committed):
                self._progress.committed(outcome)
        self._emit()

    def _emit(self) -> None:
        value = self._states.safe()
        if value is not None:
            self._output.write(value)

    def _drain(self, status: str) -> None:
        """Commit everything that is open, and wait for it."""
        self._publisher.status = status
        self._streams.close_all()
        self._keep_bare()
        self._publisher.commit_run()
        while self._publisher.busy:
            self._take_outcomes(_WAIT)
            self._progress.tick(self._clock.monotonic())
        self._take_outcomes()
        self._publisher.settle()
        self._progress.summary()
        if self._attaching:
            self._attaching.summary()

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._close_all()
            if isinstance(error, Exception) and not isinstance(error, OUT_OF_REACH):
                self._publisher.say_failed(self._streams.names)
            raise

    def _close_all(self) -> None:
        if self._attaching:
            # First, since what is being committed may wait for files.
            self._attaching.close()
        self._compressor.close()
        self._publisher.close()
        self._spool.remove()


def _spool_folder(spool_dir: str | None) -> SpoolFolder:
    try:
        return Spools(spool_dir).make()
    except OSError as error:
        raise AccessDeniedError(
            f"the spool cannot be made: {(error.strerror or str(error)).lower()}",
            hint="set spool_dir to a folder that can be written",
            spool_dir=spool_dir or tempfile.gettempdir(),
        ) from error
