"""Erasing from one stream, and what is left of it then: files that a collection deletes later, or at once."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from singerlake.conditions import Condition
from singerlake.errors import SingerlakeError
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase_stream import erase_messages
from singerlake.upkeep.erase.matcher_cache import Meant
from singerlake.upkeep.erase.of_run import OfRun
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.progress import UNSEEN, Progress
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.result import FOR_PYTHON
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.engine import Engine


@dataclass(frozen=True, slots=True)
class ErasedFile:
    """A data file at ``key`` with so many messages that are meant, ``records`` of them RECORD messages."""

    key: str
    messages: int
    records: int


@dataclass(frozen=True, slots=True)
class LeftFile(ErasedFile):
    """The same of a file that no reader is led to. One that is not ``retired`` is listed nowhere."""

    retired: bool


@dataclass(frozen=True, slots=True)
class UnownedFile:
    """An attached file at ``key`` that no record has. ``bytes`` is None where it is not whole. One that is not
    ``retired`` is listed nowhere."""

    key: str
    bytes: int | None
    retired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseResult:
    """What was erased from a stream, or with ``dry_run`` would be: so many messages, ``records`` of them RECORD
    messages, from ``files``. All files that were read are ``looked``.

    Files ``left`` still hold what was erased, until they are deleted. ``values_held`` are the values of the condition
    that some record holds, counted from 0; it names ``values``. ``attached`` are the attached files of erased records
    that no other record has, ``unowned`` those on storage that no record has. ``deleted`` are the objects that went at
    once, with the attached files among them. ``tables`` are made from the stream: their next run makes them anew.
    ``error`` is why not all files that should have gone at once did. ``run`` is the id of the run whose messages were
    meant, None where a condition was.
    """

    tap: str
    stream: str
    messages: int
    records: int
    files: tuple[ErasedFile, ...]
    looked: Tally
    left: tuple[LeftFile, ...]
    values_held: tuple[int, ...]
    attached: Tally
    unowned: tuple[UnownedFile, ...]
    deleted: Tally
    deleted_attached: Tally
    tables: tuple[str, ...]
    findings: tuple[Finding, ...]
    error: SingerlakeError | None
    values: int = field(metadata=FOR_PYTHON)
    run: str | None = field(metadata=FOR_PYTHON)
    dry_run: bool = field(metadata=FOR_PYTHON)
    now: bool = field(metadata=FOR_PYTHON)


def erase(
    context: StreamContext,
    meant: Meant,
    *,
    now: bool,
    dry_run: bool,
    tables_from: Callable[[str], Mapping[str, tuple[str, ...]]],
    undeclared: bool = False,
    engine: Engine | None = None,
    progress: Progress = UNSEEN,
    committed: Callable[[], object] = lambda: None,
) -> EraseResult:
    """Erase what is ``meant`` from a stream. ``now``: delete the files that held it, and the attached files of what was
    erased. ``tables_from`` gives the tables that are made from each stream of a tap. ``committed`` is called when
    something was erased: an error does not undo it. Raises as ``erase_messages``, and what storage raises."""
    started = context.clock.now()
    done = erase_messages(
        context,
        meant,
        who=_who(),
        dry_run=dry_run,
        undeclared=undeclared,
        engine=engine,
        progress=progress,
        committed=committed,
    )
    if not dry_run and done.messages:
        record_run(context, "erase", done.replaced, records=done.records, started=started)
    deleted, attached, failed, findings = NONE, NONE, None, done.findings
    gone: frozenset[str] = frozenset()
    if now:
        try:
            held = frozenset(trace.id for trace in done.left if trace.id is not None)
            collected = collect_now(context, held | done.objects)
            deleted, attached = collected.deleted, collected.deleted_attached
            gone = frozenset(collected.keys)
            findings += collected.findings
        except SingerlakeError as error:
            # What was erased is erased.
            failed = error
    left = [each for each in done.left if not now or each.id is None or context.storage.head(each.key)]
    return EraseResult(
        tap=context.tap,
        stream=context.stream,
        messages=done.messages,
        records=done.records,
        files=tuple(ErasedFile(each.key, each.messages, each.records) for each in done.traces),
        looked=done.looked,
        left=tuple(LeftFile(each.key, each.messages, each.records, each.id is not None) for each in left),
        values_held=tuple(sorted(done.entries)),
        attached=done.attached,
        unowned=tuple(
            UnownedFile(each.key, each.bytes, each.id is not None) for each in done.unowned if each.key not in gone
        ),
        deleted=deleted,
        deleted_attached=attached,
        tables=tables_from(context.tap).get(context.stream, ()),
        findings=findings,
        error=failed,
        values=meant.entries if isinstance(meant, Condition) else 0,
        run=meant.run if isinstance(meant, OfRun) else None,
        dry_run=dry_run,
        now=now,
    )


def _who() -> str:
    """Who erases, as the new files say it for as long as they are there."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    # The environment may hold bytes that are no text, and the new files hold nothing else.
    return f"{user}@{socket.gethostname()}"[:200].encode("utf-8", "replace").decode()
